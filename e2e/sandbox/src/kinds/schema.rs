//! The wire schema of the built-in kinds: for every structure its fields in declared order, with their types, what an
//! encoder omits, and how a strategic merge patch merges its lists.
//!
//! The facts are in `data/schema-1.36.txt`, one structure after the other:
//!
//! ```text
//! core.EnvVar                               a structure
//!  name - string                            field, flags (`o` omitempty, `z` omitzero, `-` neither), type
//!  valueFrom o *@core.EnvVarSource
//! ```
//!
//! Types: scalars by name (`string/v1.Protocol` is a named string), `*T` optional, `[T` list, `{T` map from strings,
//! `@s` structure. A word `=key` names the merge key of a list; `=` alone is a merged list of primitives.
//! `^Name` is the embedded Go structure that a field comes from.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::MergeList;

/// What a field holds.
#[derive(Debug)]
pub(super) enum Type {
    /// A string; the Go name of its type where it has one of its own.
    String(&'static str),
    /// A boolean.
    Bool,
    /// An integer, with the Go name of its type.
    Int(&'static str),
    /// A floating-point number.
    Float,
    /// Base64.
    Bytes,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, microseconds.
    Micro,
    /// A resource quantity.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// Any JSON.
    Any,
    /// An optional value.
    Optional(Box<Type>),
    /// A list.
    List(Box<Type>),
    /// A map from strings.
    Map(Box<Type>),
    /// A structure, by its place in [`Schema::structs`].
    Struct(usize),
}

/// A field of a structure.
#[derive(Debug)]
pub(super) struct Field {
    /// JSON name.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) kind: Type,
    /// Whether an encoder leaves its zero value out.
    pub(super) omit: bool,
    /// Merge key, if the list is merged; empty for primitives.
    pub(super) merge: Option<&'static str>,
    /// The embedded Go structures it comes from, dotted; empty for a field of its own.
    pub(super) embedded: &'static str,
    /// What an encoder writes when the field is not set; `None` when it then writes nothing.
    pub(super) zero: Option<Value>,
}

/// A structure.
#[derive(Debug)]
pub(super) struct Struct {
    /// Its name: group, dot, Go name.
    pub(super) id: &'static str,
    /// Fields in declared order.
    pub(super) fields: Vec<Field>,
    /// Places of the fields by the hash of their names, a power of two of slots; `NONE` for a free one.
    slots: Vec<u16>,
    /// Fields that are always written.
    pub(super) always: Vec<u16>,
}

impl Struct {
    /// The field of this JSON name.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash(name);
        loop {
            let &at = self.slots.get(slot & mask)?;
            let field = self.fields.get(usize::from(at))?;
            if field.name == name {
                return Some(field);
            }
            slot = slot.wrapping_add(1);
        }
    }

    /// Fills the slots; at least half of them stay free, so that looking for a name ends.
    fn index(&mut self) {
        let count = (2 * self.fields.len()).next_power_of_two();
        self.slots = vec![NONE; count];
        for (i, field) in self.fields.iter().enumerate() {
            let mut slot = hash(field.name);
            while self.slots[slot & (count - 1)] != NONE {
                slot = slot.wrapping_add(1);
            }
            self.slots[slot & (count - 1)] = i as u16;
        }
    }

    /// The Go name without its package.
    pub(super) fn go_name(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(_, name)| name)
    }

    /// The Go name with the package as an error message prints it.
    pub(super) fn go_type(&self) -> String {
        let package = if self.id.starts_with("autoscalingv2.") { "v2" } else { "v1" };
        format!("{package}.{}", self.go_name())
    }

    /// The value of this structure with nothing set, as an encoder writes it.
    pub(super) fn zero(&self) -> Map<String, Value> {
        let mut map = Map::new();
        self.complete(&mut map);
        map
    }

    /// Adds the fields that are always written and not there yet.
    pub(super) fn complete(&self, map: &mut Map<String, Value>) {
        for &i in &self.always {
            let field = &self.fields[usize::from(i)];
            if let Some(zero) = &field.zero
                && !map.contains_key(field.name)
            {
                map.insert(field.name.to_owned(), zero.clone());
            }
        }
    }
}

