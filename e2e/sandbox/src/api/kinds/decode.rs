//! What the real server's decoder finds wrong with an object: fields it does not know, and values of the wrong type.

use serde_json::{Map, Value};

use super::{
    errors::Path,
    quantity::{self, Quantity},
    schema::{Schema, Struct, Type, schema},
};
use crate::value::json;

/// Removes the fields that the structure `id` does not know and returns where they were.
pub(super) fn prune(id: &str, value: &mut Value) -> Vec<String> {
    let mut removed = vec![];
    if let (Some(structure), Value::Object(map)) = (schema().find(id), value) {
        prune_structure(structure, map, None, &mut removed);
    }
    removed
}

fn prune_structure(structure: &Struct, map: &mut Map<String, Value>, at: Option<&Path<'_>>, removed: &mut Vec<String>) {
    map.retain(|name, value| {
        let field = structure.field(name);
        let at = Path::field(at, name);
        match field {
            Some(field) => prune_value(&field.kind, value, &at, removed),
            None => removed.push(at.to_string()),
        }
        field.is_some()
    });
}

fn prune_value(kind: &Type, value: &mut Value, at: &Path<'_>, removed: &mut Vec<String>) {
    match (kind, value) {
        (Type::Optional(inner), value) => prune_value(inner, value, at, removed),
        (Type::List(inner), Value::Array(list)) if has_structure(inner) => {
            for (i, element) in list.iter_mut().enumerate() {
                prune_value(inner, element, &at.index(i), removed);
            }
        }
        (Type::Map(inner), Value::Object(map)) if has_structure(inner) => {
            for (name, element) in map.iter_mut() {
                prune_value(inner, element, &at.child(name), removed);
            }
        }
        (Type::Struct(structure), Value::Object(map)) => {
            if let Some(structure) = schema().structs.get(*structure) {
                prune_structure(structure, map, Some(at), removed);
            }
        }
        _ => {}
    }
}

fn has_structure(kind: &Type) -> bool {
    match kind {
        Type::Struct(_) => true,
        Type::Optional(inner) | Type::List(inner) | Type::Map(inner) => has_structure(inner),
        _ => false,
    }
}

pub(super) fn type_error(id: &str, value: &Value) -> Option<String> {
    let schema = schema();
    let structure = schema.find(id)?;
    let check = Check { schema, within: structure };
    match value {
        Value::Object(map) => check.structure(structure, map, None),
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type {}",
            json::kind_of(other),
            structure.go_type()
        )),
    }
}

/// The type error in the metadata of any object.
pub(crate) fn metadata_type_error(object: &Value) -> Option<String> {
    let schema = schema();
    let within = schema.find("meta/v1.ObjectMeta")?;
    match object.get("metadata")? {
        Value::Null => None,
        Value::Object(map) => Check { schema, within }.structure(within, map, Some(&Path::new("metadata"))),
        other => Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", json::kind_of(other))),
    }
}

struct Check<'a> {
    schema: &'static Schema,
    within: &'a Struct,
}

impl Check<'_> {
    fn structure(&self, structure: &Struct, map: &Map<String, Value>, at: Option<&Path<'_>>) -> Option<String> {
        let check = Check { schema: self.schema, within: structure };
        map.iter().find_map(|(name, value)| {
            let field = structure.field(name)?;
            let embedded = Path::field(at, &field.embedded);
            let at = if field.embedded.is_empty() { at } else { Some(&embedded) };
            check.value(&field.kind, value, &Path::field(at, name))
        })
    }

    fn value(&self, kind: &Type, value: &Value, at: &Path<'_>) -> Option<String> {
        if value.is_null() {
            return None;
        }
        match (kind, value) {
            (Type::Optional(inner), _) => self.value(inner, value, at),
            (Type::Any(_), _)
            | (Type::String(_) | Type::IntOrString, Value::String(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Float, Value::Number(_)) => None,
            (Type::List(inner), Value::Array(list)) => list.iter().find_map(|element| self.value(inner, element, at)),
            (Type::Map(inner), Value::Object(map)) => map.values().find_map(|element| self.value(inner, element, at)),
            (Type::Struct(structure), Value::Object(map)) => {
                self.structure(self.schema.structs.get(*structure)?, map, Some(at))
            }
            (Type::Int(name), Value::Number(number)) => {
                (!fits(name, number)).then(|| self.mismatch(&format!("number {number}"), at, name))
            }
            (Type::IntOrString, Value::Number(number)) => {
                (!fits("int32", number)).then(|| self.mismatch(&format!("number {number}"), at, "int32"))
            }
            (Type::IntOrString, _) => Some(self.mismatch(json::kind_of(value), at, "int32")),
            (Type::Quantity, _) => quantity_error(value),
            (Type::Time, Value::String(text)) => time_error(text, "2006-01-02T15:04:05Z07:00"),
            (Type::Micro, Value::String(text)) => micro_error(text),
            (Type::Bytes, Value::String(text)) => base64_error(text),
            _ => Some(self.mismatch(json::kind_of(value), at, &self.go_type(kind))),
        }
    }

    fn mismatch(&self, found: &str, at: &Path<'_>, wanted: &str) -> String {
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.within.go_name(),
            at.field_names()
        )
    }

    fn go_type(&self, kind: &Type) -> String {
        match kind {
            Type::String(name) | Type::Int(name) => (*name).to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Float => "float64".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Time | Type::Micro => "string".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::IntOrString => "int32".to_owned(),
            Type::Any(_) => "interface {}".to_owned(),
            Type::Optional(inner) => self.go_type(inner),
            Type::List(inner) => format!("[]{}", self.go_type(inner)),
            Type::Map(inner) if matches!(**inner, Type::Quantity) => "v1.ResourceList".to_owned(),
            Type::Map(inner) => format!("map[string]{}", self.go_type(inner)),
            Type::Struct(at) => self.schema.structs.get(*at).map(Struct::go_type).unwrap_or_default(),
        }
    }
}

