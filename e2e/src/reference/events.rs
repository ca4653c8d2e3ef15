//! The page of Events: a table, and a scan of the code that finds what the table lacks.

mod scan;
mod table;

use std::path::Path;

use self::table::{COMMON, EVENTS, Event};
use super::markdown::{code, head, plain, table};
use crate::controllers;

const INTRODUCTION: &str = "The Events that controllers record, by their reason. The component of an Event is the control loop that \
    records it; for Events of a Lease, it is the program. A controller in shadow mode records none, and a standby records none. \
    Repeated Events are counted in one Event. Events have a rate limit of their own, so one that is listed here can be missing in a \
    cluster.";

const HEADER: [&str; 4] = ["reason", "type", "object", "when"];

fn rows(events: &[&Event]) -> Vec<Vec<String>> {
    let mut events: Vec<_> = events.iter().filter(|event| !event.when.is_empty()).collect();
    events.sort_by_key(|event| (event.reason, event.object));
    let row = |event: &&&Event| {
        vec![code(event.reason), event.kind.as_str().to_owned(), event.object.to_owned(), plain(event.when)]
    };
    events.iter().map(row).collect()
}

pub(super) fn page() -> String {
    let mut text = head("Events", INTRODUCTION);
    text += &format!("\n## Every controller\n\n{}", table(&HEADER, &rows(&COMMON.iter().collect::<Vec<_>>())));
    for definition in controllers::ALL {
        let own: Vec<&Event> = EVENTS.iter().filter(|event| event.controller == definition.name).collect();
        text += &format!("\n## {}\n\n{}", definition.name, table(&HEADER, &rows(&own)));
    }
    text
}

/// What the table says and the code does not, and the other way round.
pub(super) fn check(root: &Path) -> Vec<String> {
    scan::check(root, COMMON.iter().chain(EVENTS))
}

/// The sources that ship, without modules that are compiled for tests only.
#[cfg(test)]
pub(super) fn sources(root: &Path) -> Vec<std::path::PathBuf> {
    scan::sources(root)
}
