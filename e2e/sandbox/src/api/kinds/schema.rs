//! The wire schema of the built-in kinds: for every structure its fields in declared order, with their types, what an
//! encoder omits, and how a strategic merge patch merges its lists.
//!
//! The facts are in `data/schema-1.36.txt`, one structure after the other:
//!
//! ```text
//! core/v1.EnvVar                     a structure
//!  1 name - string                   number in protobuf, name, flags, type
//!  3 valueFrom o *@EnvVarSource
//! ```
//!
//! The number is 0 for what protobuf does not have. A field `+` stands for the fields of an embedded structure, which is a
//! message of its own in protobuf only. Flags: `o` omitempty, `z` omitzero, `p` in protobuf present if set, `-` none.
//!
//! Types: scalars by name (`string/v1.Protocol` is a named string), `*T` optional, `[T` list, `{T` map from strings,
//! `@s` structure (of the same group if no group is named), `any/m` JSON that is the message `m` in protobuf. Words behind
//! the type:
//!
//! | word | meaning |
//! | --- | --- |
//! | `=key` | a strategic merge patch merges the list by this key; `=` alone is a merged list of primitives |
//! | `!json` | default value, set if the field is not set |
//! | `?field=word` | the default applies only if another field of the structure has this value |
//! | `+` | required |
//! | `\|A,B` | the known values of a string |
//! | `1..9`, `>=0`, `>0` | the range of a number; 0 is not set if the number is not optional |
//! | `:label` | the syntax of a string, by its name in [`super::rules`] |
//! | `~` | immutable |

use std::{collections::BTreeMap, sync::LazyLock};

use hashbrown::HashMap;
use serde_json::{Map, Value};

use super::{MergeList, rules::Rules};

#[derive(Debug)]
pub(crate) enum Type {
    /// A string; the Go name of its type where it has one of its own.
    String(&'static str),
    Bool,
    /// An integer, with the Go name of its type.
    Int(&'static str),
    Float,
    Bytes,
    Time,
    Micro,
    Quantity,
    IntOrString,
    /// Any JSON, with the name of its message.
    Any(&'static str),
    Optional(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
    Struct(usize),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) omit: bool,
    /// Merge key, if the list is merged; empty for primitives.
    pub(super) merge: Option<&'static str>,
    /// The embedded Go structures it comes from, dotted; empty for a field of its own.
    pub(super) embedded: String,
    /// What an encoder writes when the field is not set; `None` when it then writes nothing.
    pub(super) zero: Option<Value>,
    pub(super) rules: Rules,
}

#[derive(Debug)]
pub(crate) struct WireField {
    pub(crate) number: u64,
    /// JSON name; `+` if the fields of the message are the parent's in JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    /// Whether it is written if it is set, even if the type is not optional.
    pub(crate) present: bool,
}

#[derive(Debug, Default)]
pub(super) struct Struct {
    pub(super) id: &'static str,
    /// Fields in declared order, those of embedded structures included.
    pub(super) fields: Vec<Field>,
    pub(super) wire: Vec<WireField>,
    places: HashMap<&'static str, u16, foldhash::fast::FixedState>,
    pub(super) always: Vec<u16>,
    /// Whether a field, or one of a structure within, is checked.
    pub(super) checked: bool,
    /// Whether a field, or one of a structure within, has a default.
    pub(super) defaulted: bool,
}

impl Struct {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(usize::from(*self.places.get(name)?))
    }

    pub(super) fn go_name(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(_, name)| name)
    }

    pub(super) fn go_type(&self) -> String {
        self.id.split_once('/').map_or(self.id, |(_, name)| name).to_owned()
    }

    pub(super) fn zero(&self) -> Map<String, Value> {
        let mut map = Map::new();
        self.complete(&mut map);
        map
    }

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

/// The name of a structure that a structure names: one of the same group has no group.
fn local(id: &str, name: &str) -> String {
    let group = id.rsplit_once('.').map_or("", |(group, _)| group);
    if name.contains('/') { name.to_owned() } else { format!("{group}.{name}") }
}

#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) structs: Vec<Struct>,
    by_id: BTreeMap<&'static str, usize>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("data/schema-1.36.txt")));

pub(super) fn schema() -> &'static Schema {
    &SCHEMA
}

impl Schema {
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
        let mut sections: BTreeMap<&str, Vec<[&str; 2]>> = BTreeMap::new();
        let mut current = "";
        for line in text.lines() {
            match line.strip_prefix(' ').and_then(|field| field.split_once(' ')) {
                Some((number, field)) => sections.entry(current).or_default().push([number, field]),
                None => current = line,
            }
        }
        for id in text.lines().filter(|line| !line.starts_with(' ')) {
            let mut structure = Struct { id, ..Struct::default() };
            schema.add_fields(&mut structure.fields, &sections, id, "");
            let own = sections.get(id).into_iter().flatten();
            structure.wire = own.filter_map(|[number, field]| schema.parse_wire(id, number, field)).collect();
            schema.structs.push(structure);
        }
        for current in &mut schema.structs {
            current.places = current.fields.iter().zip(0..).map(|(field, at)| (field.name, at)).collect();
        }
        schema.fill_zeros();
        schema.mark();
        schema
    }

    /// Marks the structures with rules, and those that contain one: as often as there is news, as structures contain themselves.
    fn mark(&mut self) {
        loop {
            let marks: Vec<(bool, bool)> =
                self.structs.iter().map(|current| (current.checked, current.defaulted)).collect();
            let found: Vec<(bool, bool)> = self.structs.iter().map(|current| self.marks(current)).collect();
            if found == marks {
                return;
            }
            for (current, (checked, defaulted)) in self.structs.iter_mut().zip(found) {
                current.checked = checked;
                current.defaulted = defaulted;
            }
        }
    }

