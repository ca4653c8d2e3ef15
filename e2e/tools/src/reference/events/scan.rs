//! Finds in the sources where Events are recorded, and compares that with the table.
//!
//! A place that records an Event names its type, as `EventType::Warning` or by a constructor
//! `Event::warning_for_flags_without_effect`. Mostly the reason follows as a literal. `scan.yaml` has the functions that get the
//! reason as an argument, and the places where it comes from elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use common::events::EventType::{self, Normal, Warning};
use serde::Deserialize;

use super::{Event, Events, event_type};
use crate::controllers;

#[derive(Deserialize)]
struct Known {
    calls: Vec<Call>,
    indirect: BTreeMap<String, usize>,
    machinery: Vec<String>,
    shared: Vec<Shared>,
}

#[derive(Deserialize)]
struct Call {
    file: String,
    text: String,
    r#type: String,
}

#[derive(Deserialize)]
struct Shared {
    file: String,
    text: String,
    reasons: Vec<String>,
}

/// A place that records an Event; without a reason if that is not a literal.
type Place = (EventType, Option<String>);

pub(super) fn sources(root: &Path) -> Vec<PathBuf> {
    let directories = |parent: &Path| fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_controller = |path: &PathBuf| path.to_string_lossy().ends_with("-controller");
    let mut open: Vec<PathBuf> = directories(root).filter(is_controller).collect();
    open.extend(directories(&root.join("common")).chain([root.join("common")]));
    open = open.into_iter().map(|path| path.join("src")).collect();
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for path in directories(&directory) {
            let name = path.file_stem().unwrap_or_default();
            if ["tests", "world", "guards"].iter().any(|of_tests| name == *of_tests) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The code of a file on one line, without comments and tests.
fn code(text: &str) -> String {
    let until_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = until_tests.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.collect::<Vec<_>>().join(" ")
}

/// The literal at the beginning of a text, behind a comma and the name of a field.
fn literal(text: &str) -> Option<String> {
    let text = text.trim_start_matches([',', ' ']);
    let text = text.strip_prefix("reason:").unwrap_or(text).trim_start();
    text.strip_prefix('"')?.split_once('"').map(|(reason, _)| reason.to_owned())
}

fn places(code: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for (sign, kind) in [
        ("EventType::Normal", Normal),
        ("EventType::Warning", Warning),
        ("Event::normal(", Normal),
        ("Event::warning(", Warning),
    ] {
        let after = code.match_indices(sign).map(|(at, sign)| &code[at + sign.len()..]);
        places.extend(after.map(|text| (kind, literal(text))));
    }
    places
}

pub(super) fn check(root: &Path, events: &Events) -> Vec<String> {
    let known = match serde_saphyr::from_str(include_str!("scan.yaml")) {
        Ok(known) => known,
        Err(why) => return vec![format!("scan.yaml: {why}")],
    };
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).ok()?.to_string_lossy().into_owned();
        Some((name, code(&fs::read_to_string(path).ok()?)))
    };
    compare(&sources(root).into_iter().filter_map(read).collect(), &known, events)
}

fn compare(codes: &BTreeMap<String, String>, known: &Known, events: &Events) -> Vec<String> {
    let all: Vec<&Event> = events.values().flatten().collect();
    let mut wrong = Vec::new();
    let mut recorded: BTreeSet<(&str, EventType, String)> = BTreeSet::new();
    for (file, code) in codes {
        if known.machinery.iter().any(|machinery| file.starts_with(machinery)) {
            continue;
        }
        let places = places(code);
        let without_reason = places.iter().filter(|(_, reason)| reason.is_none()).count();
        let expected = known.indirect.get(file).copied().unwrap_or(0);
        if without_reason != expected {
            wrong.push(format!(
                "{file}: {without_reason} Events without a literal as their reason, and not {expected} as scan.yaml says"
            ));
        }
        recorded.extend(places.into_iter().filter_map(|(kind, reason)| Some((&**file, kind, reason?))));
        for Call { text, r#type, .. } in known.calls.iter().filter(|call| call.file == *file) {
            let after = code.match_indices(text).filter_map(|(at, call)| literal(&code[at + call.len()..]));
            recorded.extend(after.map(|reason| (&**file, event_type(r#type), reason)));
        }
    }
    for (file, kind, reason) in &recorded {
        if !all.iter().any(|event| (&*event.file, event.kind(), &event.reason) == (*file, *kind, reason)) {
            wrong.push(format!("{file}: the table of Events lacks {} {reason}", kind.as_str()));
        }
    }
    for event in all {
        let is_recorded = recorded.contains(&(&*event.file, event.kind(), event.reason.clone()));
        let of_crate = event.file.split_once("src/").map_or(&*event.file, |(of_crate, _)| of_crate);
        let literal = format!("\"{}\"", event.reason);
        let has_literal = || codes.iter().any(|(file, code)| file.starts_with(of_crate) && code.contains(&literal));
        if !(is_recorded || known.indirect.contains_key(&event.file) && has_literal()) {
            let Event { file, reason, .. } = event;
            wrong.push(format!("{file}: the table of Events lists {reason}, which is not recorded there"));
        }
    }
    for definition in controllers::ALL {
        let own = format!("{}/src/", definition.name);
        for Shared { file, text, reasons } in &known.shared {
            let calls = codes.iter().any(|(file, code)| file.starts_with(&own) && code.contains(text));
            for reason in reasons {
                let mut own = events.get(definition.name).into_iter().flatten();
                let is_listed = own.any(|event| event.file == *file && event.reason == *reason);
                if calls != is_listed {
                    let name = definition.name;
                    wrong.push(format!("{name}: `{text}` is called: {calls}, {reason} is listed: {is_listed}"));
                }
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_beside_their_types() {
        let code = code(
            "// EventType::Normal, \"No\"\nio.event(\n    EventType::Warning,\n    \"One\",\n    message);\n\
             let e = Event { kind: EventType::Normal, reason: \"Two\", message };\nplan::Event::warning(\n  \"Three\", m);\n\
             io.event(EventType::Normal, reason, m);\n#[cfg(test)]\nmod tests {\n EventType::Normal, \"Four\"",
        );
        let mut found = places(&code);
        found.sort();
        let literal = |reason: &str| Some(reason.to_owned());
        let expected =
            [(Normal, None), (Normal, literal("Two")), (Warning, literal("One")), (Warning, literal("Three"))];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_difference_is_found_in_both_directions() {
        let codes = |code: &str| BTreeMap::from([("gc-controller/src/a.rs".to_owned(), code.to_owned())]);
        let event = Event {
            r#type: "Warning".to_owned(),
            reason: "Known".to_owned(),
            object: String::new(),
            when: String::new(),
            file: "gc-controller/src/a.rs".to_owned(),
        };
        let events = Events::from([("x".to_owned(), vec![event])]);
        let known: Known = serde_saphyr::from_str("{calls: [], indirect: {}, machinery: [], shared: []}").unwrap();
        let compare = |code: &str| compare(&codes(code), &known, &events);
        assert!(compare("EventType::Warning, \"Known\"").is_empty());
        let wrong = compare("EventType::Warning, \"New\"");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("lacks Warning New") && wrong[1].contains("lists Known"), "{wrong:?}");
        assert_eq!(compare("EventType::Warning, \"Known\"; EventType::Normal, reason").len(), 1);
    }

    #[test]
    fn the_table_has_what_the_code_records() {
        let wrong = crate::reference::check_events();
        assert!(wrong.is_empty(), "the table of Events in e2e/tools/templates/events.yaml:\n{}", wrong.join("\n"));
    }
}
