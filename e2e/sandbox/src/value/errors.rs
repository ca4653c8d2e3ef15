//! Collecting what is wrong with an object, with its place and in the words of the real server.

use std::fmt::Display;

use serde_json::Value;

use crate::value::json;
pub(crate) use crate::value::path::Path;

/// A validation failure, in the words of the real server.
pub(crate) struct FieldError {
    /// Cause reason, e.g. `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    /// Path, e.g. `spec.template.spec.containers[0].image`.
    pub(crate) field: String,
    /// Message without the path, e.g. `Invalid value: -1: must be greater than or equal to 0`.
    pub(crate) message: String,
    /// The feature gate that allows what was found; none if it is never allowed.
    pub(crate) allowed_by: Option<&'static str>,
}

pub(crate) struct Bad(Option<String>);

impl Bad {
    pub(crate) const OMITTED: Self = Self(None);

    pub(crate) fn raw(text: impl Into<String>) -> Self {
        Self(Some(text.into()))
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self(Some(json::text(value)))
    }
}

impl From<&str> for Bad {
    fn from(text: &str) -> Self {
        Self(Some(quoted(text)))
    }
}

impl From<i64> for Bad {
    fn from(number: i64) -> Self {
        Self(Some(number.to_string()))
    }
}

impl From<bool> for Bad {
    fn from(set: bool) -> Self {
        Self(Some(set.to_string()))
    }
}

impl From<&Value> for Bad {
    /// A string in quotes, anything else as JSON.
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => text.as_str().into(),
            other => Self::json(other),
        }
    }
}

/// A string in Go's quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                out.push_str("\\x");
                let hex = |nibble: u32| char::from_digit(nibble, 16).unwrap_or('0');
                out.push(hex(c as u32 >> 4));
                out.push(hex(c as u32 & 15));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[derive(Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn into_list(self) -> Vec<FieldError> {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, reason: &'static str, kind: &str, at: &impl Display, bad: &Bad, detail: &str) {
        let mut message = kind.to_owned();
        for part in bad.0.as_deref().into_iter().chain((!detail.is_empty()).then_some(detail)) {
            message.push_str(": ");
            message.push_str(part);
        }
        self.0.push(FieldError { reason, field: at.to_string(), message, allowed_by: None });
    }

    pub(crate) fn invalid(&mut self, at: &impl Display, bad: impl Into<Bad>, detail: &str) {
        self.push("FieldValueInvalid", "Invalid value", at, &bad.into(), detail);
    }

    /// A string that breaks the rules of its syntax.
    pub(crate) fn syntax(&mut self, at: &impl Display, text: &str, wrong: impl IntoIterator<Item = String>) {
        for message in wrong {
            self.invalid(at, text, &message);
        }
    }

    pub(crate) fn internal(&mut self, at: &impl Display, detail: &str) {
        self.push("InternalError", "Internal error", at, &Bad::OMITTED, detail);
    }

    pub(crate) fn required(&mut self, at: &impl Display, detail: &str) {
        self.push("FieldValueRequired", "Required value", at, &Bad::OMITTED, detail);
    }

    pub(crate) fn forbidden(&mut self, at: &impl Display, detail: &str) {
        self.push("FieldValueForbidden", "Forbidden", at, &Bad::OMITTED, detail);
    }

    pub(crate) fn duplicate(&mut self, at: &impl Display, bad: impl Into<Bad>) {
        self.push("FieldValueDuplicate", "Duplicate value", at, &bad.into(), "");
    }

    pub(crate) fn not_found(&mut self, at: &impl Display, bad: impl Into<Bad>) {
        self.push("FieldValueNotFound", "Not found", at, &bad.into(), "");
    }

    /// A word that is none of the known ones, in the order given.
    pub(crate) fn not_supported(&mut self, at: &impl Display, bad: impl Into<Bad>, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|word| quoted(word)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push("FieldValueNotSupported", "Unsupported value", at, &bad.into(), &detail);
    }

    /// Where that feature gate is on, the last error does not count.
    pub(crate) fn unless(&mut self, gate: &'static str) {
        if let Some(error) = self.0.last_mut() {
            error.allowed_by = Some(gate);
        }
    }

    pub(crate) fn too_long(&mut self, at: &impl Display, most: usize) {
        let detail = format!("may not be more than {most} bytes");
        self.push("FieldValueTooLong", "Too long", at, &Bad::OMITTED, &detail);
    }

    pub(crate) fn too_many(&mut self, at: &impl Display, found: usize, most: usize) {
        let items = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {items}");
        self.push("FieldValueTooMany", "Too many", at, &Bad::from(found as i64), &detail);
    }

    pub(crate) fn duplicate_because(&mut self, at: &impl Display, bad: impl Into<Bad>, detail: &str) {
        self.push("FieldValueDuplicate", "Duplicate value", at, &bad.into(), detail);
    }

    pub(crate) fn non_negative(&mut self, at: &impl Display, number: Option<i64>) {
        if let Some(number) = number.filter(|number| *number < 0) {
            self.invalid(at, number, "must be greater than or equal to 0");
        }
    }

    /// A word out of a list; empty words are required ones.
    pub(crate) fn one_of(&mut self, at: &impl Display, word: &str, supported: &[&str]) {
        if word.is_empty() {
            self.required(at, "");
        } else if !supported.contains(&word) {
            self.not_supported(at, word, supported);
        }
    }

    pub(crate) fn immutable(&mut self, at: &impl Display, new: &Value, old: &Value) {
        if new != old {
            self.invalid(at, new, "field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_places_and_messages() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let mut errors = Errors::new();
        errors.required(&first.child("image"), "");
        errors.invalid(&spec.child("replicas"), -1, "must be greater than or equal to 0");
        errors.not_supported(&first.child("resources").key("x"), "y", &["a", "b"]);
        errors.invalid(&spec, Bad::OMITTED, "not so");
        errors.immutable(&spec.child("completions"), &json!(5), &json!(1));
        let shown: Vec<String> =
            errors.into_list().iter().map(|e| format!("{}: {}: {}", e.reason, e.field, e.message)).collect();
        assert_eq!(
            shown,
            [
                "FieldValueRequired: spec.containers[0].image: Required value",
                "FieldValueInvalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                r#"FieldValueNotSupported: spec.containers[0].resources[x]: Unsupported value: "y": supported values: "a", "b""#,
                "FieldValueInvalid: spec: Invalid value: not so",
                "FieldValueInvalid: spec.completions: Invalid value: 5: field is immutable",
            ]
        );
    }
}
