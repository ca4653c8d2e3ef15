//! Checks what the schema says of fields (see [`super::schema`]), in the words of the real server.

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    pod_spec,
    schema::{Field, Schema, Struct, Type, schema},
    selectors, syntax,
    value::{entries, list, text},
};

/// What the server sets and checks in a field, beyond its type.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) default: Option<Value>,
    /// Field and value without which the default does not apply.
    pub(super) default_if: Option<(&'static str, &'static str)>,
    pub(super) required: bool,
    pub(super) immutable: bool,
    /// Known values of a string; empty if all are allowed.
    pub(super) words: Vec<&'static str>,
    pub(super) range: Option<(i64, i64)>,
    pub(super) syntax: Option<&'static str>,
}

impl Rules {
    pub(super) fn parse(words: impl Iterator<Item = &'static str>) -> Self {
        let mut rules = Self::default();
        for word in words {
            let (first, rest) = word.split_at(1);
            match first {
                "!" => rules.default = serde_json::from_str(rest).ok(),
                "?" => rules.default_if = rest.split_once('='),
                "+" => rules.required = true,
                "~" => rules.immutable = true,
                "|" => rules.words = rest.split(',').collect(),
                ":" => rules.syntax = Some(rest),
                ">" => {
                    let lowest = rest.strip_prefix('=').and_then(|number| number.parse().ok());
                    rules.range = Some((lowest.unwrap_or(1), i64::MAX));
                }
                _ => {
                    let range = word.split_once("..").and_then(|(low, high)| low.parse().ok().zip(high.parse().ok()));
                    rules.range = range.or(rules.range);
                }
            }
        }
        rules
    }

    pub(super) fn checks(&self) -> bool {
        self.required || self.immutable || !self.words.is_empty() || self.range.is_some() || self.syntax.is_some()
    }
}

/// Checks of a structure that go beyond its single fields.
pub(super) type Check = fn(&mut Errors, &Value, &Path<'_>);

pub(super) fn of_structure(id: &str) -> Option<Check> {
    Some(match id {
        "meta/v1.LabelSelector" => selectors::validate,
        "core/v1.PodTemplateSpec" => pod_spec::validate_template,
        "core/v1.PodSpec" => pod_spec::validate,
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Content,
    Status,
}

/// Checks a part of an object of the structure `id`. `old` is null on creation. What is immutable and changed is returned apart,
/// as the real server finds it last.
pub(super) fn check(errors: &mut Errors, id: &str, new: &Value, old: &Value, part: Part) -> Errors {
    let schema = schema();
    let mut changed = Errors::new();
    let Some(structure) = schema.find(id).filter(|structure| structure.checked) else { return changed };
    let mut walk = Walk { schema, errors, changed: &mut changed };
    for field in &structure.fields {
        let of_part = match field.name {
            "metadata" => false,
            "status" => part == Part::Status,
            _ => part == Part::Content,
        };
        if of_part {
            walk.field(field, new, old, &Path::new(field.name));
        }
    }
    changed
}

struct Walk<'a> {
    schema: &'static Schema,
    errors: &'a mut Errors,
    changed: &'a mut Errors,
}

impl Walk<'_> {
    fn structure(&mut self, structure: &Struct, new: &Value, old: &Value, at: &Path<'_>) {
        if !structure.checked || !new.is_object() {
            return;
        }
        for field in &structure.fields {
            self.field(field, new, old, &at.child(field.name));
        }
        if let Some(check) = of_structure(structure.id) {
            check(self.errors, new, at);
        }
    }

    fn field(&mut self, field: &Field, new: &Value, old: &Value, at: &Path<'_>) {
        let (value, before) = (&new[field.name], &old[field.name]);
        let rules = &field.rules;
        if rules.immutable && !old.is_null() {
            self.changed.immutable(at, value, before);
        }
        if is_unset(&field.kind, value) {
            if rules.required || (!rules.words.is_empty() && matches!(field.kind, Type::String(_))) {
                self.errors.required(at, "");
            }
            return;
        }
        if !rules.words.is_empty() && !rules.words.contains(&text(value)) {
            self.errors.not_supported(at, value, &rules.words);
        }
        if let (Some((low, high)), Some(number)) = (rules.range, value.as_i64())
            && !(low..=high).contains(&number)
        {
            let message = match (low, high) {
                (1, i64::MAX) => "must be greater than 0".to_owned(),
                (low, i64::MAX) => format!("must be greater than or equal to {low}"),
                (low, high) => syntax::out_of_range(low, high),
            };
            self.errors.invalid(at, number, &message);
        }
        if let Some(syntax) = rules.syntax {
            self.syntax(syntax, value, at);
        }
        self.inner(&field.kind, value, before, at);
    }

    fn syntax(&mut self, syntax: &str, value: &Value, at: &Path<'_>) {
        let word = text(value);
        let wrong = match syntax {
            "labels" => return selectors::validate_labels(self.errors, value, at),
            "label" => syntax::label(word),
            "optional-subdomain" if word.is_empty() => Vec::new(),
            "subdomain" | "optional-subdomain" => syntax::subdomain(word),
            "qualified" => syntax::qualified_name(word),
            "value" => syntax::label_value(word),
            "port" => syntax::port_name(word),
            _ => vec![format!("there is no syntax {syntax}")],
        };
        self.errors.syntax(at, word, wrong);
    }

    fn inner(&mut self, kind: &Type, new: &Value, old: &Value, at: &Path<'_>) {
        if self.schema.structure_of(kind).is_none_or(|structure| !structure.checked) {
            return;
        }
        match kind {
            Type::Optional(inner) => self.inner(inner, new, old, at),
            Type::List(inner) => {
                for (i, element) in list(new).iter().enumerate() {
                    self.inner(inner, element, &Value::Null, &at.index(i));
                }
            }
            Type::Map(inner) => {
                for (key, element) in entries(new) {
                    self.inner(inner, element, &Value::Null, &at.key(key));
                }
            }
            Type::Struct(structure) => {
                if let Some(structure) = self.schema.structs.get(*structure) {
                    self.structure(structure, new, old, at);
                }
            }
            _ => {}
        }
    }
}

/// Whether a field has no value: it is absent, or empty, or a zero that is not optional.
fn is_unset(kind: &Type, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Type::String(_), Value::String(text)) => text.is_empty(),
        (Type::Int(_), number) => number.as_i64() == Some(0),
        (Type::List(_), Value::Array(list)) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_syntax_that_the_schema_names_is_known() {
        for field in schema().structs.iter().flat_map(|structure| &structure.fields) {
            let Some(syntax) = field.rules.syntax else { continue };
            let mut errors = Errors::new();
            Walk { schema: schema(), errors: &mut errors, changed: &mut Errors::new() }.syntax(
                syntax,
                &json!(""),
                &Path::new("x"),
            );
            let unknown = errors.into_list().iter().any(|error| error.message.contains("there is no syntax"));
            assert!(!unknown, "{syntax}");
        }
    }
}
