//! The language of comments, pages and texts for users.
//!
//! Every sentence must be clear at the first reading. The rules forbid the causes of a second reading: clauses where the field
//! has a noun, everyday words where the field has a term, two words for one concept, comments that repeat the name below them,
//! and too many comments.
//!
//! The files in `language-pending.txt` still have to be rewritten; their violations are printed and fail no test. Phrases in
//! `language-allowed.txt` are quotations.

#![allow(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the extensions of this repository are in lower case"
)]

use std::{collections::BTreeMap, fmt};

use super::{assert_none_broken, crate_paths, files_below, read_file, workspace_root};

#[path = "language/text.rs"]
mod text;

use text::{Passage, Word};

/// The list of the files to which the rules do not apply yet, one per line.
const PENDING: &str = "common/tests/language-pending.txt";
/// The list of allowed phrases: the path of a file, a colon, and the phrase.
const ALLOWED: &str = "common/tests/language-allowed.txt";

/// Forbidden phrases, and their replacements. `|` separates alternatives of a word, `*` is up to six words of a sentence.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the actor: the caller, the leader, the client"),
    ("whatever", "name the thing, or say `any`"),
    ("somebody|someone", "name the actor: a user, another writer, the caller"),
    ("everybody|everyone", "name the actors: all clients, every standby"),
    ("nobody", "say what happens without an actor: no process, no controller, unheld"),
    ("so-and-so", "name the thing"),
    ("such-and-such", "name the thing"),
    ("is|are|was|were|be|been|being told", "reported, announced, notified, configured"),
    ("told by|of|from|apart", "recognized by, distinguished by, notified of"),
    ("tells of", "reports"),
    ("heard", "received, observed, seen in the watch"),
    ("gone for", "absent since"),
    ("what * is none", "rewrite the clause around a noun"),
    ("that|those is|are none", "rewrite the clause around a noun"),
    ("is none", "there is no ..., or: is absent, is not a ..."),
    ("that of which", "name the thing"),
    ("of whom|whose", "rewrite around a noun"),
    ("who is asked", "name the server"),
    ("looked at|on|again", "considered, read, judged"),
    ("looks at|on|again|after", "considers, reads, judges"),
    ("is|are|was|were ill", "fails its health check"),
    ("is|are over", "has finished, has ended"),
    ("is|are going away", "is terminating"),
    ("going away", "terminating"),
    ("carry|carries|carried|carrying out", "act, execute, apply"),
    ("carry|carries|carried * out", "act, execute, apply"),
    ("is|are news", "is new, has changed"),
    ("minded|minds", "considers, respects"),
    ("dull", "say what does not happen"),
    ("for want of", "because there is no, without"),
    ("by how much", "the difference, the margin"),
    ("for how long", "how long"),
    ("after how long", "how long until"),
    ("luck", "name the event"),
    ("sees|see to it", "ensures"),
    ("the like", "name the things"),
    ("as far as anybody", "as far as this process can observe"),
    ("anybody|anyone", "any client, any process"),
    ("stands|stand on its|their own", "is independent of"),
    ("has|have a say", "decides, reports its own state"),
    ("knows better", "has newer data"),
    ("goes|go on as before", "continues unchanged"),
    ("of its that|which", "owned by it that"),
];

/// Other words for the concepts that have one word in docs/glossary.md, each with that word.
const SYNONYMS: &[(&str, &str)] = &[
    ("resource version|versions", "version"),
    ("handover|handovers", "hand-over"),
    ("takeover|takeovers", "take-over"),
    ("backoff|backoffs", "back-off"),
    ("roll-back|roll-backs", "rollback"),
    ("roll-out|roll-outs", "rollout"),
    ("look-up|look-ups", "lookup"),
    ("pre-condition|pre-conditions", "precondition"),
    ("stand-by|stand-bys", "standby"),
    ("cache store", "store"),
];

