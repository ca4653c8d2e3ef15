//! The names of bindings and parameters.
//!
//! A binding of a field keeps a word of the field's name, and a parameter keeps a word of its type's name. A reader then does not
//! have to open the definition.

use std::collections::BTreeSet;

use super::{assert_none_broken, code_lines, crate_paths, language::parts as words_of_identifier, source_files};

/// Names that need no word of their field or type, with the reasons. A single letter needs none, either.
const FREE_NAMES: &[(&str, &str)] = &[
    ("self new other it", "words of the language and of its idioms"),
    ("old known now", "one of two states of a thing, or the instant of a decision"),
    ("io key controller", "every crate gives the name to the same thing"),
];
/// Types of which the parameter says the role, not the word, with the reasons.
const GENERIC_TYPES: &[(&str, &str)] = &[
    ("Text JsonStr RawJson Object Value Labels Digest IntOrString Duration Timestamp", "representations of a value"),
    ("HashMap HashSet Receiver SharedInformer Informer Store Api Counters", "containers, of which the content counts"),
    ("Key Item Uid ResourceVersion Meta NamespacedName Resource Condition", "parts of any object"),
    ("Snapshot Plan Error", "each loop or crate has its own"),
];
/// Types around the type that counts.
const WRAPPERS: &[&str] = &["mut", "dyn", "impl", "Arc", "Option", "Vec", "Box", "Mutex"];
/// Words that must not occur in identifiers, because the field has another word for the concept.
const FORBIDDEN_WORDS: &str = "whoever whatever somebody someone everybody everyone nobody anybody anyone luck dull minded \
    heard sight brake fleet roster heir office blindness victim";

/// Whether one of the lists above has a word.
fn lists(list: &[(&str, &str)], word: &str) -> bool {
    list.iter().any(|(words, _)| words.split(' ').any(|listed| listed == word))
}

/// Returns the words of a name in lower case, with the singular of each.
fn words(name: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = words_of_identifier(name).into_iter().collect();
    for word in found.clone() {
        found.extend(word.strip_suffix("ies").map(|stem| format!("{stem}y")));
        found.extend([word.strip_suffix("es"), word.strip_suffix('s')].into_iter().flatten().map(str::to_owned));
        if word.starts_with("reference") {
            found.insert("ref".to_owned());
        }
    }
    found
}

/// Whether a name may stand for a field or type.
fn fits(name: &str, definition: &str) -> bool {
    name.len() == 1
        || lists(FREE_NAMES, name)
        || lists(FREE_NAMES, definition)
        || !words(name).is_disjoint(&words(definition))
}

/// Returns the tokens of product code with their lines: identifiers, lifetimes and punctuation. Of a text, only a quote.
fn tokens(lines: &[(usize, String)]) -> Vec<(usize, &str)> {
    let (mut found, mut is_in_text) = (Vec::new(), false);
    for (number, line) in lines {
        let mut rest = line.as_str();
        while let Some(first) = rest.chars().next() {
            let mut length = first.len_utf8();
            if is_in_text {
                length = if first == '\\' { rest.len().min(2) } else { length };
                is_in_text = first != '"';
            } else if first == '"' {
                is_in_text = true;
                found.push((*number, "\""));
            } else if first.is_alphanumeric() || first == '_' || first == '\'' {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                length += rest[length..].find(|c| !is_word(c)).unwrap_or(rest.len() - length);
                if first == '\'' && (length == 1 || rest[length..].starts_with('\'')) {
                    // A character: 'a', '"' or '\n'.
                    length = 3.max(rest[2..].find('\'').map_or(0, |end| end + 3)).min(rest.len());
                } else {
                    found.push((*number, &rest[..length]));
                }
            } else if !first.is_whitespace() {
                length = if ["->", "=>", "==", "::", "||", ".."].contains(&rest.get(..2).unwrap_or_default()) {
                    2
                } else {
                    length
                };
                found.push((*number, &rest[..length]));
            }
            rest = &rest[length..];
        }
    }
    found
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_lowercase() || c == '_')
}