    fn marks(&self, current: &Struct) -> (bool, bool) {
        let own = super::rules::of_structure(current.id).is_some();
        current.fields.iter().fold((own, false), |(checked, defaulted), field| {
            let inner = self.structure_of(&field.kind);
            (
                checked || field.rules.checks() || inner.is_some_and(|inner| inner.checked),
                defaulted || field.rules.default.is_some() || inner.is_some_and(|inner| inner.defaulted),
            )
        })
    }

    pub(super) fn structure_of(&self, kind: &Type) -> Option<&Struct> {
        match kind {
            Type::Optional(inner) | Type::List(inner) | Type::Map(inner) => self.structure_of(inner),
            Type::Struct(at) => self.structs.get(*at),
            _ => None,
        }
    }

    fn add_fields(
        &self,
        fields: &mut Vec<Field>,
        sections: &BTreeMap<&'static str, Vec<[&'static str; 2]>>,
        id: &'static str,
        embedded: &str,
    ) {
        for [_, line] in sections.get(id).into_iter().flatten() {
            let Some(rest) = line.strip_prefix("+ - @") else {
                fields.extend(self.parse_field(id, line, embedded));
                continue;
            };
            let inner = self.by_id.get_key_value(local(id, rest).as_str()).map_or("", |(inner, _)| *inner);
            let name = rest.rsplit('.').next().unwrap_or(rest);
            let embedded = if embedded.is_empty() { name.to_owned() } else { format!("{embedded}.{name}") };
            self.add_fields(fields, sections, inner, &embedded);
        }
    }

    fn parse_field(&self, id: &str, line: &'static str, embedded: &str) -> Option<Field> {
        let mut words = line.split(' ');
        let (name, flags, kind) = (words.next()?, words.next()?, words.next()?);
        let merge = words.clone().find_map(|word| word.strip_prefix('='));
        let rules = Rules::parse(words.filter(|word| !word.starts_with('=')));
        let kind = self.parse_type(id, kind);
        // An encoder omits an empty structure only when told `omitzero`.
        let structure = matches!(
            kind,
            Type::Struct(_) | Type::Time | Type::Micro | Type::Quantity | Type::IntOrString | Type::Any(_)
        );
        let omit = flags.contains('z') || (flags.contains('o') && !structure);
        Some(Field { name, kind, omit, merge, embedded: embedded.to_owned(), zero: None, rules })
    }

    fn parse_wire(&self, id: &str, number: &str, line: &'static str) -> Option<WireField> {
        let mut words = line.split(' ');
        let (name, flags, kind) = (words.next()?, words.next()?, words.next()?);
        let number = number.parse().ok().filter(|number| *number > 0)?;
        Some(WireField { number, name, kind: self.parse_type(id, kind), present: flags.contains('p') })
    }

    fn parse_type(&self, id: &str, text: &'static str) -> Type {
        let inner = |text| Box::new(self.parse_type(id, text));
        match text.split_at(1) {
            ("*", text) => Type::Optional(inner(text)),
            ("[", text) => Type::List(inner(text)),
            ("{", text) => Type::Map(inner(text)),
            ("@", text) => self.by_id.get(local(id, text).as_str()).map_or(Type::Any(""), |&at| Type::Struct(at)),
            _ => match text.split_once('/').unwrap_or((text, "")) {
                ("string", "") => Type::String("string"),
                ("string", name) => Type::String(name),
                ("any", message) => Type::Any(message),
                ("bool", _) => Type::Bool,
                ("float64", _) => Type::Float,
                ("bytes", _) => Type::Bytes,
                ("time", _) => Type::Time,
                ("micro", _) => Type::Micro,
                ("quantity", _) => Type::Quantity,
                ("intorstring", _) => Type::IntOrString,
                (name, _) => Type::Int(name),
            },
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
            Type::Bytes
            | Type::Time
            | Type::Micro
            | Type::Any(_)
            | Type::Optional(_)
            | Type::List(_)
            | Type::Map(_) => Value::Null,
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

pub(super) fn merge_list(id: &str, path: &str) -> Option<MergeList> {
    schema().merge_list(id, path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn has_structures_with_fields() {
        assert!(schema().find("apps/v1.Deployment").is_some() && schema().find("apps/v1.Nothing").is_none());
        for current in &schema().structs {
            let empty =
                ["apiextensions/v1.CustomResourceSubresourceStatus", "scheduling/v1alpha2.BasicSchedulingPolicy"];
            let empty = empty.contains(&current.id);
            assert_eq!(current.fields.is_empty(), empty, "{}", current.id);
        }
    }

    #[test]
    fn knows_what_is_written_for_nothing() {
        assert_eq!(zero("apps/v1.ReplicaSetStatus"), json!({"replicas": 0}));
        assert_eq!(zero("core/v1.ServiceStatus"), json!({"loadBalancer": {}}));
        assert_eq!(zero("apps/v1.StatefulSetStatus"), json!({"replicas": 0, "availableReplicas": 0}));
    }

    #[test]
    fn knows_how_lists_are_merged() {
        let key = |path| merge_list("apps/v1.Deployment", path).map(|list| list.key);
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
        assert_eq!(merge_list("core/v1.Service", "spec.ports").map(|list| list.key), Some("port"));
    }
}
