//! What the pages say is true: links lead somewhere, commands can be given, the reference is that of the code, tests cite claims
//! that exist.
#![allow(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the extensions of this repository are in lower case"
)]

mod book;
mod claims;
mod commands;
mod fences;
mod installs;
mod links;
pub(crate) mod markdown;

use crate::repository::{self, empty_directory, files, read, root};

/// The pages: all Markdown files.
pub(crate) fn pages() -> Vec<String> {
    let pages: Vec<String> = files().into_iter().filter(|path| path.ends_with(".md")).collect();
    assert!(pages.iter().any(|page| page == "README.md") && pages.len() > 20, "{pages:?}");
    pages
}

/// The lines of all pages outside of fenced blocks, each with its page and number.
pub(crate) fn prose() -> impl Iterator<Item = (String, usize, String)> {
    pages().into_iter().flat_map(|page| {
        let lines = markdown::parse(&read(&page)).prose.into_iter();
        lines.map(move |(number, line)| (page.clone(), number, line))
    })
}

/// Fails with what is wrong, a line for each.
fn check(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