/// Returns the types that product code defines.
fn defined_types<'a>(tokens: &[(usize, &'a str)]) -> Vec<&'a str> {
    let defines = |pair: &&[(usize, &'a str)]| ["struct", "enum", "trait", "type"].contains(&pair[0].1);
    tokens.windows(2).filter(defines).map(|pair| pair[1].1).filter(|name| !lists(GENERIC_TYPES, name)).collect()
}

/// Returns the type in a list of tokens that counts: without references, wrappers and the path of its module.
fn type_that_counts<'a>(tokens: &[(usize, &'a str)]) -> &'a str {
    let is_around = |token: &str| {
        WRAPPERS.contains(&token) || ["&", "(", "[", "<", "::"].contains(&token) || token.starts_with('\'')
    };
    let mut rest = tokens.iter().map(|(_, token)| *token);
    rest.find(|token| !is_around(token) && (*token == "fn" || !is_identifier(token))).unwrap_or_default()
}

/// Returns the parameters of a function or closure whose list begins at `tokens[0]`, with their types.
fn parameters<'a>(tokens: &[(usize, &'a str)], end: &str) -> Vec<(usize, &'a str, &'a str)> {
    let (mut found, mut depth) = (Vec::new(), 1);
    for at in 1..tokens.len() {
        match tokens[at].1 {
            token if token == end && depth == 1 => break,
            "(" | "[" | "<" | "{" => depth += 1,
            ")" | "]" | ">" | "}" => depth -= 1,
            name if depth == 1 && is_identifier(name) && tokens.get(at + 1).is_some_and(|(_, next)| *next == ":") => {
                found.push((tokens[at].0, name, type_that_counts(&tokens[at + 2..])));
            }
            _ => {}
        }
    }
    found
}

/// Returns the fields that the pattern with the brace `tokens[0]` renames; none if it is not a pattern.
fn renamed_fields<'a>(tokens: &[(usize, &'a str)]) -> Vec<(usize, &'a str, &'a str)> {
    let Some(end) = tokens.iter().skip(1).position(|(_, token)| ["{", "}", ";"].contains(token)) else {
        return Vec::new();
    };
    let (inside, after) = (&tokens[..=end + 1], tokens[end + 1..].iter().map(|(_, token)| *token));
    let mut after = after.skip_while(|token| ["}", ")"].contains(token));
    if inside[end + 1].1 != "}" || !after.next().is_some_and(|token| ["=>", "=", "|", "if", ":"].contains(&token)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in 1..=end {
        let mut local = inside[at + 1..].iter().skip(1).filter(|(_, token)| !["ref", "mut"].contains(token));
        if ["{", ","].contains(&inside[at - 1].1)
            && inside[at + 1].1 == ":"
            && let (Some((line, name)), Some((_, "," | "}"))) = (local.next(), local.next())
            && is_identifier(name)
        {
            found.push((*line, inside[at].1, *name));
        }
    }
    found
}

/// Returns the findings in product code with their lines.
fn findings(tokens: &[(usize, &str)], types: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let (line, token) = tokens[at];
        let before = if at > 0 { tokens[at - 1].1 } else { ";" };
        let is_forbidden = |word: &String| FORBIDDEN_WORDS.split_whitespace().any(|forbidden| forbidden == word);
        if words(token).iter().any(is_forbidden) {
            found.push((line, format!("word {token}")));
        }
        let listed = match token {
            // Not the type `fn(u8)`.
            "fn" if tokens.get(at + 1).is_some_and(|(_, name)| is_identifier(name)) => {
                let generics = tokens[at..].iter().skip(2).scan(0, |depth, (_, token)| {
                    *depth += i32::from(*token == "<") - i32::from(*token == ">");
                    Some((*depth, *token))
                });
                let start = generics.take_while(|step| *step != (0, "(")).count();
                parameters(&tokens[(at + 2 + start).min(tokens.len())..], ")")
            }
            "|" if ["(", ",", "=", "{", ";", "move", "=>", ":", "return"].contains(&before) => {
                parameters(&tokens[at..], "|")
            }
            "{" if before.starts_with(char::is_uppercase) => {
                for (line, field, local) in renamed_fields(&tokens[at..]) {
                    if !fits(local, field) && local != "true" && local != "false" && local != "_" {
                        found.push((line, format!("binding {field}: {local}")));
                    }
                }
                continue;
            }
            _ => continue,
        };
        for (line, name, of) in listed.into_iter().filter(|(_, name, of)| types.contains(*of) && !fits(name, of)) {
            found.push((line, format!("parameter {name}: {of}")));
        }
    }
    found
}