/// The most lines of comments for a hundred lines of code, by crate.
const DENSITY: &[(&str, usize)] = &[
    ("common/client", 16),
    ("common/control", 17),
    ("common/objects", 13),
    ("common/platform", 17),
    ("common/service", 11),
    ("clusterrole-controller", 21),
    ("cronjob-controller", 16),
    ("daemonset-controller", 16),
    ("deploy/kubectl-nonet", 13),
    ("disruption-controller", 17),
    ("deployment-controller", 15),
    ("e2e", 15),
    ("e2e/sandbox", 8),
    ("e2e/simulation", 11),
    ("e2e/testkit", 23),
    ("e2e/tools", 12),
    ("endpointslice-controller", 15),
    ("gc-controller", 15),
    ("job-controller", 14),
    ("namespace-controller", 19),
    ("node-lifecycle-controller", 15),
    ("replicaset-controller", 15),
    ("resourcequota-controller", 19),
    ("serviceaccount-controller", 26),
    ("statefulset-controller", 15),
    ("volume-controller", 16),
];

/// A violation of a rule in a line, with the advice for the author.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    phrase: String,
    why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}", self.line, self.phrase, self.why)
    }
}

/// Returns the count of words that a pattern matches at the beginning of `words`; `None` if it does not match.
fn matches(pattern: &[&str], words: &[Word]) -> Option<usize> {
    const GAP: usize = 6;
    let Some((first, rest)) = pattern.split_first() else { return Some(0) };
    if *first == "*" {
        for skipped in 0..=GAP.min(words.len()) {
            if skipped > 0 && words[skipped - 1].ends_sentence {
                return None;
            }
            if let Some(end) = matches(rest, &words[skipped..]) {
                return Some(skipped + end);
            }
        }
        return None;
    }
    let word = words.first().filter(|word| first.split('|').any(|alternative| alternative == word.text))?;
    if word.ends_sentence && !rest.is_empty() {
        return None;
    }
    matches(rest, &words[1..]).map(|end| end + 1)
}

/// Returns the forbidden phrases in a passage.
fn phrases(passage: &Passage) -> Vec<Finding> {
    let patterns = PHRASES.iter().map(|(pattern, better)| (*pattern, format!("better: {better}")));
    let synonyms = SYNONYMS.iter().map(|(pattern, word)| (*pattern, format!("docs/glossary.md calls it {word}")));
    let mut found: BTreeMap<usize, (usize, Finding)> = BTreeMap::new();
    for (pattern, why) in patterns.chain(synonyms) {
        let pattern: Vec<&str> = pattern.split(' ').collect();
        for at in 0..passage.words.len() {
            let Some(end) = matches(&pattern, &passage.words[at..]) else { continue };
            let phrase: Vec<&str> = passage.words[at..at + end].iter().map(|word| word.text.as_str()).collect();
            let finding = Finding { line: passage.words[at].line, phrase: phrase.join(" "), why: why.clone() };
            // One finding for each place: that of the first matching pattern.
            found.entry(at).or_insert((at + end, finding));
        }
    }
    let mut covered = 0;
    found.retain(|at, (end, _)| {
        let is_apart = *at >= covered;
        covered = covered.max(*end);
        is_apart
    });
    found.into_values().map(|(_, finding)| finding).collect()
}

/// Words that do not count when a comment is compared with a name.
const EMPTY: [&str; 10] = ["a", "an", "the", "of", "this", "that", "its", "it", "is", "s"];

/// Returns the words of an identifier, in lower case and sorted, without the words in [`EMPTY`].
pub(super) fn parts(identifier: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if let Some(last) = parts.last_mut().filter(|_| c != '_') {
            last.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty() && !EMPTY.contains(&part.as_str()));
    parts.sort();
    parts
}

/// Whether the first line of a comment has no other words than the identifier below it.
fn repeats(comment: &str, identifier: &str) -> bool {
    // A span of code refers to something other than the identifier, such as a flag.
    if comment.contains('`') {
        return false;
    }
    let words = comment.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let mut words: Vec<String> = words.filter(|word| !word.is_empty() && !EMPTY.contains(&word.as_str())).collect();
    words.sort();
    !words.is_empty() && words == parts(identifier)
}

/// Returns the name of the item, field or variant that a line of code declares.
fn declared(line: &str) -> Option<&str> {
    const BEFORE: [&str; 9] = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "static", "mut", "ref"];
    const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "mod", "union", "macro_rules!"];
    let words: Vec<&str> = line.split_whitespace().collect();
    let word = words.iter().find(|word| !BEFORE.contains(word) && !ITEMS.contains(word))?;
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    Some(&word[..end]).filter(|name| !name.is_empty())
}