fn fits(name: &str, number: &serde_json::Number) -> bool {
    let Some(n) = number.as_i64() else {
        return name == "uint64" && number.is_u64();
    };
    match name {
        "int32" => i32::try_from(n).is_ok(),
        "uint16" => u16::try_from(n).is_ok(),
        "uint32" => u32::try_from(n).is_ok(),
        _ => true,
    }
}

fn quantity_error(value: &Value) -> Option<String> {
    let error = match value {
        Value::String(text) => Quantity::parse(text).err(),
        Value::Number(number) => Quantity::parse(&number.to_string()).err(),
        other => Quantity::parse(&other.to_string()).err(),
    };
    error.map(|error| quantity::error_message(error).to_owned())
}

fn time_error(text: &str, layout: &str) -> Option<String> {
    super::canonical::parse_time(text)
        .is_none()
        .then(|| format!(r#"parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006""#))
}

fn micro_error(text: &str) -> Option<String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let error = time_error(text, LAYOUT);
    if error.is_some() {
        return error;
    }
    let rest = text.get("2006-01-02T15:04:05".len()..).unwrap_or_default();
    let digits = rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let (bad, wanted) = match digits {
        6 => return None,
        7.. => (rest.get(7..).unwrap_or_default(), "Z07:00"),
        _ => (rest, ".000000"),
    };
    Some(format!(r#"parsing time "{text}" as "{LAYOUT}": cannot parse "{bad}" as "{wanted}""#))
}

fn base64_error(text: &str) -> Option<String> {
    let meaningful = |b: &u8| !matches!(b, b'\n' | b'\r');
    let body = text.trim_end_matches(['=', '\n', '\r']);
    let bad = body.bytes().position(|b| meaningful(&b) && !b.is_ascii_alphanumeric() && b != b'+' && b != b'/');
    let length = text.bytes().filter(meaningful).count();
    let at = bad.or_else(|| (length % 4 != 0).then_some(text.len()))?;
    Some(format!("illegal base64 data at input byte {at}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prunes_and_names_unknown_fields() {
        let mut pod = json!({
            "metadata": {"name": "x", "labels": {"anything": "goes"}},
            "spec": {"containers": [{"bogus": 1, "name": "c", "ports": [{"x": 1}]}], "zz": null},
            "meta": {},
        });
        let mut paths = prune("core/v1.Pod", &mut pod);
        paths.sort();
        assert_eq!(paths, ["meta", "spec.containers[0].bogus", "spec.containers[0].ports[0].x", "spec.zz"]);
        let left = json!({
            "metadata": {"name": "x", "labels": {"anything": "goes"}},
            "spec": {"containers": [{"name": "c", "ports": [{}]}]},
        });
        assert_eq!(pod, left);
        assert!(prune("core/v1.Pod", &mut pod).is_empty());
    }

    #[test]
    fn says_what_the_decoder_says() {
        let deployment =
            |spec: Value| type_error("apps/v1.Deployment", &json!({"metadata": {"name": "x"}, "spec": spec}));
        let table = [
            (
                json!({"template": "x"}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec",
            ),
            (
                json!({"replicas": 99_999_999_999_i64}),
                "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
        ];
        for (spec, message) in table {
            assert_eq!(deployment(spec).as_deref(), Some(message));
        }
        let pod = |pod: Value| type_error("core/v1.Pod", &pod);
        let table = [
            (json!({"spec": "a"}), "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
            (
                json!({"spec": {"containers": {"a": 1}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"containers": ["x"]}}),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"metadata": {"creationTimestamp": "zz"}}),
                r#"parsing time "zz" as "2006-01-02T15:04:05Z07:00": cannot parse "zz" as "2006""#,
            ),
        ];
        for (value, message) in table {
            assert_eq!(pod(value).as_deref(), Some(message));
        }
        assert_eq!(deployment(json!({"replicas": null, "paused": true})), None);
    }
}
