//! Validation of affinity and of topology spread constraints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    selectors, syntax,
    value::{entries, int, list, text},
};

/// Validates the affinity of a Pod.
pub(super) fn validate(errors: &mut Errors, affinity: &Value, at: &Path<'_>) {
    if !affinity.is_object() {
        return;
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = &affinity["nodeAffinity"];
    let node_at = at.child("nodeAffinity");
    if node[required].is_object() {
        validate_node_selector(errors, &node[required], &node_at.child(required));
    }
    let preferred_at = node_at.child(preferred);
    for (i, term) in list(&node[preferred]).iter().enumerate() {
        let at = preferred_at.index(i);
        validate_weight(errors, term, &at);
        validate_node_term(errors, &term["preference"], false, &at.child("preference"));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let at = at.child(field);
        let terms = at.child(required);
        for (i, term) in list(&affinity[field][required]).iter().enumerate() {
            validate_pod_term(errors, term, &terms.index(i));
        }
        let terms = at.child(preferred);
        for (i, term) in list(&affinity[field][preferred]).iter().enumerate() {
            let at = terms.index(i);
            validate_weight(errors, term, &at);
            validate_pod_term(errors, &term["podAffinityTerm"], &at.child("podAffinityTerm"));
        }
    }
}

fn validate_weight(errors: &mut Errors, term: &Value, at: &Path<'_>) {
    let weight = int(&term["weight"]);
    if !(1..=100).contains(&weight) {
        errors.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

/// Validates a node selector.
pub(super) fn validate_node_selector(errors: &mut Errors, selector: &Value, at: &Path<'_>) {
    let at = at.child("nodeSelectorTerms");
    let terms = list(&selector["nodeSelectorTerms"]);
    if terms.is_empty() {
        return errors.required(&at, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        validate_node_term(errors, term, true, &at.index(i));
    }
}

fn validate_node_term(errors: &mut Errors, term: &Value, strict: bool, at: &Path<'_>) {
    let expressions = at.child("matchExpressions");
    for (i, requirement) in list(&term["matchExpressions"]).iter().enumerate() {
        let at = expressions.index(i);
        let values = list(&requirement["values"]);
        let values_at = at.child("values");
        match text(&requirement["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values_at, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&values_at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.required(&values_at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(&requirement["key"]);
        errors.syntax(&at.child("key"), key, syntax::qualified_name(key));
        for (j, value) in values.iter().enumerate().filter(|_| strict) {
            errors.syntax(&values_at.index(j), text(value), syntax::label_value(text(value)));
        }
    }
    let fields = at.child("matchFields");
    for (i, requirement) in list(&term["matchFields"]).iter().enumerate() {
        let at = fields.index(i);
        let values = list(&requirement["values"]);
        match text(&requirement["operator"]) {
            "In" | "NotIn" if values.len() == 1 => {}
            "In" | "NotIn" => errors.required(
                &at.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(&requirement["key"]);
        if key != "metadata.name" {
            errors.invalid(&at.child("key"), key, "not a valid field selector key");
            continue;
        }
        let values_at = at.child("values");
        for (j, value) in values.iter().map(text).enumerate() {
            errors.syntax(&values_at.index(j), value, syntax::subdomain(value));
        }
    }
}

fn validate_pod_term(errors: &mut Errors, term: &Value, at: &Path<'_>) {
    for field in ["labelSelector", "namespaceSelector"] {
        selectors::validate(errors, &term[field], &at.child(field));
    }
    for namespace in list(&term["namespaces"]).iter().map(text) {
        errors.syntax(&at.child("namespace"), namespace, syntax::label(namespace));
    }
    validate_label_keys(errors, term, at);
    let key = text(&term["topologyKey"]);
    let key_at = at.child("topologyKey");
    if key.is_empty() {
        errors.required(&key_at, "can not be empty");
    }
    errors.syntax(&key_at, key, syntax::qualified_name(key));
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`.
fn validate_label_keys(errors: &mut Errors, term: &Value, at: &Path<'_>) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = list(&term[field]);
        let at = at.child(field);
        if !keys.is_empty() && !selector.is_object() {
            errors.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().map(text).enumerate() {
            errors.syntax(&at.index(i), key, syntax::qualified_name(key));
        }
    }
    let matching: Vec<&str> = list(&term["matchLabelKeys"]).iter().map(text).collect();
    let mut held: BTreeSet<&str> = entries(&selector["matchLabels"]).map(|(key, _)| key).collect();
    for expression in list(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        if held.contains(key)
            && let Some(i) = matching.iter().position(|held| *held == key)
        {
            errors.invalid(&at.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
        held.insert(key);
    }
    let mismatching = list(&term["mismatchLabelKeys"]);
    let keys_at = at.child("matchLabelKeys");
    for (i, key) in matching.iter().enumerate() {
        if mismatching.iter().any(|held| held == key) {
            errors.invalid(&keys_at.index(i), *key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Validates topology spread constraints.
pub(super) fn validate_spread(errors: &mut Errors, constraints: &[Value], at: &Path<'_>) {
    for (i, constraint) in constraints.iter().enumerate() {
        let at = at.index(i);
        let skew = int(&constraint["maxSkew"]);
        if skew <= 0 {
            errors.invalid(&at.child("maxSkew"), skew, "must be greater than zero");
        }
        let (key, action) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        if key.is_empty() {
            errors.required(&at.child("topologyKey"), "can not be empty");
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            let at = at.child("whenUnsatisfiable");
            errors.not_supported(&at, action, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let same = |other: &Value| text(&other["topologyKey"]) == key && text(&other["whenUnsatisfiable"]) == action;
        if constraints[i + 1..].iter().any(same) {
            let shown = format!("{{{key}, {action}}}");
            errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), shown.as_str());
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            let at = at.child("minDomains");
            if domains <= 0 {
                errors.invalid(&at, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let message = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&at, domains, &message);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[field].as_str().filter(|policy| !["Honor", "Ignore"].contains(policy)) {
                errors.not_supported(&at.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        validate_label_keys(errors, constraint, &at);
        selectors::validate(errors, &constraint["labelSelector"], &at.child("labelSelector"));
    }
}
