//! The book: `docs/SUMMARY.md` lists every page.

use std::collections::BTreeSet;

use super::{check, files, markdown, read, root};

const SUMMARY: &str = "docs/SUMMARY.md";

/// What is wrong with a summary beside the pages that exist.
fn troubles(summary: &str, existing: &BTreeSet<String>) -> Vec<String> {
    let links = markdown::links(&markdown::parse(summary)).into_iter();
    let listed: Vec<String> = links.map(|(_, target)| format!("docs/{target}")).collect();
    let once: BTreeSet<&String> = listed.iter().collect();
    let mut wrong = Vec::new();
    if once.len() < listed.len() {
        wrong.push(format!("{SUMMARY}: a page is listed twice"));
    }
    let missing = existing.iter().filter(|page| !once.contains(page));
    wrong.extend(missing.map(|page| format!("{SUMMARY}: {page} is not listed")));
    let unknown = once.iter().filter(|page| !existing.contains(**page));
    wrong.extend(unknown.map(|page| format!("{SUMMARY}: {page} does not exist")));
    wrong
}

#[test]
fn the_summary_lists_every_page_and_nothing_else() {
    let is_page = |path: &String| path.starts_with("docs/") && path.ends_with(".md") && path != SUMMARY;
    check(troubles(&read(SUMMARY), &files().into_iter().filter(is_page).collect()));
}

#[test]
fn the_book_is_built_outside_of_the_pages() {
    let book = read("docs/book.toml");
    assert!(book.contains("\nsrc = \".\"\n") && book.contains("\nbuild-dir = \"../target/book\"\n"), "{book}");
    assert!(read(".gitignore").contains("/target\n"));
    assert!(root().join(SUMMARY).exists());
}

#[test]
fn unlisted_and_unknown_pages_are_found() {
    let existing = BTreeSet::from(["docs/a.md".to_owned(), "docs/b.md".to_owned()]);
    let found = troubles("# Summary\n\n- [A](a.md)\n- [C](c.md)\n- [C](c.md)\n", &existing);
    let expected = ["a page is listed twice", "docs/b.md is not listed", "docs/c.md does not exist"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.ends_with(expected)), "{found:?}");
}