#[test]
fn names_keep_the_word_of_their_field_or_type() {
    let crates = crate_paths().into_iter().filter(|name| !name.starts_with("e2e") && !name.starts_with("deploy"));
    let files: Vec<_> = crates.flat_map(|name| source_files(&name)).map(|path| (code_lines(&path), path)).collect();
    let files: Vec<_> = files.iter().map(|(lines, path)| (path, tokens(lines))).collect();
    let types = files.iter().flat_map(|(_, tokens)| defined_types(tokens)).map(str::to_owned).collect();
    let wrong = files.iter().flat_map(|(path, tokens)| {
        let findings = findings(tokens, &types).into_iter();
        findings.map(move |(line, finding)| format!("{path}:{line}: {finding}: use a word of the field or type"))
    });
    assert_none_broken(wrong.collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let lines: Vec<_> = source.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
        let tokens = tokens(&lines);
        let types = ["PodSummary", "OwnerRef", "WrittenVersions"].map(str::to_owned).into();
        findings(&tokens, &types).into_iter().map(|(_, finding)| finding).collect()
    }

    #[test]
    fn parameters_without_a_word_of_their_type_are_found() {
        for source in [
            "fn f(situation: &PodSummary) {}",
            "pub async fn f<K: Into<u8>>(&self, name: &str, situation: &'a mut Arc<Option<Vec<PodSummary>>>) -> u8 {",
            "let is_idle = |situation: &common::PodSummary| true;",
            "let both = ('\"', '\\'', \"a \\\" (\"); fn f(\n    situation: impl PodSummary,\n)",
        ] {
            assert_eq!(found(source), ["parameter situation: PodSummary"], "{source}");
        }
        for source in [
            "fn f(summary: PodSummary, live_pod: &PodSummary, summaries: Vec<PodSummary>, reference: OwnerRef) {}",
            "fn f(s: PodSummary, old: PodSummary, situation: Vec<u8>) { let situation: PodSummary = new; }",
            "struct World { situation: PodSummary }\nlet world = World { situation: PodSummary };",
            "let text = \"fn f(situation: PodSummary)\";",
            "match text { \"\" | \"a\" => World { situation: PodSummary } }",
            "fn f(situation: fn(&PodSummary)) -> World { World { situation: PodSummary } }",
        ] {
            assert_eq!(found(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn bindings_without_a_word_of_their_field_are_found() {
        for source in [
            "let PodSummary { active: running, .. } = summary;",
            "match x { Step::Wait { active: ref mut running } => 1 }",
            "if let Some(A { b, active: running }) = x {}",
            "let f = |PodSummary { active: running }: &PodSummary| 1;",
        ] {
            assert_eq!(found(source).len(), 1, "{source}");
            assert_eq!(found(source)[0], "binding active: running");
        }
        for source in [
            "let PodSummary { active, ready_pods: pods, total: _, now: n } = summary;",
            "let summary = PodSummary { active: running };",
            "let x = f(PodSummary { active: running, ..other }) == 3;",
            "A { active: Some(running), is_ready: true } => 1",
        ] {
            assert_eq!(found(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn words_of_the_old_vocabulary_are_found() {
        assert_eq!(found("let fleet_size = self.heirs;"), ["word fleet_size", "word heirs"]);
    }
}
