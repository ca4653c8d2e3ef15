//! The page of Events: a table, and a scan of the code that finds what the table lacks.

mod scan;
mod table;

use std::path::Path;

use self::table::{COMMON, EVENTS, Event};
use super::markdown::{code, codes, head, plain, section, table};
use crate::controllers;

const INTRODUCTION: &str = "The Events that controllers record, by their reason. The component of an Event names the control loop, as \
    in kube-controller-manager; the component of an Event of a Lease is the name of the program. A controller in shadow mode records \
    no Events, and a standby records none. Repeated Events are counted in one Event. Events have a rate limit of their own, so an \
    Event of this page can be missing in a cluster.";

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
    let shared: Vec<&Event> = COMMON.iter().collect();
    section(&mut text, "## Every controller", &table(&HEADER, &rows(&shared)));
    for definition in controllers::ALL {
        let own: Vec<&Event> = EVENTS.iter().filter(|event| event.controller == definition.name).collect();
        let components = codes(definition.loops.iter().map(|each| each.event_component));
        let content = format!("Components: {components}.\n\n{}", table(&HEADER, &rows(&own)));
        section(&mut text, &format!("## {}", definition.name), &content);
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
