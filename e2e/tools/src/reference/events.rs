//! The page of Events: a table, and a scan of the code that finds what the table lacks.

mod scan;

use std::{collections::BTreeMap, io, path::Path};

use common::events::EventType;
use serde::Deserialize;

use super::markdown::{code, codes, head, plain, section, table};
use crate::controllers;

const INTRODUCTION: &str = "The Events that controllers record, by their reason. The component of an Event names the control loop, as \
    in kube-controller-manager; the component of an Event of a Lease is the name of the program. A controller in shadow mode records \
    no Events, and a standby records none. Repeated Events are counted in one Event. Events have a rate limit of their own, so an \
    Event of this page can be missing in a cluster.";

/// An Event, as a row of `templates/events.yaml`.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    reason: String,
    /// The kind of the object that it is about.
    object: String,
    /// Empty if another row of the same reason says it.
    when: String,
    /// The file that records it, from the root of the repository.
    file: String,
}

impl Event {
    fn kind(&self) -> EventType {
        event_type(&self.r#type)
    }
}

fn event_type(name: &str) -> EventType {
    if name == "Normal" { EventType::Normal } else { EventType::Warning }
}

/// The Events by controller. Those of every controller have the name [`COMMON`].
type Events = BTreeMap<String, Vec<Event>>;

const COMMON: &str = "common";

fn events() -> io::Result<Events> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/events.yaml"));
    serde_saphyr::from_str(text).map_err(io::Error::other)
}

const HEADER: [&str; 4] = ["reason", "type", "object", "when"];

fn table_of(events: &Events, controller: &str) -> String {
    let own = events.get(controller).into_iter().flatten();
    let mut own: Vec<&Event> = own.filter(|event| !event.when.is_empty()).collect();
    own.sort_by_key(|event| (&event.reason, &event.object));
    let row = |event: &&Event| {
        vec![code(&event.reason), event.kind().as_str().to_owned(), event.object.clone(), plain(&event.when)]
    };
    table(&HEADER, &own.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn page() -> io::Result<String> {
    let events = events()?;
    let mut text = head("Events", INTRODUCTION);
    section(&mut text, "## Every controller", &table_of(&events, COMMON));
    for definition in controllers::ALL {
        let components = definition.loops.iter().map(|each| each.event_component).filter(|each| !each.is_empty());
        let content = match codes(components) {
            none if none.is_empty() => "None of its own.\n".to_owned(),
            components => format!("Components: {components}.\n\n{}", table_of(&events, definition.name)),
        };
        section(&mut text, &format!("## {}", definition.name), &content);
    }
    Ok(text)
}

/// What the table says and the code does not, and the other way round.
pub(super) fn check(root: &Path) -> Vec<String> {
    events().map_or_else(|why| vec![why.to_string()], |events| scan::check(root, &events))
}

/// The sources that ship, without modules that are compiled for tests only.
#[cfg(test)]
pub(super) fn sources(root: &Path) -> Vec<std::path::PathBuf> {
    scan::sources(root)
}