const NONE: u16 = u16::MAX;

/// Tells the names within a structure apart well enough: its ends and its length.
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let at = |i: usize| usize::from(bytes.get(i).copied().unwrap_or_default());
    let last = bytes.len().wrapping_sub(1);
    (at(0) ^ (at(last) << 3) ^ (at(bytes.len() / 2) << 5)).wrapping_add(bytes.len() << 1)
}

/// All structures.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) structs: Vec<Struct>,
    by_id: BTreeMap<&'static str, usize>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("data/schema-1.36.txt")));

/// The schema of 1.36.
pub(super) fn schema() -> &'static Schema {
    &SCHEMA
}

impl Schema {
    /// The structure of this name.
    pub(super) fn find(&self, id: &str) -> Option<&Struct> {
        self.structs.get(*self.by_id.get(id)?)
    }

    /// How the list at `path` (dotted, without indexes) is merged; `None` when it is replaced.
    pub(super) fn merge_list(&self, id: &str, path: &str) -> Option<MergeList> {
        let mut current = self.find(id)?;
        let mut segments = path.split('.').peekable();
        while let Some(segment) = segments.next() {
            let field = current.field(segment)?;
            if segments.peek().is_none() {
                return field.merge.map(|key| MergeList { key });
            }
            let mut kind = &field.kind;
            current = loop {
                match kind {
                    Type::Optional(inner) | Type::List(inner) => kind = inner,
                    Type::Map(inner) => {
                        kind = inner;
                        segments.next();
                    }
                    Type::Struct(at) => break self.structs.get(*at)?,
                    _ => return None,
                }
            };
        }
        None
    }

    fn parse(text: &'static str) -> Self {
        let mut schema = Self::default();
        for (at, id) in text.lines().filter(|line| !line.starts_with(' ')).enumerate() {
            schema.by_id.insert(id, at);
        }
        for line in text.lines() {
            if let Some(field) = line.strip_prefix(' ') {
                let field = schema.parse_field(field);
                if let (Some(current), Some(field)) = (schema.structs.last_mut(), field) {
                    current.fields.push(field);
                }
            } else {
                schema.structs.push(Struct { id: line, fields: vec![], slots: vec![], always: vec![] });
            }
        }
        for current in &mut schema.structs {
            current.index();
        }
        schema.fill_zeros();
        schema
    }

    fn parse_field(&self, line: &'static str) -> Option<Field> {
        let mut words = line.split(' ');
        let (name, flags, kind) = (words.next()?, words.next()?, words.next()?);
        let (mut merge, mut embedded) = (None, "");
        for word in words {
            merge = word.strip_prefix('=').or(merge);
            embedded = word.strip_prefix('^').unwrap_or(embedded);
        }
        let kind = self.parse_type(kind);
        // An encoder omits an empty structure only when told `omitzero`.
        let structure =
            matches!(kind, Type::Struct(_) | Type::Time | Type::Micro | Type::Quantity | Type::IntOrString | Type::Any);
        let omit = flags.contains('z') || (flags.contains('o') && !structure);
        Some(Field { name, kind, omit, merge, embedded, zero: None })
    }

    fn parse_type(&self, text: &'static str) -> Type {
        if let Some(inner) = text.strip_prefix('*') {
            return Type::Optional(Box::new(self.parse_type(inner)));
        }
        if let Some(inner) = text.strip_prefix('[') {
            return Type::List(Box::new(self.parse_type(inner)));
        }
        if let Some(inner) = text.strip_prefix('{') {
            return Type::Map(Box::new(self.parse_type(inner)));
        }
        if let Some(id) = text.strip_prefix('@') {
            return self.by_id.get(id).map_or(Type::Any, |&at| Type::Struct(at));
        }
        if let Some(name) = text.strip_prefix("string/") {
            return Type::String(name);
        }
        match text {
            "string" => Type::String("string"),
            "bool" => Type::Bool,
            "float64" => Type::Float,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "micro" => Type::Micro,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "any" => Type::Any,
            name => Type::Int(name),
        }
    }

