//! Label selectors as parts of objects: validation, matching, and how tables show them.

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    syntax,
    value::{entries, list, size, text},
};

pub(crate) fn validate_labels(errors: &mut Errors, labels: &Value, at: &Path<'_>) {
    for (key, value) in entries(labels) {
        errors.syntax(at, key, syntax::qualified_name(key));
        errors.syntax(at, text(value), syntax::label_value(text(value)));
    }
}

pub(crate) fn validate_annotations(errors: &mut Errors, annotations: &Value, at: &Path<'_>) {
    const MOST: usize = 256 * 1024;
    let mut total = 0;
    for (key, value) in entries(annotations) {
        for message in syntax::qualified_name(&key.to_lowercase()) {
            errors.invalid(at, key, &message);
        }
        total += key.len() + text(value).len();
    }
    if total > MOST {
        errors.too_long(at, MOST);
    }
}

pub(super) fn validate(errors: &mut Errors, selector: &Value, at: &Path<'_>) {
    validate_labels(errors, &selector["matchLabels"], &at.child("matchLabels"));
    let expressions = at.child("matchExpressions");
    for (i, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let at = expressions.index(i);
        let values = list(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&at.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(
                    &at.child("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(&expression["key"]);
        errors.syntax(&at.child("key"), key, syntax::qualified_name(key));
        let values_at = at.child("values");
        for (j, value) in values.iter().enumerate() {
            errors.syntax(&values_at.index(j), text(value), syntax::label_value(text(value)));
        }
    }
}

pub(super) fn is_empty(selector: &Value) -> bool {
    size(&selector["matchLabels"]) == 0 && list(&selector["matchExpressions"]).is_empty()
}

/// Whether the selector can be used at all: known operators, proper keys and values.
pub(super) fn is_usable(selector: &Value) -> bool {
    let mut errors = Errors::new();
    validate(&mut errors, selector, &Path::new("selector"));
    errors.is_empty()
}

/// Whether the selector selects an object with these labels. An absent selector selects nothing.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    entries(&selector["matchLabels"]).all(|(key, value)| labels.get(key) == Some(value))
        && list(&selector["matchExpressions"]).iter().all(|expression| {
            let label = labels.get(text(&expression["key"]));
            let listed = || label.is_some_and(|label| list(&expression["values"]).contains(label));
            match text(&expression["operator"]) {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

/// The selector as a query: `a=b,c in (d,e)`.
pub(super) fn query(selector: &Value) -> String {
    let mut terms: Vec<(&str, String)> =
        entries(&selector["matchLabels"]).map(|(key, value)| (key, format!("{key}={}", text(value)))).collect();
    for expression in list(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = list(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let term = match text(&expression["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// The selector in a table: `<none>` when it says nothing.
pub(super) fn cell(selector: &Value) -> String {
    if !is_usable(selector) {
        return "<error>".to_owned();
    }
    let query = query(selector);
    if query.is_empty() { "<none>".to_owned() } else { query }
}

/// Labels in a table: `a=b,c=d`, `<none>` when there are none.
pub(super) fn labels_cell(labels: &Value) -> String {
    let pairs: Vec<String> = entries(labels).map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matches_and_shows_selectors() {
        let selector = json!({
            "matchLabels": {"z": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "b", "operator": "DoesNotExist"},
            ],
        });
        assert!(matches(&selector, &json!({"z": "1", "a": "x"})));
        assert!(!matches(&selector, &json!({"z": "1", "a": "x", "b": ""})));
        assert!(!matches(&selector, &json!({"a": "x"})));
        assert!(!matches(&Value::Null, &json!({})) && matches(&json!({}), &Value::Null));
        assert_eq!(cell(&selector), "a in (x,y),!b,z=1");
        assert_eq!(cell(&json!({})), "<none>");
        assert_eq!(cell(&json!({"matchExpressions": [{"key": "a", "operator": "X"}]})), "<error>");
    }
}
