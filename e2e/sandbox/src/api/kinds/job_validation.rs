//! Validation of Jobs: what was generated for them, and what may change.

use serde_json::{Map, Value};

use super::{
    errors::{Errors, Path},
    jobs::{NAME_LABELS, UID_LABELS, has_condition},
    selectors,
    value::{int, list, object, take, text, yes},
    workloads,
};

pub(super) fn validate(errors: &mut Errors, job: &Value, old: &Value) {
    let spec = &job["spec"];
    let at = Path::new("spec");
    // Jobs of old servers lack the labels with a domain.
    let labels = &old["spec"]["template"]["metadata"]["labels"];
    let prefixed = old.is_null() || (labels.get(NAME_LABELS[1]).is_some() && labels.get(UID_LABELS[1]).is_some());
    validate_generated(errors, job, prefixed);
    validate_spec(errors, spec, &at);
    if !spec["selector"].is_object() {
        errors.required(&at.child("selector"), "");
    }
    workloads::validate_match(errors, &spec["selector"], &spec["template"], &at.child("template"));
    if !old.is_null() {
        validate_update(errors, job, old);
    }
}

/// The labels and the selector that were generated must be as generated.
fn validate_generated(errors: &mut Errors, job: &Value, prefixed: bool) {
    let spec = &job["spec"];
    if yes(&spec["manualSelector"]) || !spec["selector"].is_object() {
        return;
    }
    let (name, uid) = (text(&job["metadata"]["name"]), text(&job["metadata"]["uid"]));
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = [(UID_LABELS, uid), (NAME_LABELS, name)];
    let mut expected = Map::new();
    for i in 0..if prefixed { 2 } else { 1 } {
        for (label, value) in wanted.map(|(labels, value)| (labels[i], value)) {
            let at = format!("spec.template.metadata.labels[{label}]");
            let message = format!("must be '{value}'");
            match labels.get(label).map(text) {
                None => errors.required(&at, &message),
                Some(held) if held != value => errors.invalid(&at, labels, &message),
                Some(_) => {}
            }
            expected.insert(label.to_owned(), value.into());
        }
    }
    if selectors::is_usable(&spec["selector"]) && !selectors::matches(&spec["selector"], &Value::Object(expected)) {
        errors.invalid(&"spec.selector", &spec["selector"], "`selector` not auto-generated");
    }
}

/// Validates the spec of a Job, or of the Jobs of a `CronJob`, beyond its single fields.
pub(super) fn validate_spec(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let indexed = text(&spec["completionMode"]) == "Indexed";
    if indexed && spec["completions"].is_null() {
        errors.required(&at.child("completions"), "when completion mode is Indexed");
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(given) = spec[field].as_i64().filter(|_| !indexed) {
            errors.invalid(&at.child(field), given, "requires indexed completion mode");
        }
    }
    if spec["successPolicy"].is_object() && !indexed {
        errors.invalid(&at.child("successPolicy"), &spec["successPolicy"], "requires indexed completion mode");
    }
    if let Some(policy) = spec["podReplacementPolicy"].as_str() {
        let all: &[&str] = &["Failed", "TerminatingOrFailed"];
        let known = if spec["podFailurePolicy"].is_object() { &all[..1] } else { all };
        if !known.contains(&policy) {
            errors.not_supported(&at.child("podReplacementPolicy"), policy, known);
        }
    }
    let template_at = at.child("template");
    let spec_at = template_at.child("spec");
    let policy_at = spec_at.child("restartPolicy");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "Always" | "" => errors.required(&policy_at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            errors.invalid(&policy_at, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => {}
    }
}

fn validate_update(errors: &mut Errors, new: &Value, old: &Value) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    validate_completions(errors, spec, before);
    errors.immutable(&"spec.selector", &spec["selector"], &before["selector"]);
    validate_template_update(errors, new, old);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        errors.immutable(&format!("spec.{field}"), &spec[field], &before[field]);
    }
}

fn validate_completions(errors: &mut Errors, spec: &Value, before: &Value) {
    let at = "spec.completions";
    if text(&spec["completionMode"]) != "Indexed" {
        return errors.immutable(&at, &spec["completions"], &before["completions"]);
    }
    let Some(completions) = spec["completions"].as_i64() else { return };
    if spec["completions"] != before["completions"] && spec["parallelism"].as_i64() != Some(completions) {
        errors.invalid(&at, completions, "can only be modified in tandem with spec.parallelism");
    }
}

fn validate_template_update(errors: &mut Errors, new: &Value, old: &Value) {
    let (template, mut held) = (&new["spec"]["template"], old["spec"]["template"].clone());
    let suspended = yes(&old["spec"]["suspend"]);
    let started = old["status"]["startTime"].is_string();
    let idle = (!started || has_condition(old, "Suspended")) && int(&old["status"]["active"]) == 0;
    if !suspended || !idle {
        if *template != held {
            errors.invalid(&"spec.template", template, "field is immutable");
        }
        return;
    }
    // Where and with how much a Job runs may be changed while it waits.
    if template["spec"]["affinity"]["nodeAffinity"] != held["spec"]["affinity"]["nodeAffinity"] {
        allow_node_affinity(template, &mut held);
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(&mut held["spec"], &template["spec"], field);
    }
    for field in ["containers", "initContainers"] {
        let wanted = list(&template["spec"][field]);
        if let Some(Value::Array(containers)) = held["spec"].get_mut(field)
            && containers.len() == wanted.len()
        {
            for (container, wanted) in containers.iter_mut().zip(wanted) {
                if container["name"] == wanted["name"] {
                    take(container, wanted, "resources");
                }
            }
        }
    }
    if template["spec"] != held["spec"] {
        errors.invalid(&"spec.template.spec", &template["spec"], "field is immutable");
    }
}

fn allow_node_affinity(template: &Value, held: &mut Value) {
    let wanted = &template["spec"]["affinity"];
    let spec = object(&mut held["spec"]);
    if wanted.is_object() || spec.contains_key("affinity") {
        let affinity = spec.entry("affinity").or_insert(Value::Null);
        take(affinity, wanted, "nodeAffinity");
        if !wanted.is_object() && affinity.as_object().is_some_and(serde_json::Map::is_empty) {
            spec.remove("affinity");
        }
    }
}
