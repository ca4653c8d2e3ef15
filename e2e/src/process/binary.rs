//! Where the workspace's binaries are.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parking_lot::Mutex;

use super::{BIN_DIR_VARIABLE, Error};

/// The workspace this program was built from.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

/// What has been found before: a binary is built once in the life of a program.
static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Finds a binary of the workspace, and builds it where cargo runs this program.
pub fn find(name: &str) -> Result<PathBuf, Error> {
    let mut found = FOUND.lock();
    if let Some(path) = found.get(name) {
        return Ok(path.clone());
    }
    let path = search(name)?;
    found.insert(name.to_owned(), path.clone());
    Ok(path)
}

fn search(name: &str) -> Result<PathBuf, Error> {
    let missing = |why: String| Error::NoBinary { name: name.to_owned(), why };
    let existing = |path: PathBuf| {
        let why = format!("{} is not there; cargo build --workspace --bins", path.display());
        if path.is_file() { Ok(path) } else { Err(missing(why)) }
    };
    if let Some(directory) = std::env::var_os(BIN_DIR_VARIABLE).filter(|d| !d.is_empty()) {
        return existing(Path::new(&directory).join(name));
    }
    let program =
        std::env::current_exe().map_err(|e| missing(format!("this program does not know where it is: {e}")))?;
    let directory = beside(&program).ok_or_else(|| missing("this program is in no directory".to_owned()))?;
    if let Some(cargo) = std::env::var_os("CARGO")
        && Path::new(WORKSPACE).is_file()
    {
        build(Path::new(&cargo), name, directory).map_err(missing)?;
    }
    existing(directory.join(name))
}

/// The directory of the profile that a program was built with: tests lie one deeper.
fn beside(program: &Path) -> Option<&Path> {
    let directory = program.parent()?;
    if directory.file_name().is_some_and(|name| name == "deps") { directory.parent() } else { Some(directory) }
}

/// Builds a binary into the directory of a profile.
fn build(cargo: &Path, name: &str, directory: &Path) -> Result<(), String> {
    let profile = directory.file_name().and_then(|n| n.to_str()).unwrap_or("debug");
    let target = directory.parent().unwrap_or(directory);
    let mut command = Command::new(cargo);
    // With this package, so that dependencies have the features they were built with for this program and are not built again.
    command.args([
        "build",
        "--quiet",
        "--manifest-path",
        WORKSPACE,
        "--package",
        "e2e",
        "--package",
        name,
        "--bin",
        name,
    ]);
    command.arg("--target-dir").arg(target).stdin(Stdio::null());
    match profile {
        "debug" => {}
        "release" => {
            command.arg("--release");
        }
        other => {
            command.args(["--profile", other]);
        }
    }
    // What cargo tells a program it runs is not meant for the cargo that this program runs.
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST") || text == "CARGO_CRATE_NAME" {
            command.env_remove(&variable);
        }
    }
    let output = command.output().map_err(|e| format!("cargo cannot be run: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.starts_with("error")).unwrap_or("cargo build failed");
    Err(first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_programs_find_the_same_directory() {
        assert_eq!(beside(Path::new("/x/debug/deps/suite-0a1b")), Some(Path::new("/x/debug")));
        assert_eq!(beside(Path::new("/x/release/playground")), Some(Path::new("/x/release")));
    }
}