/// Returns the comments of a Rust file that only repeat the identifier below them.
fn repetitions(source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut first: Option<(usize, &str, bool)> = None;
    for (number, line) in (1..).zip(source.lines().map(str::trim)) {
        if let Some(comment) = line.strip_prefix("///") {
            first = Some(match first {
                // A comment with a second line is no repetition.
                Some((at, comment, _)) => (at, comment, true),
                None => (number, comment.trim(), false),
            });
        } else if !line.starts_with("#[") && !line.starts_with(")]") {
            let name = declared(line);
            if let (Some((at, comment, has_more)), Some(name)) = (first, name)
                && !has_more
                && repeats(comment, name)
            {
                let why =
                    "the comment repeats the name: say the unit, the range, the default or the invariant".to_owned();
                found.push(Finding { line: at, phrase: comment.to_owned(), why });
            }
            first = None;
        }
    }
    found
}

/// Returns all violations of the rules in a file.
fn findings(path: &str, content: &str) -> Vec<Finding> {
    let passages = text::passages(path, content);
    let mut found: Vec<Finding> = passages.iter().flat_map(phrases).collect();
    if path.ends_with(".rs") && !path.starts_with("e2e/") {
        found.extend(repetitions(content));
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// Returns the lines of a list, without comments and empty lines.
fn entries(list: &str) -> Vec<&str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Files to which the rules apply, apart from those of the crates and of whole directories.
const PAGES: &str = "README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md Cargo.toml common/fuzz/README.md \
    e2e/README.md e2e/src/lib.rs e2e/sandbox/src/lib.rs \
    e2e/simulation/README.md e2e/simulation/src/lib.rs e2e/simulation/src/flags.rs e2e/simulation/src/command.rs \
    e2e/tools/README.md e2e/tools/src/lib.rs e2e/tools/src/playground.rs e2e/tools/src/bench.rs";

/// Returns the files to which the rules apply. Of e2e, these are only its first pages.
fn held() -> Vec<String> {
    let mut held = Vec::new();
    for name in crate_paths().into_iter().filter(|name| !name.starts_with("e2e")) {
        held.extend(files_below(&name, ".rs"));
    }
    for (directory, endings) in [("deploy", [".yaml", ".md"]), (".github", [".yml", ".md"]), ("docs", [".md", ".toml"])]
    {
        held.extend(endings.iter().flat_map(|ending| files_below(directory, ending)));
    }
    held.extend(PAGES.split_whitespace().map(str::to_owned));
    // These files quote the forbidden phrases. The reference pages are generated from texts that are checked at their source.
    held.retain(|path| {
        let is_generated =
            path.starts_with("docs/reference/") && !path.ends_with("/stuck.md") && !path.ends_with("/deploy.md");
        !is_generated && !path.starts_with("common/tests/tidy")
    });
    held.sort();
    held.dedup();
    held
}

#[test]
fn language() {
    let (pending, allowed) = (read_file(PENDING), read_file(ALLOWED));
    let (pending, allowed) = (entries(&pending), entries(&allowed));
    let is_allowed = |path: &str, finding: &Finding| {
        let mut of_path = allowed.iter().filter_map(|entry| entry.split_once(": ")).filter(|(of, _)| *of == path);
        of_path.any(|(_, phrase)| finding.phrase.eq_ignore_ascii_case(phrase))
    };
    let (mut wrong, mut later, mut clean) = (Vec::new(), 0, Vec::new());
    for path in held() {
        let found = findings(&path, &read_file(&path));
        let found: Vec<String> = found
            .iter()
            .filter(|finding| !is_allowed(&path, finding))
            .map(|finding| format!("{path}:{finding}"))
            .collect();
        if !pending.contains(&path.as_str()) {
            wrong.extend(found);
        } else if found.is_empty() {
            clean.push(path);
        } else {
            later += found.len();
            println!("{}", found.join("\n"));
        }
    }
    println!("{later} findings in files of {PENDING}, which do not count");
    for path in &clean {
        println!("{path}: clean, so that its line in {PENDING} can go");
    }
    let gone = pending.iter().filter(|path| !workspace_root().join(path).exists());
    gone.for_each(|path| println!("{path}: gone, so that its line in {PENDING} can go"));
    assert_none_broken(wrong);
}

/// Returns the counts of comment lines and of code lines in a crate, tests included.
fn lines(name: &str) -> (usize, usize) {
    let (mut comments, mut code) = (0, 0);
    for path in files_below(&format!("{name}/src"), ".rs") {
        for line in read_file(&path).lines().map(str::trim).filter(|line| !line.is_empty()) {
            *(if line.starts_with("//") { &mut comments } else { &mut code }) += 1;
        }
    }
    (comments, code)
}

#[test]
fn language_takes_no_more_comments_than_now() {
    let mut wrong = Vec::new();
    for name in crate_paths() {
        let (comments, code) = lines(&name);
        // A crate with little code needs more comments in proportion.
        if code < 200 {
            continue;
        }
        let now = (comments * 100).div_ceil(code);
        println!("{name}: {now} lines of comments for 100 lines of code");
        match DENSITY.iter().find(|(known, _)| *known == name) {
            Some((_, most)) if now <= *most => {}
            Some((_, most)) => {
                wrong.push(format!("{name}: {now} lines of comments for 100 lines of code, at most {most}"));
            }
            None => wrong.push(format!("{name}: its density of comments, {now}, is not in DENSITY")),
        }
    }
    assert_none_broken(wrong);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, content: &str) -> Vec<(usize, String)> {
        findings(path, content).into_iter().map(|finding| (finding.line, finding.phrase)).collect()
    }

    #[test]
    fn phrases_are_found_across_lines_and_not_in_code() {
        let source = "/// Calls whoever asks, and is\n/// told by the server. `whatever` is a name.\nfn whatever() {}\n\
            let x = \"nobody\";\nlet y = \"an error that nobody expects here\";\n";
        let expected = [(1, "whoever"), (1, "is told"), (5, "nobody")];
        let expected = expected.map(|(line, phrase)| (line, phrase.to_owned()));
        assert_eq!(found("a.rs", source), expected);
    }

    #[test]
    fn a_gap_stays_inside_a_sentence() {
        assert_eq!(found("a.md", "What has no version is none.\n").len(), 1);
        assert_eq!(found("a.md", "Say what it does. There is none of it.\n"), [(1, "is none".to_owned())]);
    }

    #[test]
    fn words_are_whole_words() {
        for text in ["Overheard it.", "A takeover-like thing", "Looking atoms", "The rollback"] {
            assert_eq!(found("a.md", text), Vec::new(), "{text}");
        }
        assert_eq!(
            found("a.md", "A roll-back by Resource versions"),
            [(1, "roll-back".to_owned()), (1, "resource versions".to_owned())]
        );
    }

    #[test]
    fn fenced_blocks_and_keys_of_yaml_are_not_read() {
        assert_eq!(found("a.md", "```console\n$ echo nobody\n```\n"), Vec::new());
        assert_eq!(found("a.yaml", "# Nobody\nname: nobody\nother: x # whatever\n").len(), 2);
    }

    #[test]
    fn comments_that_repeat_a_name_are_recognized() {
        for (comment, name) in [
            ("The name.", "name"),
            ("Name of the Lease.", "lease_name"),
            ("A queue metrics.", "QueueMetrics"),
            ("Its uid", "uid"),
        ] {
            assert!(repeats(comment, name), "{comment} {name}");
        }
        for (comment, name) in [("The name of the Lease.", "name"), ("", "name"), ("Seconds.", "timeout")] {
            assert!(!repeats(comment, name), "{comment} {name}");
        }
        let source = "/// The name.\npub(crate) name: String,\n/// Name.\n///\n/// In full.\npub fn name() {}\n/// Kind.\n#[serde(default)]\nKind(u8),\n";
        assert_eq!(found("a.rs", source), [(1, "The name.".to_owned()), (7, "Kind.".to_owned())]);
    }

    #[test]
    fn declarations_name_what_they_declare() {
        for (line, expected) in [
            ("pub async fn read_all(&self) {", Some("read_all")),
            ("pub(super) struct Plan<T> {", Some("Plan")),
            ("pub const MOST: usize = 3;", Some("MOST")),
            ("pub name: String,", Some("name")),
            ("Ready,", Some("Ready")),
            ("}", None),
        ] {
            assert_eq!(declared(line), expected, "{line}");
        }
    }
}
