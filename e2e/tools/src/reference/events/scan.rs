//! Finds in the sources where Events are recorded, and compares that with the table.
//!
//! A place that records an Event names its type, as `EventType::Warning` or by a constructor
//! `Event::warning_for_flags_without_effect`. Mostly the reason follows as a literal. [`CALLS`] has the functions that get the
//! reason as an argument, [`INDIRECT`] the places where it comes from elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use common::events::EventType::{self, Normal, Warning};

use super::{Event, Events};
use crate::controllers;

/// Functions that record an Event with the reason that is the literal after this text.
const CALLS: &[(&str, &str, EventType)] = &[
    ("cronjob-controller/src/decide/create.rs", "stop(plan, ", Warning),
    ("endpointslice-controller/src/mirroring/decide.rs", "warn(", Warning),
    ("node-lifecycle-controller/src/monitor.rs", "self.report_event(name, uid, ", Normal),
];

/// Files that record Events whose reason is not a literal, and the number of such places.
const INDIRECT: &[(&str, usize)] = &[
    // The constants `FOUND` and `GONE`.
    ("common/service/src/second_writer.rs", 2),
    // `report_unusable_spec`.
    ("cronjob-controller/src/decide/create.rs", 1),
    // The reason depends on the request that was denied.
    ("daemonset-controller/src/act.rs", 1),
    // `Action::denied_event_reason`, and a denied claim.
    ("deployment-controller/src/act.rs", 1),
    // The constant `REPLICA_SET_CREATE_ERROR`.
    ("deployment-controller/src/decide/create.rs", 1),
    // Creation or change.
    ("endpointslice-controller/src/endpoints.rs", 1),
    // `warn`.
    ("endpointslice-controller/src/mirroring/decide.rs", 1),
    // `SuspensionChange::event_reason_and_message`.
    ("job-controller/src/jobs/act.rs", 1),
    // The reasons of `decide/end.rs`.
    ("job-controller/src/jobs/act/count.rs", 1),
    // `report_event`.
    ("node-lifecycle-controller/src/monitor.rs", 1),
    // `EventVerb::reasons`.
    ("statefulset-controller/src/act/pod.rs", 2),
];

/// The constructors of Events and the recorder itself.
const MACHINERY: [&str; 3] =
    ["common/client/src/events", "cronjob-controller/src/plan.rs", "deployment-controller/src/plan.rs"];

/// Functions of `common` that record Events for several controllers: the text that calls them, and the Events they record.
const SHARED: &[(&str, &str, &[&str])] = &[
    ("common/control/src/io/pods.rs", "create_pod", &["SuccessfulCreate", "FailedCreate"]),
    ("common/control/src/io/pods.rs", "delete_pod(io", &["SuccessfulDelete", "FailedDelete"]),
    ("common/control/src/io/claim.rs", "claim.record_event_if_denied(io)", &["FailedUpdate"]),
];

/// A place that records an Event; without a reason if that is not a literal.
type Place = (EventType, Option<String>);

pub(super) fn sources(root: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(root).into_iter().flatten().chain(fs::read_dir(root.join("common")).into_iter().flatten());
    let mut open: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("src")).collect();
    let is_product = |path: &PathBuf| {
        let name =
            path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.ends_with("-controller") || path.starts_with(root.join("common"))
    };
    open.retain(is_product);
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if ["tests", "world", "guards"].contains(&&*name) {
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
    let codes: BTreeMap<String, String> = sources(root)
        .into_iter()
        .filter_map(|path| {
            let name = path.strip_prefix(root).ok()?.to_string_lossy().into_owned();
            Some((name, code(&fs::read_to_string(path).ok()?)))
        })
        .collect();
    compare(&codes, events)
}

fn compare(codes: &BTreeMap<String, String>, events: &Events) -> Vec<String> {
    let all: Vec<&Event> = events.values().flatten().collect();
    let mut wrong = Vec::new();
    let mut recorded: BTreeSet<(&str, EventType, String)> = BTreeSet::new();
    for (file, code) in codes.iter().filter(|(file, _)| !MACHINERY.iter().any(|machinery| file.starts_with(machinery)))
    {
        let all = places(code);
        let without_reason = all.iter().filter(|(_, reason)| reason.is_none()).count();
        let expected = INDIRECT.iter().find(|(known, _)| known == file).map_or(0, |(_, count)| *count);
        if without_reason != expected {
            wrong.push(format!(
                "{file}: {without_reason} Events without a literal as their reason, and not {expected} as `INDIRECT` says"
            ));
        }
        recorded.extend(all.into_iter().filter_map(|(kind, reason)| Some((&**file, kind, reason?))));
        for (_, call, kind) in CALLS.iter().filter(|(known, _, _)| known == file) {
            let after = code.match_indices(call).filter_map(|(at, call)| literal(&code[at + call.len()..]));
            recorded.extend(after.map(|reason| (&**file, *kind, reason)));
        }
    }
    for (file, kind, reason) in &recorded {
        if !all.iter().any(|event| (&*event.file, event.kind(), &event.reason) == (*file, *kind, reason)) {
            wrong.push(format!("{file}: the table of Events lacks {} {reason}", kind.as_str()));
        }
    }
    for event in all {
        let is_recorded = recorded.contains(&(&*event.file, event.kind(), event.reason.clone()));
        let is_indirect = INDIRECT.iter().any(|(file, _)| *file == event.file);
        let of_crate = event.file.split_once("src/").map_or(&*event.file, |(of_crate, _)| of_crate);
        let literal = format!("\"{}\"", event.reason);
        let has_literal = || codes.iter().any(|(file, code)| file.starts_with(of_crate) && code.contains(&literal));
        if !(is_recorded || is_indirect && has_literal()) {
            wrong.push(format!(
                "{}: the table of Events lists {}, which is not recorded there",
                event.file, event.reason
            ));
        }
    }
    for definition in controllers::ALL {
        let own = format!("{}/src/", definition.name);
        for (file, call, reasons) in SHARED {
            let calls = codes.iter().any(|(file, code)| file.starts_with(&own) && code.contains(call));
            for reason in *reasons {
                let mut own = events.get(definition.name).into_iter().flatten();
                let is_listed = own.any(|event| event.file == *file && event.reason == *reason);
                if calls != is_listed {
                    wrong.push(format!(
                        "{}: `{call}` is called: {calls}, {reason} is listed: {is_listed}",
                        definition.name
                    ));
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
        assert!(compare(&codes("EventType::Warning, \"Known\""), &events).is_empty());
        let wrong = compare(&codes("EventType::Warning, \"New\""), &events);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("lacks Warning New") && wrong[1].contains("lists Known"), "{wrong:?}");
        assert_eq!(compare(&codes("EventType::Warning, \"Known\"; EventType::Normal, reason"), &events).len(), 1);
    }

    #[test]
    fn the_table_has_what_the_code_records() {
        let wrong = crate::reference::check_events();
        assert!(wrong.is_empty(), "the table of Events in e2e/tools/templates/events.yaml:\n{}", wrong.join("\n"));
    }
}
