//! Events: one storage, served in the core group and in `events.k8s.io`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    FieldError, Hub, NameRule,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::{Bad, Errors, Path},
    syntax,
    table::{name, or, since},
    value::{int, object, text},
};

/// `events` of the core group.
pub(super) const CORE: Behaviour = behaviour!("core.Event", plain,
    create_on_update: true,
    name: NameRule::PathSegment,
    validate_create: |event| validate(event, "reportingComponent").into_list(),
    validate_update: |event, _| validate(event, "reportingComponent").into_list(),
    field: |event, field| if field.starts_with("regarding.") { None } else { selectable(event, field) },
    field_labels: true,
    row: row,
);

/// `events` of `events.k8s.io`.
pub(super) const EVENTS: Behaviour = behaviour!("events.Event", plain,
    create_on_update: true,
    validate_create: validate_strictly,
    validate_update: validate_strict_update,
    field: regarding_field,
    field_labels: true,
    row: row,
    hub: Some(Hub { group: "", version: "v1", to_hub: to_core, from_hub: from_core }),
);

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

/// Turns an Event of `events.k8s.io` into one of the core group.
fn to_core(event: &mut Value) {
    let map = object(event);
    for (new, old) in NAMES {
        rename(map, new, old);
    }
    map.insert("apiVersion".to_owned(), "v1".into());
    canonicalize("core.Event", event);
}

/// Turns an Event of the core group into one of `events.k8s.io`.
fn from_core(event: &mut Value) {
    let map = object(event);
    for (new, old) in NAMES {
        rename(map, old, new);
    }
    map.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    canonicalize("events.Event", event);
}

/// The Event with the names of the core group.
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
fn validate(event: &Value, controller: &str) -> Errors {
    let mut errors = Errors::new();
    let namespace = text(&event["metadata"]["namespace"]);
    let regarding = text(&event["involvedObject"]["namespace"]);
    let mismatch = |errors: &mut Errors| {
        errors.invalid(&"involvedObject.namespace", regarding, "does not match event.namespace");
    };
    if event["eventTime"].is_string() {
        if regarding.is_empty() && !matches!(namespace, "default" | "kube-system") {
            mismatch(&mut errors);
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
            mismatch(&mut errors);
        }
    } else if namespace != regarding {
        mismatch(&mut errors);
    }
    errors.syntax(&"namespace", namespace, syntax::subdomain(namespace));
    errors
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

fn validate_strictly(event: &Value) -> Vec<FieldError> {
    let event = as_core(event);
    let mut errors = validate(&event, "reportingController");
    validate_series(&mut errors, &event);
    if !event["eventTime"].is_string() {
        errors.required(&"eventTime", "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&"type", "", &format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if event[field].is_string() {
            errors.invalid(&field, "", "needs to be unset");
        }
    }
    if int(&event["count"]) != 0 {
        errors.invalid(&"count", "", "needs to be unset");
    }
    if event["source"].as_object().is_some_and(|source| !source.is_empty()) {
        errors.invalid(&"source", "", "needs to be unset");
    }
    errors.into_list()
}

/// Of an Event only the series moves.
fn validate_strict_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let (new, old) = (as_core(new), as_core(old));
    let mut errors = validate(&new, "reportingController");
    if new["series"] != old["series"] {
        validate_series(&mut errors, &new);
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
    for field in fields.into_iter().filter(|field| new[*field] != old[*field]) {
        let shown = if field == "reportingComponent" { "reportingController" } else { field };
        errors.invalid(&Path::new(shown), Bad::from(&new[field]), "field is immutable");
    }
    errors.into_list()
}

fn row(event: &Value, now: Timestamp) -> Vec<Value> {
    let event = as_core(event);
    let first = if event["firstTimestamp"].is_string() { &event["firstTimestamp"] } else { &event["eventTime"] };
    let first = since(first, now);
    let mut last = first.clone();
    if event["lastTimestamp"].is_string() {
        last = since(&event["lastTimestamp"], now);
    }
    let mut count = int(&event["count"]);
    if event["series"].is_object() {
        last = since(&event["series"]["lastObservedTime"], now);
        count = int(&event["series"]["count"]);
    } else if count == 0 {
        count = 1;
    }
    let object = &event["involvedObject"];
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(text(&event["source"]["component"]), text(&event["reportingComponent"]));
    let source = match or(text(&event["source"]["host"]), text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        last.into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        target.into(),
        text(&object["fieldPath"]).into(),
        source.into(),
        text(&event["message"]).trim().into(),
        first.into(),
        count.into(),
        name(&event),
    ]
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
