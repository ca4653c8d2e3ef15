//! Links and mentions of files.

use std::collections::{BTreeMap, BTreeSet};

use super::{check, files, markdown, pages, prose, read, root};

/// Anchors of each page, by its path.
struct Anchors(BTreeMap<String, BTreeSet<String>>);

impl Anchors {
    fn of_all_pages() -> Self {
        let anchors = |page: &String| markdown::anchors(&markdown::parse(&read(page))).into_iter().collect();
        Self(pages().into_iter().map(|page| (page.clone(), anchors(&page))).collect())
    }

    /// Why a target does not exist, given the directory that it is relative to.
    fn trouble(&self, directory: &str, from: &str, target: &str) -> Option<String> {
        let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let path = if path.is_empty() { from.to_owned() } else { joined(directory, path)? };
        if !root().join(&path).exists() {
            return Some(format!("{path} does not exist"));
        }
        let anchor = anchor?;
        let has_anchor = self.0.get(&path).is_some_and(|anchors| anchors.contains(anchor));
        // Lines of files, as GitHub shows them.
        let is_line = anchor.starts_with('L') && !path.ends_with(".md");
        (!has_anchor && !is_line).then(|| format!("{path} has no section #{anchor}"))
    }
}

/// A path from the root of the repository.
fn joined(directory: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !["", "."].contains(part)) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let anchors = Anchors::of_all_pages();
    let mut wrong = Vec::new();
    // The list of the book has a test of its own.
    for page in pages().into_iter().filter(|page| page != "docs/SUMMARY.md") {
        for (line, target) in markdown::links(&markdown::parse(&read(&page))) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let trouble = anchors.trouble(directory(&page), &page, &target);
            wrong.extend(trouble.map(|why| format!("{page}:{line}: {target}: {why}")));
        }
    }
    check(wrong);
}

/// Mentions of pages, such as `docs/operations.md#rescue`, with the position behind each.
fn mentions(text: &str) -> impl Iterator<Item = &str> {
    let starts = ["docs/", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    starts.into_iter().flat_map(move |start| text.match_indices(start)).filter_map(move |(at, start)| {
        let before = text[..at].chars().next_back();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/_-.{".contains(c);
        if before.is_some_and(is_part) {
            return None;
        }
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/_-.#".contains(c)).unwrap_or(rest.len());
        let mention = rest[..end].trim_end_matches(['.', '#', '-']);
        let page = mention.split('#').next().unwrap_or_default();
        (page.ends_with(".md") && (start != "docs/" || page.len() > start.len())).then_some(mention)
    })
}

#[test]
fn every_page_that_code_and_manifests_mention_exists() {
    let anchors = Anchors::of_all_pages();
    let mut wrong = Vec::new();
    let is_text = |path: &String| {
        let of_these = ["deploy/", ".github/", ".ci/"].iter().any(|directory| path.starts_with(directory));
        // Tests of these checks have pages that do not exist.
        (of_these || path.ends_with(".rs") || path.ends_with(".toml")) && !path.starts_with("e2e/tests/docs/")
    };
    for path in files().into_iter().filter(is_text) {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            for mention in mentions(line) {
                // A README without a directory is that of the crate or that of the repository.
                let is_near = mention.ends_with("README.md") && root().join(directory(&path)).join(mention).exists();
                let trouble = if is_near { None } else { anchors.trouble("", &path, mention) };
                wrong.extend(trouble.map(|why| format!("{path}:{number}: {mention}: {why}")));
            }
        }
    }
    check(wrong);
}

/// Whether a span of code is a path from the root of the repository, and not a pattern.
fn is_path(span: &str, at_root: &BTreeSet<String>) -> bool {
    let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c));
    let has_placeholder = span.split(['/', '.', '-', '_']).any(|part| {
        part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()) && !["README", "CHANGELOG"].contains(&part)
    });
    let first = span.split('/').next().unwrap_or_default();
    // `gc-controller/v0.2.0` is a tag.
    let is_tag = span.split_once("/v").is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    !is_tag && is_plain && !has_placeholder && span.contains('/') && at_root.contains(first)
}

#[test]
fn every_path_in_a_span_of_code_exists() {
    let at_root: BTreeSet<String> =
        std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut wrong = Vec::new();
    // Records of decisions and releases speak of their time.
    let is_current = |page: &str| !page.starts_with("docs/decisions/") && page != "CHANGELOG.md";
    for (page, number, line) in prose().filter(|(page, ..)| is_current(page)) {
        let paths =
            markdown::spans_of_code(&line).filter(|span| is_path(span, &at_root) && !span.starts_with("target/"));
        let missing = paths.filter(|path| !root().join(path).exists());
        wrong.extend(missing.map(|path| format!("{page}:{number}: `{path}` does not exist")));
    }
    check(wrong);
}

/// Behaviour pages name a file of their controller by the end of its path, as in `decide/manage.rs`.
#[test]
fn every_source_that_a_behaviour_page_names_exists() {
    let files = files();
    let mut wrong = Vec::new();
    for (page, number, line) in prose().filter(|(page, ..)| page.starts_with("docs/behaviour/")) {
        let name = page.trim_start_matches("docs/behaviour/").trim_end_matches(".md");
        let is_there = |span: &str| {
            let end = format!("/{span}");
            let mut candidates = files.iter().filter(|path| path.ends_with(&end) || path.as_str() == span);
            candidates.any(|path| path.starts_with(&format!("{name}/")) || path.starts_with("common/"))
        };
        let is_plain = |span: &&str| span.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
        let sources = markdown::spans_of_code(&line).filter(|span| span.ends_with(".rs")).filter(is_plain);
        let unknown = sources.filter(|span| !is_there(span));
        wrong.extend(unknown.map(|span| format!("{page}:{number}: no file of {name} or common is `{span}`")));
    }
    check(wrong);
}

#[test]
fn targets_are_judged_as_the_reader_follows_them() {
    let page = |anchors: &[&str]| anchors.iter().map(ToString::to_string).collect();
    let anchors = Anchors(BTreeMap::from([("docs/architecture.md".to_owned(), page(&["the-path-of-a-key"]))]));
    let trouble = |target| anchors.trouble("docs", "docs/architecture.md", target);
    assert_eq!(trouble("architecture.md#the-path-of-a-key"), None);
    assert_eq!(trouble("#the-path-of-a-key"), None);
    assert_eq!(trouble("../Cargo.toml"), None);
    assert_eq!(trouble("../e2e/src/lib.rs#L3"), None);
    assert_eq!(trouble("architecture.md#nothing").unwrap(), "docs/architecture.md has no section #nothing");
    assert_eq!(trouble("../nothing.md").unwrap(), "nothing.md does not exist");
}

#[test]
fn mentions_are_found_in_sentences() {
    let found = |text: &'static str| mentions(text).collect::<Vec<_>>();
    assert_eq!(
        found("see docs/operations.md#rescue, and docs/decisions/0001-x.md."),
        ["docs/operations.md#rescue", "docs/decisions/0001-x.md"]
    );
    assert_eq!(found("https://kubernetes.io/docs/concepts/x.md and docs/*.md, docs/"), Vec::<&str>::new());
}

#[test]
fn patterns_are_no_paths() {
    let at_root = BTreeSet::from(["deploy".to_owned(), "docs".to_owned()]);
    for (span, expected) in [
        ("deploy/overlays/default", true),
        ("deploy/controllers/NAME/rbac.yaml", false),
        ("deploy/*/x", false),
        ("a/b", false),
        ("docs/v0.2.0", false),
    ] {
        assert_eq!(is_path(span, &at_root), expected, "{span}");
    }
}
