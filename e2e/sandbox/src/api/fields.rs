//! Field selectors: parsing with the real server's complaints, and matching.

use serde_json::Value;

use crate::{
    api::{names::quoted, resource::Resource},
    value::object::meta,
};

/// A conjunction of field comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTerm>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (field, equal, value) =
                cut(part).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value = unescape(value)?;
            if field.is_empty() && value.is_empty() {
                continue;
            }
            let known = matches!(field, "metadata.name")
                || (field == "metadata.namespace" && (resource.namespaced || !resource.group.is_empty()))
                || resource.field(&Value::Object(serde_json::Map::new()), field).is_some();
            if !known {
                return Err(unknown(resource, field));
            }
            terms.push(FieldTerm { field: field.to_owned(), equal, value });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object of the served form matches.
    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let same = match &*term.field {
                "metadata.name" => meta(object, "name") == term.value,
                "metadata.namespace" => meta(object, "namespace") == term.value,
                field => resource.field(object, field).unwrap_or_default() == term.value,
            };
            same == term.equal
        })
    }
}

fn unknown(resource: &Resource, field: &str) -> String {
    if resource.field_labels() {
        format!("field label not supported: {field}")
    } else if resource.is("batch", "jobs") {
        format!("field label {} not supported for batchv1.Job", quoted(field))
    } else {
        format!("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quoted(field))
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn cut(term: &str) -> Option<(&str, bool, &str)> {
    for (i, _) in term.char_indices() {
        let rest = &term[i..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..i], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", c as u32)),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_terms_are_cut_at_the_first_operator_and_unescaped() {
        assert_eq!(cut("a!=b"), Some(("a", false, "b")));
        assert_eq!(cut("a==b"), Some(("a", true, "b")));
        assert_eq!(cut("a"), None);
        assert_eq!(unescape(r"a\=b\,c").unwrap(), "a=b,c");
        assert_eq!(unescape("b=c").unwrap_err(), "invalid field selector: unescaped character in value: 61");
    }
}
