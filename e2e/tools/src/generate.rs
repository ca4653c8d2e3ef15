//! Files that follow from the table of controllers, from their definitions and from their rules: the manifests of `deploy/`, the
//! lists of controllers, and the pages of `docs/reference/`.
//!
//! The program `generate` writes the files. A test compares them with what is committed. A written file says so in its first line,
//! or behind it if the first line is a title or belongs to the format.

mod alerts;
mod chart;
mod controllers;
mod dashboard;
mod images;
mod lists;
mod overlays;
mod roles;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use kubectl_nonet::controllers::{ALL, Controller};

pub(crate) use roles::rbac;

use crate::reference;

/// The command that writes the files.
pub const COMMAND: &str = "cargo run -p tools --bin generate";

/// The first words of a written file, behind the characters that begin a comment.
pub(crate) const MARK: &str = "Written by `cargo run -p tools --bin generate`";

/// The directories of the files that are removed if the command no longer writes them.
const OWN_DIRECTORIES: [&str; 3] = ["deploy/controllers", "deploy/shadows", "deploy/static-pods"];

/// A file with its path from the root of the repository.
pub struct File {
    /// `deploy/static-pods/gc-controller.yaml`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl File {
    /// A file of `deploy/` that begins with a comment about its origin.
    fn of_deploy(path: &str, text: &str) -> Self {
        Self { path: format!("deploy/{path}"), text: format!("# {MARK}.\n{text}") }
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
}

/// Replaces the words in capitals of a template by what the table says of a controller.
fn fill(template: &str, controller: &Controller) -> String {
    let resources = &controller.resources;
    let words = [
        ("NAME", controller.name),
        ("RESCUE_PORT", &controller.rescue_port().to_string()),
        ("PORT", &controller.host_port.to_string()),
        ("CPU", resources.cpu),
        ("MEMORY_LIMIT", resources.memory_limit),
        ("MEMORY", resources.memory),
    ];
    words.into_iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value))
}

fn join(lines: impl Iterator<Item = String>) -> String {
    lines.fold(String::new(), |text, line| text + &line)
}

/// A template once for each controller, in the given order.
fn fill_each<'a>(template: &str, controllers: impl IntoIterator<Item = &'a Controller>) -> String {
    join(controllers.into_iter().map(|controller| fill(template, controller)))
}

/// A template of `e2e/tools/templates`: its path there and its text.
macro_rules! template {
    ($path:literal) => {
        ($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/", $path)))
    };
}
use template;

/// A template in which the lines between `EACH` and `END` stand once for each controller, in the given order.
fn expand<'a>(template: &str, controllers: impl IntoIterator<Item = &'a Controller> + Clone) -> String {
    let mut parts = template.split("EACH\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (each, rest) = part.split_once("END\n").unwrap_or((part, ""));
        text + &fill_each(each, controllers.clone()) + rest
    })
}

/// All controllers in the order of their ports, which is the order of the lists in manifests.
fn by_port() -> Vec<&'static Controller> {
    let mut all: Vec<&Controller> = ALL.iter().collect();
    all.sort_by_key(|controller| controller.host_port);
    all
}

/// All controllers in the order of their names, which is the order of the lists of images.
fn by_name() -> Vec<&'static Controller> {
    let mut all: Vec<&Controller> = ALL.iter().collect();
    all.sort_by_key(|controller| controller.name);
    all
}

/// All files as the code has them now.
///
/// Must be called inside a tokio runtime whose clock is paused: the controllers run for a minute to register their metrics.
pub async fn files() -> io::Result<Vec<File>> {
    let mut files = reference::pages().await?;
    files.extend(controllers::files()?);
    files.extend(overlays::files()?);
    files.extend(images::files());
    files.extend(alerts::files());
    files.extend(chart::files()?);
    files.extend(dashboard::files()?);
    files.extend(lists::files()?);
    Ok(files)
}

/// The files that were written for a controller that is no longer in the table, by their paths from the root of the repository.
fn abandoned(files: &[File]) -> io::Result<Vec<String>> {
    let written: BTreeSet<PathBuf> = files.iter().map(|file| root().join(&file.path)).collect();
    let mut directories: Vec<PathBuf> = OWN_DIRECTORIES.iter().map(|directory| root().join(directory)).collect();
    let mut abandoned = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if !written.contains(&path) && fs::read_to_string(&path).is_ok_and(|text| is_marked(&text)) {
                abandoned.push(path.strip_prefix(root()).unwrap_or(&path).display().to_string());
            }
        }
    }
    Ok(abandoned)
}

/// The text without the lines that the command writes; empty for a file that it writes as a whole.
pub fn without_written_lines(text: &str) -> String {
    if is_marked(text) {
        return String::new();
    }
    let (mut by_hand, mut is_written) = (String::new(), false);
    for line in text.lines() {
        is_written |= line.contains(&format!(" {MARK}: "));
        if !is_written {
            by_hand.push_str(line);
            by_hand.push('\n');
        }
        is_written &= !line.contains(lists::END);
    }
    by_hand
}

/// Whether the text is that of a written file.
fn is_marked(text: &str) -> bool {
    text.lines().take(3).any(|line| line.contains(&format!("{MARK}.")))
}

/// Writes all files that differ from what is there, removes those of former controllers, and returns the paths of both.
pub async fn write() -> io::Result<Vec<String>> {
    let files = files().await?;
    let mut changed = abandoned(&files)?;
    for path in &changed {
        fs::remove_file(root().join(path))?;
    }
    for file in files {
        let path = root().join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, file.text)?;
        changed.push(file.path);
    }
    Ok(changed)
}

/// The paths of the files that are not committed as the code has them now.
pub async fn outdated() -> io::Result<Vec<String>> {
    let files = files().await?;
    let mut outdated = abandoned(&files)?;
    let is_outdated = |file: &File| !fs::read_to_string(root().join(&file.path)).is_ok_and(|text| text == file.text);
    outdated.extend(files.into_iter().filter(is_outdated).map(|file| file.path));
    Ok(outdated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_lines_are_told_from_lines_by_hand() {
        let text = format!("one\n# {MARK}: list.\ntwo\n#{}list.\nthree\n", lists::END);
        assert_eq!(without_written_lines(&format!("\n\n\n{text}")), "\n\n\none\nthree\n");
        assert_eq!(without_written_lines(&format!("# {MARK}.\nkind: Pod\n")), "");
    }
}