    /// Computes what is written for unset fields; structures contain each other, so innermost first.
    fn fill_zeros(&mut self) {
        for at in 0..self.structs.len() {
            let zeros: Vec<Option<Value>> = self.structs[at]
                .fields
                .iter()
                .map(|field| (!field.omit).then(|| self.zero_of(&field.kind, 0)))
                .collect();
            let current = &mut self.structs[at];
            for (i, (field, zero)) in current.fields.iter_mut().zip(zeros).enumerate() {
                if zero.is_some() {
                    current.always.push(i as u16);
                }
                field.zero = zero;
            }
        }
    }

    fn zero_of(&self, kind: &Type, depth: usize) -> Value {
        match kind {
            Type::String(_) => Value::String(String::new()),
            Type::Bool => Value::Bool(false),
            Type::Int(_) | Type::Float | Type::IntOrString => 0.into(),
            Type::Quantity => "0".into(),
            Type::Bytes | Type::Time | Type::Micro | Type::Any | Type::Optional(_) | Type::List(_) | Type::Map(_) => {
                Value::Null
            }
            Type::Struct(at) if depth < 16 => {
                let fields = self.structs[*at].fields.iter().filter(|field| !field.omit);
                Value::Object(fields.map(|f| (f.name.to_owned(), self.zero_of(&f.kind, depth + 1))).collect())
            }
            Type::Struct(_) => Value::Object(Map::new()),
        }
    }

    /// What an encoder writes for an unset element of this type in a list or map.
    pub(super) fn zero_element(&self, kind: &Type) -> Value {
        self.zero_of(kind, 0)
    }
}

/// The unset value of a structure, as an encoder writes it (`{"replicas":0}` for a `ReplicaSet`'s status).
pub(super) fn zero(id: &str) -> Value {
    Value::Object(schema().find(id).map(Struct::zero).unwrap_or_default())
}

/// Whether JSON omits the zero value of a field; `None` if the structure or the field is not known.
#[cfg(test)]
pub(crate) fn omits_zero(id: &str, field: &str) -> Option<bool> {
    schema().find(id)?.field(field).map(|field| field.omit)
}

/// See [`Schema::merge_list`].
pub(super) fn merge_list(id: &str, path: &str) -> Option<MergeList> {
    schema().merge_list(id, path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn has_structures_with_fields() {
        assert!(schema().find("apps.Deployment").is_some() && schema().find("apps.Nothing").is_none());
        for current in &schema().structs {
            let empty = ["apiextensions.CustomResourceSubresourceStatus", "scheduling.BasicSchedulingPolicy"];
            let empty = empty.contains(&current.id);
            assert_eq!(current.fields.is_empty(), empty, "{}", current.id);
        }
    }

    #[test]
    fn knows_what_is_written_for_nothing() {
        assert_eq!(zero("apps.ReplicaSetStatus"), json!({"replicas": 0}));
        assert_eq!(zero("core.ServiceStatus"), json!({"loadBalancer": {}}));
        assert_eq!(zero("apps.StatefulSetStatus"), json!({"replicas": 0, "availableReplicas": 0}));
    }

    #[test]
    fn knows_how_lists_are_merged() {
        let key = |path| merge_list("apps.Deployment", path).map(|list| list.key);
        assert_eq!(key("spec.template.spec.containers"), Some("name"));
        assert_eq!(key("spec.template.spec.containers.ports"), Some("containerPort"));
        assert_eq!(key("spec.template.spec.containers.env"), Some("name"));
        assert_eq!(key("spec.template.spec.containers.volumeMounts"), Some("mountPath"));
        assert_eq!(key("spec.template.spec.tolerations"), None);
        assert_eq!(key("spec.template.spec.topologySpreadConstraints"), Some("topologyKey"));
        assert_eq!(key("metadata.finalizers"), Some(""));
        assert_eq!(key("metadata.ownerReferences"), Some("uid"));
        assert_eq!(key("status.conditions"), Some("type"));
        assert_eq!(key("spec.selector.matchExpressions"), None);
        assert_eq!(key("no.such.path"), None);
        assert_eq!(merge_list("core.Service", "spec.ports").map(|list| list.key), Some("port"));
    }
}
