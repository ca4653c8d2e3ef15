//! The pages of `docs/reference/`: loops, flags, metrics, Events and rights of the controllers, made from their definitions.
//!
//! [`crate::generate`] writes the pages.

mod events;
mod flags;
mod loops;
mod markdown;
mod metrics;
mod rights;

use std::io;

use crate::generate::{File, root};

fn page(name: &str, text: String) -> File {
    File { path: format!("docs/reference/{name}.md"), text }
}

/// All pages as the code has them now.
///
/// Must be called inside a tokio runtime whose clock is paused: the controllers run for a minute to register their metrics.
pub(crate) async fn pages() -> io::Result<Vec<File>> {
    Ok(vec![
        page("loops", loops::page()),
        page("flags", flags::page()),
        page("metrics", metrics::page().await),
        page("events", events::page()?),
        page("rbac", rights::page()?),
    ])
}

/// What is wrong with the table of Events beside the code that records them.
pub fn check_events() -> Vec<String> {
    events::check(&root())
}
