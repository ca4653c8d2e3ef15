//! Validation of conditions of the common form.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    syntax,
    value::{int, text},
};

pub(super) fn validate(errors: &mut Errors, conditions: &[Value], at: &Path<'_>) {
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let at = at.index(i);
        let kind = text(&condition["type"]);
        if !seen.insert(kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        errors.syntax(&at.child("type"), kind, syntax::qualified_name(kind));
        let (status, known) = (text(&condition["status"]), ["False", "True", "Unknown"]);
        if !known.contains(&status) {
            errors.not_supported(&at.child("status"), status, &known);
        }
        let generation = int(&condition["observedGeneration"]);
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), generation, "must be greater than or equal to zero");
        }
        if !condition["lastTransitionTime"].is_string() {
            errors.required(&at.child("lastTransitionTime"), "");
        }
        let reason = text(&condition["reason"]);
        let reason_at = at.child("reason");
        if reason.is_empty() {
            errors.required(&reason_at, "");
        } else {
            errors.syntax(&reason_at, reason, syntax::condition_reason(reason));
            if reason.len() > 1024 {
                errors.too_long(&reason_at, 1024);
            }
        }
        if text(&condition["message"]).len() > 32 * 1024 {
            errors.too_long(&at.child("message"), 32 * 1024);
        }
    }
}
