//! Validation of taints and tolerations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    dump,
    errors::{Bad, Errors, Path},
    syntax,
    value::text,
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The gate of tolerations that compare numbers. Where it is on, their values are not validated here.
const COMPARISON: &str = "TaintTolerationComparisonOperators";

/// Validates tolerations.
pub(super) fn validate(errors: &mut Errors, tolerations: &[Value], at: &Path<'_>) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = at.index(i);
        let (key, operator) = (text(&toleration["key"]), text(&toleration["operator"]));
        let (value, effect) = (text(&toleration["value"]), text(&toleration["effect"]));
        if !key.is_empty() {
            errors.syntax(&at.child("key"), key, syntax::qualified_name(key));
        } else if operator != "Exists" {
            let message = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at.child("operator"), operator, message);
        }
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, message);
        }
        match operator {
            "" | "Equal" => {
                let wrong = syntax::label_value(value);
                if !wrong.is_empty() {
                    errors.invalid(&at.child("operator"), value, &wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&at.child("operator"), value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                errors.not_supported_without(
                    COMPARISON,
                    &at.child("operator"),
                    operator,
                    &["Equal", "Exists", "Lt", "Gt"],
                );
            }
            _ => errors.not_supported(&at.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.not_supported(&at.child("effect"), effect, &EFFECTS);
        }
    }
}

/// Validates the taints of a Node.
pub(super) fn validate_taints(errors: &mut Errors, taints: &[Value], at: &Path<'_>) {
    let mut seen = BTreeSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let at = at.index(i);
        let (key, value, effect) = (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
        errors.syntax(&at.child("key"), key, syntax::qualified_name(key));
        let wrong = syntax::label_value(value);
        if !wrong.is_empty() {
            errors.invalid(&at.child("value"), value, &wrong.join(";"));
        }
        errors.one_of(&at.child("effect"), effect, &EFFECTS);
        if !seen.insert((effect, key)) {
            let shown = Bad::raw(dump::internal("Taint", taint));
            errors.duplicate_because(&at, shown, "taints must be unique by key and effect pair");
        }
    }
}
