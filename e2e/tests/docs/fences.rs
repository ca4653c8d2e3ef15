//! Fenced blocks of code: each has a language, and data parses.

use std::collections::BTreeSet;

use super::{check, files, markdown, markdown::Fence, pages, read};

/// The languages that blocks may have. Those without a check here are shown and not read.
///
/// `rust,ignore` is a sketch, `rust` is quoted from the sources, where it is compiled.
const LANGUAGES: [&str; 8] = ["console", "json", "promql", "rust", "rust,ignore", "sh", "text", "yaml"];

/// What is wrong with a block. `sources` are the lines of all Rust files, trimmed.
fn trouble(fence: &Fence, is_source: &dyn Fn(&str) -> bool) -> Option<String> {
    let text = fence.lines.join("\n");
    match fence.language.as_str() {
        "" => Some("the block has no language".to_owned()),
        "json" => serde_json::from_str::<serde_json::Value>(&text).err().map(|e| e.to_string()),
        "yaml" => serde_saphyr::from_multiple::<serde_json::Value>(&text).err().map(|e| e.to_string()),
        // It is compiled where it comes from.
        "rust" => {
            let lines = fence.lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
            lines.filter(|line| !is_source(line)).map(|line| format!("no source has the line {line:?}")).next()
        }
        known if LANGUAGES.contains(&known) => None,
        other => Some(format!("no block has the language {other:?}: see LANGUAGES")),
    }
}

/// The fenced blocks of all pages, each with its page.
pub(super) fn fences() -> impl Iterator<Item = (String, Fence)> {
    pages().into_iter().flat_map(|page| {
        let fences = markdown::parse(&read(&page)).fences.into_iter();
        fences.map(move |fence| (page.clone(), fence))
    })
}

#[test]
fn every_block_has_a_language_and_parses() {
    let is_rust = |path: &String| path.ends_with(".rs") && !path.starts_with("e2e/tests/docs/");
    let sources: Vec<String> = files().iter().filter(|path| is_rust(path)).map(|path| read(path)).collect();
    let lines: BTreeSet<&str> = sources.iter().flat_map(|text| text.lines().map(str::trim)).collect();
    let wrong = fences().filter_map(|(page, fence)| {
        let why = trouble(&fence, &|line| lines.contains(line))?;
        Some(format!("{page}:{}: {why}", fence.line))
    });
    check(wrong.collect());
}

/// The crates whose code the sketches of `docs/add-a-controller.md` shorten.
const SKETCHED: [&str; 2] = ["cronjob-controller/src/", "common/"];

/// The words of a line of code, without its strings and its comment.
fn code_words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    let outside = code.split('"').step_by(2);
    outside
        .flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with(char::is_alphabetic))
}

#[test]
fn sketches_use_the_names_of_the_code() {
    let is_sketched = |path: &&String| path.ends_with(".rs") && SKETCHED.iter().any(|prefix| path.starts_with(prefix));
    let sources: Vec<String> = files().iter().filter(is_sketched).map(|path| read(path)).collect();
    let in_code: BTreeSet<&str> = sources.iter().flat_map(|text| text.lines().flat_map(code_words)).collect();
    let mut wrong = Vec::new();
    for (page, fence) in fences().filter(|(_, fence)| fence.language == "rust,ignore") {
        for (number, line) in (fence.line + 1..).zip(&fence.lines) {
            let unknown = code_words(line).filter(|word| !in_code.contains(word));
            wrong.extend(unknown.map(|word| format!("{page}:{number}: no code has the name `{word}`")));
        }
    }
    check(wrong);
}

#[test]
fn broken_blocks_are_recognized() {
    let fence = |language: &str, text: &str| Fence {
        line: 1,
        language: language.to_owned(),
        lines: text.lines().map(str::to_owned).collect(),
    };
    let is_source = |line: &str| line == "let x = 1;";
    for (language, text) in [("", "x"), ("json", "{"), ("yaml", "a: b: c"), ("rust", "let y = 2;"), ("bash", "x")] {
        assert!(trouble(&fence(language, text), &is_source).is_some(), "{language}");
    }
    for (language, text) in
        [("console", "$ x"), ("json", "{\"a\": 1}"), ("yaml", "a: [1]\n"), ("rust", "  let x = 1;\n")]
    {
        assert_eq!(trouble(&fence(language, text), &is_source), None, "{language}");
    }
}
