//! The pages of `docs/reference/`: flags, metrics, Events and rights of the controllers, made from their definitions.
//!
//! The program `reference` writes the pages. A test compares them with what is committed.

mod events;
mod flags;
mod markdown;
mod metrics;
mod rights;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The command that renews the pages.
pub const COMMAND: &str = "cargo run -p e2e --bin reference";

/// A page with its path from the root of the repository.
pub struct Page {
    /// `docs/reference/flags.md`.
    pub path: &'static str,
    /// Markdown.
    pub text: String,
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// All pages as the code has them now.
///
/// Must be called inside a tokio runtime whose clock is paused: the controllers run for a minute to register their metrics.
pub async fn pages() -> io::Result<Vec<Page>> {
    Ok(vec![
        Page { path: "docs/reference/flags.md", text: flags::page() },
        Page { path: "docs/reference/metrics.md", text: metrics::page().await },
        Page { path: "docs/reference/events.md", text: events::page() },
        Page { path: "docs/reference/rbac.md", text: rights::page(&root())? },
    ])
}

/// Writes all pages that differ from what is there, and returns their paths.
pub async fn write() -> io::Result<Vec<&'static str>> {
    let mut written = Vec::new();
    for page in pages().await? {
        let path = root().join(page.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == page.text) {
            continue;
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, page.text)?;
        written.push(page.path);
    }
    Ok(written)
}

/// The paths of the pages that are not committed as the code has them now.
pub async fn outdated() -> io::Result<Vec<&'static str>> {
    let is_outdated = |page: &Page| !fs::read_to_string(root().join(page.path)).is_ok_and(|text| text == page.text);
    Ok(pages().await?.into_iter().filter(is_outdated).map(|page| page.path).collect())
}

/// What is wrong with the table of Events beside the code that records them.
pub fn check_events() -> Vec<String> {
    events::check(&root())
}
