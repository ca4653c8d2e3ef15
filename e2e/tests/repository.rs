//! The files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The documents of a file, by its path from the root.
pub(crate) fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All files of the repository by their paths from the root, without hidden directories except those of CI, and without
/// directories of builds.
pub(crate) fn files() -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let kind = entry.file_type().unwrap();
            let is_hidden = name.starts_with('.') && ![".ci", ".github"].contains(&&*name);
            if kind.is_file() {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            } else if kind.is_dir() && !is_hidden && name != "target" && !path.join("CACHEDIR.TAG").exists() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All Rust files of the repository.
pub(crate) fn sources() -> Vec<String> {
    files().into_iter().filter(|path| Path::new(path).extension().is_some_and(|end| end == "rs")).collect()
}

/// An empty directory for the files of a test.
pub(crate) fn empty_directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Copies a directory, its links as they are.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
