//! Events: one storage, served in the core group and in `events.k8s.io`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    Hub,
    behaviour::Behaviour,
    canonical::canonicalize,
    errors::{Errors, Path},
    syntax,
    table::{or, since},
    value::{int, object, text},
};

pub(super) fn core() -> Behaviour {
    Behaviour {
        validate: Some(|errors, event, _| validate(errors, event, "reportingComponent")),
        field: Some(|event, field| if field.starts_with("regarding.") { None } else { selectable(event, field) }),
        cell: Some(cell),
        ..Behaviour::default()
    }
}

pub(super) fn events() -> Behaviour {
    Behaviour {
        validate: Some(validate_strictly),
        field: Some(regarding_field),
        cell: Some(cell),
        hub: Some(Hub { group: "", to_stored: to_core, to_served: from_core }),
        ..Behaviour::default()
    }
}

/// Names in `events.k8s.io` and in the core group, where they differ.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

fn to_core(event: &mut Value) {
    let map = object(event);
    for (new, old) in NAMES {
        rename(map, new, old);
    }
    map.insert("apiVersion".to_owned(), "v1".into());
    canonicalize("core/v1.Event", event);
}

fn from_core(event: &mut Value) {
    let map = object(event);
    for (new, old) in NAMES {
        rename(map, old, new);
    }
    map.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    canonicalize("events/v1.Event", event);
}

fn as_core(event: &Value) -> Cow<'_, Value> {
    if event.get("involvedObject").is_some() {
        return Cow::Borrowed(event);
    }
    let mut event = event.clone();
    to_core(&mut event);
    Cow::Owned(event)
}

fn selectable(event: &Value, field: &str) -> Option<String> {
    let event = as_core(event);
    let value = match field {
        "reason" | "reportingComponent" | "type" => text(&event[field]),
        "source" => or(text(&event["source"]["component"]), text(&event["reportingComponent"])),
        _ => match field.strip_prefix("involvedObject.")? {
            inner @ ("kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion" | "fieldPath") => {
                text(&event["involvedObject"][inner])
            }
            _ => return None,
        },
    };
    Some(value.to_owned())
}

fn regarding_field(event: &Value, field: &str) -> Option<String> {
    match field {
        "reason" | "type" => selectable(event, field),
        "reportingController" => selectable(event, "reportingComponent"),
        _ => selectable(event, &format!("involvedObject.{}", field.strip_prefix("regarding.")?)),
    }
}

/// What every Event must fulfil. `controller` is the field of the reporting controller in the served version.
fn validate(errors: &mut Errors, event: &Value, controller: &str) {
    let namespace = text(&event["metadata"]["namespace"]);
    let regarding = text(&event["involvedObject"]["namespace"]);
    let mismatch = |errors: &mut Errors| {
        errors.invalid(&"involvedObject.namespace", regarding, "does not match event.namespace");
    };
    if event["eventTime"].is_string() {
        if regarding.is_empty() && !matches!(namespace, "default" | "kube-system") {
            mismatch(errors);
        }
        let reporter = text(&event["reportingComponent"]);
        if reporter.is_empty() {
            errors.required(&controller, "");
        }
        errors.syntax(&controller, reporter, syntax::qualified_name(reporter));
        for (field, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)] {
            let word = text(&event[field]);
            if word.is_empty() && field != "message" {
                errors.required(&field, "");
            }
            if word.len() > most {
                errors.invalid(&field, "", &format!("can have at most {most} characters"));
            }
        }
    } else if regarding.is_empty() {
        if !matches!(namespace, "" | "default") {
            mismatch(errors);
        }
    } else if namespace != regarding {
        mismatch(errors);
    }
    errors.syntax(&"namespace", namespace, syntax::subdomain(namespace));
}

fn validate_series(errors: &mut Errors, event: &Value) {
    let series = &event["series"];
    if series.is_object() {
        if int(&series["count"]) < 2 {
            errors.invalid(&"series.count", "", "should be at least 2");
        }
        if !series["lastObservedTime"].is_string() {
            errors.required(&"series.lastObservedTime", "");
        }
    }
}

fn validate_strictly(errors: &mut Errors, event: &Value, old: &Value) {
    let event = as_core(event);
    validate(errors, &event, "reportingController");
    if !old.is_null() {
        return validate_strict_update(errors, &event, &as_core(old));
    }
    validate_series(errors, &event);
    if !event["eventTime"].is_string() {
        errors.required(&"eventTime", "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&"type", "", &format!("has invalid value: {kind}"));
    }
}

/// Of an Event only the series moves.
fn validate_strict_update(errors: &mut Errors, new: &Value, old: &Value) {
    if new["series"] != old["series"] {
        validate_series(errors, new);
    }
    let fields = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    for field in fields {
        let shown = if field == "reportingComponent" { "reportingController" } else { field };
        errors.immutable(&Path::new(shown), &new[field], &old[field]);
    }
}

fn cell(event: &Value, now: Timestamp, column: &str) -> Option<Value> {
    let event = as_core(event);
    let series = &event["series"];
    let shown = match column {
        "First Seen" => {
            let first = &event["firstTimestamp"];
            since(if first.is_string() { first } else { &event["eventTime"] }, now)
        }
        "Last Seen" => match (series.is_object(), event["lastTimestamp"].is_string()) {
            (true, _) => since(&series["lastObservedTime"], now),
            (false, true) => since(&event["lastTimestamp"], now),
            (false, false) => return cell(&event, now, "First Seen"),
        },
        "Type" => text(&event["type"]).to_owned(),
        "Reason" => text(&event["reason"]).to_owned(),
        "Object" => {
            let object = &event["involvedObject"];
            let kind = text(&object["kind"]).to_lowercase();
            match text(&object["name"]) {
                "" => kind,
                name => format!("{kind}/{name}"),
            }
        }
        "Subobject" => text(&event["involvedObject"]["fieldPath"]).to_owned(),
        "Source" => {
            let component = or(text(&event["source"]["component"]), text(&event["reportingComponent"]));
            match or(text(&event["source"]["host"]), text(&event["reportingInstance"])) {
                "" => component.to_owned(),
                instance => format!("{component}, {instance}"),
            }
        }
        "Message" => text(&event["message"]).trim().to_owned(),
        "Count" if series.is_object() => return Some(int(&series["count"]).into()),
        "Count" => return Some(int(&event["count"]).max(1).into()),
        "Name" => text(&event["metadata"]["name"]).to_owned(),
        _ => return None,
    };
    Some(shown.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_one_form_into_the_other_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "message": "m",
            "source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "count": 2,
            "type": "Normal", "eventTime": null, "reportingComponent": "c", "reportingInstance": "",
        });
        let mut event = core.clone();
        from_core(&mut event);
        assert_eq!(event["note"], "m");
        assert_eq!(event["regarding"]["name"], "p");
        assert_eq!(event["deprecatedCount"], 2);
        assert_eq!(event["reportingController"], "c");
        assert_eq!(regarding_field(&event, "regarding.kind").as_deref(), Some("Pod"));
        to_core(&mut event);
        assert_eq!(event, core);
        assert_eq!(selectable(&core, "source").as_deref(), Some("c"));
        assert_eq!(selectable(&core, "regarding.kind"), None);
    }
}
