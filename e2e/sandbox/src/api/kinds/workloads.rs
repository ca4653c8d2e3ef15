//! What the workload kinds share: selectors and templates, counters in their status, numbers or percentages.

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    selectors, syntax,
    value::{int, text},
};

/// Validates selector and template of a workload whose Pods run until they are deleted. `kind` is the word for it in messages.
pub(super) fn validate(errors: &mut Errors, spec: &Value, kind: &str) {
    let at = Path::new("spec");
    let (selector, template) = (&spec["selector"], &spec["template"]);
    if selector.is_object() && selectors::is_empty(selector) {
        errors.invalid(&at.child("selector"), selector, &format!("empty selector is invalid for {kind}"));
    } else {
        validate_match(errors, selector, template, &at.child("template"));
    }
    validate_endless(errors, template);
}

pub(super) fn validate_match(errors: &mut Errors, selector: &Value, template: &Value, at: &Path<'_>) {
    let labels = &template["metadata"]["labels"];
    if selectors::is_usable(selector) && !selectors::matches(selector, labels) {
        let metadata = at.child("metadata");
        errors.invalid(&metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

/// What templates of Pods that run until they are deleted must say.
pub(super) fn validate_endless(errors: &mut Errors, template: &Value) {
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(&"spec.template.spec.restartPolicy", policy, &["Always"]);
    }
}

/// Counters of a status that may not exceed `status.replicas`.
pub(super) fn validate_at_most_replicas(errors: &mut Errors, status: &Value, counters: &[&str]) {
    let at = Path::new("status");
    for counter in counters {
        let count = int(&status[*counter]);
        if count > int(&status["replicas"]) {
            errors.invalid(&at.child(counter), count, "cannot be greater than status.replicas");
        }
    }
}

/// Available Pods are ready ones.
pub(super) fn validate_available(errors: &mut Errors, status: &Value, ready: &str) {
    let available = int(&status["availableReplicas"]);
    if available > int(&status["readyReplicas"]) {
        errors.invalid(&"status.availableReplicas", available, &format!("cannot be greater than {ready}"));
    }
}

pub(super) fn validate_collisions(errors: &mut Errors, new: &Value, old: &Value) {
    let count = new["status"]["collisionCount"].as_i64();
    if let Some(before) = old["status"]["collisionCount"].as_i64()
        && count.is_none_or(|count| count < before)
    {
        errors.invalid(&"status.collisionCount", count.unwrap_or(0), "cannot be decremented");
    }
}

pub(super) fn validate_int_or_percent(errors: &mut Errors, value: &Value, at: &Path<'_>) {
    match value {
        Value::String(percent) => {
            if let Some(message) = syntax::percent(percent) {
                errors.invalid(at, value, &message);
            }
        }
        number => errors.non_negative(at, number.as_i64()),
    }
}

/// The number of percents, if it is a percentage.
fn percents(value: &Value) -> Option<i64> {
    let percent = value.as_str().filter(|percent| syntax::percent(percent).is_none())?;
    percent.trim_end_matches('%').parse().ok().or(Some(i64::MAX))
}

/// The number, or the number of percents.
pub(super) fn int_or_percents(value: &Value) -> i64 {
    percents(value).unwrap_or_else(|| value.as_i64().or_else(|| text(value).parse().ok()).unwrap_or_default())
}

/// Percentages over 100 make no sense in some places.
pub(super) fn validate_at_most_all(errors: &mut Errors, value: &Value, at: &Path<'_>) {
    if percents(value).is_some_and(|percents| percents > 100) {
        errors.invalid(at, value, "must not be greater than 100%");
    }
}
