//! The sentences of a file: comments, texts for users, and prose.

/// A word in lower case, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) line: usize,
    /// Whether this word ends a sentence, or the part of a sentence before a colon or semicolon.
    pub(super) ends_sentence: bool,
}

/// The words of one text: a comment, a literal or a paragraph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) words: Vec<Word>,
}

impl Passage {
    /// Adds a line of prose. Spans of code are left out.
    fn add(&mut self, line: usize, prose: &str) {
        let without_code = prose.split('`').step_by(2).collect::<Vec<_>>().join(" _ ");
        for word in without_code.split_whitespace() {
            let is_end = word.trim_end_matches(['"', '\'', ')', '*', '_']).ends_with(['.', ':', ';', '!', '?', ',']);
            let ends_sentence = is_end && !word.ends_with(',');
            let text = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            if !text.is_empty() {
                self.words.push(Word { text, line, ends_sentence });
            } else if ends_sentence && let Some(last) = self.words.last_mut() {
                last.ends_sentence = true;
            }
        }
    }
}

/// Returns the passages of a file. The extension in `path` determines the format.
pub(super) fn passages(path: &str, content: &str) -> Vec<Passage> {
    if path.ends_with(".rs") {
        let only_head = path.starts_with("e2e/");
        if only_head { joined(content, head_of_module) } else { rust(content) }
    } else if path.ends_with(".md") {
        markdown(content)
    } else {
        joined(content, comment_of_data)
    }
}

/// Returns one passage for each run of lines in which `prose` finds text.
fn joined(content: &str, prose: fn(&str) -> Option<&str>) -> Vec<Passage> {
    let mut passages = vec![Passage::default()];
    for (number, line) in (1..).zip(content.lines()) {
        match (prose(line), passages.last_mut()) {
            (Some(text), Some(open)) if !text.trim().is_empty() => open.add(number, text),
            _ => passages.push(Passage::default()),
        }
    }
    passages.retain(|passage| !passage.words.is_empty());
    passages
}

fn head_of_module(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//!")
}

fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).or_else(|| line.strip_prefix("//"))
}

/// Returns the comment in a line of YAML or TOML.
fn comment_of_data(line: &str) -> Option<&str> {
    match line.trim_start().strip_prefix('#') {
        Some(comment) => Some(comment),
        None => line.split_once(" # ").map(|(_, comment)| comment),
    }
}

fn rust(content: &str) -> Vec<Passage> {
    let mut passages = joined(content, comment);
    for (number, line) in (1..).zip(content.lines()).filter(|(_, line)| comment(line).is_none()) {
        for literal in literals(line) {
            // A text for users has at least four words.
            if literal.split_whitespace().filter(|word| word.len() > 1).count() >= 4 {
                let mut passage = Passage::default();
                passage.add(number, literal);
                passages.push(passage);
            }
        }
    }
    passages
}

/// Returns the string literals in a line of Rust. A literal without an end in this line reaches to the end of the line.
fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    let mut is_escaped = false;
    for (at, c) in line.char_indices() {
        match (c, start) {
            ('\\', Some(_)) if !is_escaped => {
                is_escaped = true;
                continue;
            }
            ('"', None) => start = Some(at + 1),
            ('"', Some(from)) if !is_escaped => {
                found.push(&line[from..at]);
                start = None;
            }
            _ => {}
        }
        is_escaped = false;
    }
    found.extend(start.map(|from| &line[from..]));
    found
}

/// Returns the paragraphs outside of fenced code blocks.
fn markdown(content: &str) -> Vec<Passage> {
    let mut passages = vec![Passage::default()];
    let mut is_fenced = false;
    for (number, line) in (1..).zip(content.lines()) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let begins = trimmed.is_empty() || trimmed.starts_with(['#', '|', '-']) || trimmed.starts_with("```");
        if begins {
            passages.push(Passage::default());
        }
        if !is_fenced && let Some(open) = passages.last_mut() {
            open.add(number, trimmed);
        }
    }
    passages.retain(|passage| !passage.words.is_empty());
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(passages: &[Passage]) -> Vec<String> {
        let text =
            |passage: &Passage| passage.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        passages.iter().map(text).collect()
    }

    #[test]
    fn comments_and_texts_of_rust_are_passages() {
        let source = "/// One `x` two.\n/// Three\nlet a = \"too short here\";\nlet b = \"this is long \\\"enough\\\" here\"; // not read\n";
        assert_eq!(texts(&passages("a.rs", source)), ["one two three", "this is long enough here"]);
        assert_eq!(texts(&passages("e2e/src/lib.rs", "//! Head.\n/// Other.\n")), ["head"]);
    }

    #[test]
    fn paragraphs_of_pages_are_passages() {
        let page = "# Title\nfirst\nsecond\n\n- item\n  more\n- next\n```text\nno\n```\nlast\n";
        assert_eq!(texts(&passages("a.md", page)), ["title first second", "item more", "next", "last"]);
    }

    #[test]
    fn literals_of_a_line() {
        assert_eq!(literals("f(\"a\", \"b \\\" c\", \"open"), ["a", "b \\\" c", "open"]);
    }
}
