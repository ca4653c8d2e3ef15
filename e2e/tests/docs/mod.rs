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
mod markdown;

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All files of the repository by their paths from the root, without hidden directories except those of CI, and without
/// directories of builds.
fn files() -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                let is_hidden = name.starts_with('.') && ![".ci", ".github"].contains(&&*name);
                let is_built = name == "target" || path.join("CACHEDIR.TAG").exists();
                if !is_hidden && !is_built {
                    open.push(path);
                }
            } else if entry.file_type().unwrap().is_file() {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The pages: all Markdown files.
fn pages() -> Vec<String> {
    let pages: Vec<String> = files().into_iter().filter(|path| path.ends_with(".md")).collect();
    assert!(pages.iter().any(|page| page == "README.md") && pages.len() > 20, "{pages:?}");
    pages
}

/// Fails with what is wrong, a line for each.
fn check(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
