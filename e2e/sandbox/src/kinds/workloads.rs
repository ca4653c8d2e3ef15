//! What the workload kinds share: selectors and templates, counters in their status, numbers or percentages.

use serde_json::Value;

use super::{
    errors::{Bad, Errors, Path},
    pod_spec, selectors, syntax,
    value::{int, text},
};

/// The kind in the messages about a selector and a template.
pub(super) struct Words {
    /// In `empty selector is invalid for ...`.
    pub(super) empty: &'static str,
    /// In `activeDeadlineSeconds in ... is not Supported`.
    pub(super) deadline: &'static str,
    /// What is said of a selector that cannot be used.
    pub(super) unusable: &'static str,
}

/// Validates the selector of a workload.
pub(super) fn validate_selector(errors: &mut Errors, selector: &Value, words: &Words, at: &Path<'_>) {
    if !selector.is_object() {
        return errors.required(at, "");
    }
    selectors::validate(errors, selector, at);
    if selectors::is_empty(selector) {
        let message = format!("empty selector is invalid for {}", words.empty);
        errors.invalid(at, selectors::shown(selector), &message);
    }
    if !selectors::is_usable(selector) {
        errors.invalid(at, selectors::shown(selector), words.unusable);
    }
}

/// The labels of a template that the selector should select, but does not.
pub(super) fn validate_match(errors: &mut Errors, selector: &Value, template: &Value, at: &Path<'_>) {
    let labels = &template["metadata"]["labels"];
    if selectors::is_usable(selector) && !selectors::matches(selector, labels) {
        let metadata = at.child("metadata");
        let message = "`selector` does not match template `labels`";
        errors.invalid(&metadata.child("labels"), Bad::json(labels), message);
    }
}

/// What templates of workloads that run for ever must say.
pub(super) fn validate_endless(errors: &mut Errors, template: &Value, words: &Words, at: &Path<'_>) {
    let spec = at.child("spec");
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(&spec.child("restartPolicy"), policy, &["Always"]);
    }
    if template["spec"]["activeDeadlineSeconds"].is_number() {
        let message = format!("activeDeadlineSeconds in {} is not Supported", words.deadline);
        errors.forbidden(&spec.child("activeDeadlineSeconds"), &message);
    }
}

/// Validates selector and template of a Deployment or `ReplicaSet`.
pub(super) fn validate_replicated(errors: &mut Errors, spec: &Value, words: &Words, at: &Path<'_>) {
    let (selector, template) = (&spec["selector"], &spec["template"]);
    validate_selector(errors, selector, words, &at.child("selector"));
    if selector.is_object() && !selectors::is_usable(selector) {
        return;
    }
    let at = at.child("template");
    if selector.is_object() && !selectors::is_empty(selector) || selector.is_null() {
        validate_match(errors, selector, template, &at);
    }
    pod_spec::validate_template(errors, template, &at);
    validate_endless(errors, template, words, &at);
}

/// Counters of a status that may not be negative.
pub(super) fn validate_counters(errors: &mut Errors, status: &Value, counters: &[&str], at: &Path<'_>) {
    for counter in counters {
        errors.non_negative(&at.child(counter), status[*counter].as_i64());
    }
}

/// Counters of a status that may not exceed `status.replicas`.
pub(super) fn validate_at_most_replicas(errors: &mut Errors, status: &Value, counters: &[&str], at: &Path<'_>) {
    for counter in counters {
        let count = int(&status[*counter]);
        if count > int(&status["replicas"]) {
            errors.invalid(&at.child(counter), count, "cannot be greater than status.replicas");
        }
    }
}

/// Available Pods are ready ones.
pub(super) fn validate_available(errors: &mut Errors, status: &Value, ready: &str, at: &Path<'_>) {
    let available = int(&status["availableReplicas"]);
    if available > int(&status["readyReplicas"]) {
        errors.invalid(&at.child("availableReplicas"), available, &format!("cannot be greater than {ready}"));
    }
}

/// The collision count only grows.
pub(super) fn validate_collisions(errors: &mut Errors, new: &Value, old: &Value, at: &Path<'_>) {
    let count = new["collisionCount"].as_i64();
    if let Some(before) = old["collisionCount"].as_i64()
        && count.is_none_or(|count| count < before)
    {
        errors.invalid(&at.child("collisionCount"), count.unwrap_or(0), "cannot be decremented");
    }
}

/// Validates a number or a percentage.
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
