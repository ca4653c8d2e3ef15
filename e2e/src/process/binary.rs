//! The lookup of the binaries of the workspace.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parking_lot::Mutex;

use super::{BIN_DIR_VARIABLE, Error};

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
    if let Some(directory) = chosen_directory() {
        let path = directory.join(name);
        let why = || {
            let has_none = format!("{BIN_DIR_VARIABLE} names {}, which does not have it", directory.display());
            match profile_directory(&directory) {
                Some(_) => format!("{has_none}; run {}", command_line(&directory)),
                None => format!("{has_none}; run {} and set the variable to target/release", command_line(&directory)),
            }
        };
        return if path.is_file() { Ok(path) } else { Err(missing(why())) };
    }
    let program = std::env::current_exe().map_err(|e| missing(format!("the path of this program is unknown: {e}")))?;
    let directory = beside(&program).ok_or_else(|| missing("this program is in no directory".to_owned()))?;
    let path = directory.join(name);
    let cargo = std::env::var_os("CARGO");
    // Run by hand, a program takes what is there: only cargo knows whether it is up to date.
    if (cargo.is_some() || !path.is_file()) && Path::new(WORKSPACE).is_file() {
        if !path.is_file() {
            let text = format!("building {name} ({}), which takes a while ...", profile(directory));
            // The build goes on where nobody reads this.
            let _ = writeln!(io::stderr(), "{text}");
        }
        let cargo = cargo.unwrap_or_else(|| "cargo".into());
        build(Path::new(&cargo), name, directory)
            .map_err(|why| missing(format!("{why}; run {}", command_line(directory))))?;
    }
    let why = || format!("{} does not exist; run {}", path.display(), command_line(directory));
    if path.is_file() { Ok(path) } else { Err(missing(why())) }
}

/// The directory that [`BIN_DIR_VARIABLE`] names, if it is set.
pub fn chosen_directory() -> Option<PathBuf> {
    std::env::var_os(BIN_DIR_VARIABLE).filter(|directory| !directory.is_empty()).map(PathBuf::from)
}

fn profile(directory: &Path) -> &str {
    match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    }
}

/// The profile of a directory, if it is one that cargo builds into.
fn profile_directory(directory: &Path) -> Option<&str> {
    let in_target = directory.parent().is_some_and(|target| target.join("CACHEDIR.TAG").is_file());
    in_target.then(|| profile(directory))
}

/// The command that builds all binaries, as people type it: into a directory of cargo's, or else with the profile that ships.
fn command_line(directory: &Path) -> String {
    match profile_directory(directory) {
        None | Some("release") => "`cargo build --release --workspace --bins`".to_owned(),
        Some("dev") => "`cargo build --workspace --bins`".to_owned(),
        Some(profile) => format!("`cargo build --profile {profile} --workspace --bins`"),
    }
}

/// The directory of the profile that a program was built with: tests lie one deeper.
pub(crate) fn beside(program: &Path) -> Option<&Path> {
    let directory = program.parent()?;
    if directory.file_name().is_some_and(|name| name == "deps") { directory.parent() } else { Some(directory) }
}

fn build(cargo: &Path, name: &str, directory: &Path) -> Result<(), String> {
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
    command.args(["--profile", profile(directory)]);
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

    #[test]
    fn a_missing_binary_comes_with_the_command_that_builds_all() {
        let target = crate::cluster::Directory::new("binary").unwrap();
        std::fs::write(target.path().join("CACHEDIR.TAG"), "").unwrap();
        for (directory, expected) in [
            ("debug", "`cargo build --workspace --bins`"),
            ("release", "`cargo build --release --workspace --bins`"),
            ("trial", "`cargo build --profile trial --workspace --bins`"),
        ] {
            assert_eq!(command_line(&target.path().join(directory)), expected);
        }
        let elsewhere = command_line(Path::new("/usr/local/bin"));
        assert_eq!(elsewhere, "`cargo build --release --workspace --bins`", "no directory of cargo's");
    }
}
