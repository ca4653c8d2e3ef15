//! The messages of the API: the structures of the schema by their numbers, and those that are not an object in JSON.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::api::kinds::wire::{self, WireField};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    /// Once, even if it has its zero value.
    One,
    /// Once if it is set: a pointer in Go.
    Optional,
    /// Once for each item.
    List,
    /// Once for each key.
    Map,
}

/// The type of a field, or of each of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Message(usize),
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// The name in JSON; [`INLINE`] if the fields of the message are the parent's in JSON.
    pub(super) name: &'static str,
    pub(super) many: Many,
    pub(super) kind: Type,
}

/// The name of a field whose message has no JSON object of its own.
pub(super) const INLINE: &str = "+";

/// Messages that are not an object in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// A message with the bytes of a JSON value.
    Json,
    Strings,
    SchemaOrBool,
    SchemaOrSchemas,
    SchemaOrNames,
}

/// Messages that are not an object in JSON, by name.
const SPECIAL: [(&str, Special); 13] = [
    ("resource.Quantity", Special::Quantity),
    ("intstr.IntOrString", Special::IntOrString),
    ("meta/v1.Time", Special::Time),
    ("meta/v1.MicroTime", Special::MicroTime),
    ("runtime.RawExtension", Special::Json),
    ("meta/v1.FieldsV1", Special::Json),
    ("apiextensions/v1.JSON", Special::Json),
    ("apiextensions/v1.JSONSchemaPropsOrBool", Special::SchemaOrBool),
    ("apiextensions/v1.JSONSchemaPropsOrArray", Special::SchemaOrSchemas),
    ("apiextensions/v1.JSONSchemaPropsOrStringArray", Special::SchemaOrNames),
    ("authentication/v1.ExtraValue", Special::Strings),
    ("authorization/v1.ExtraValue", Special::Strings),
    ("certificates/v1.ExtraValue", Special::Strings),
];

/// The fields of a message, in the order of their numbers.
#[derive(Debug)]
pub(super) enum Message {
    Fields(Vec<Field>),
    Special(Special),
}

#[derive(Debug)]
pub(super) struct Schema {
    messages: Vec<Message>,
    names: BTreeMap<String, usize>,
}

pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::load);

impl Schema {
    fn load() -> Self {
        let structures = wire::messages();
        let all = structures.iter().map(|(name, _)| *name).chain(SPECIAL.iter().map(|(name, _)| *name));
        let names = all.enumerate().map(|(id, name)| (name.to_owned(), id)).collect();
        let mut schema = Self { messages: Vec::new(), names };
        for (_, fields) in structures {
            let mut fields: Vec<Field> = fields.iter().filter_map(|field| schema.field(field)).collect();
            fields.sort_by_key(|field| field.number);
            schema.messages.push(Message::Fields(fields));
        }
        schema.messages.extend(SPECIAL.iter().map(|(_, special)| Message::Special(*special)));
        schema
    }

    fn field(&self, field: &WireField) -> Option<Field> {
        let (many, kind) = match &field.kind {
            wire::Type::Optional(inner) => (Many::Optional, &**inner),
            wire::Type::List(inner) => (Many::List, &**inner),
            wire::Type::Map(inner) => (Many::Map, &**inner),
            kind => (if field.present { Many::Optional } else { Many::One }, kind),
        };
        let kind = match kind {
            wire::Type::String(_) => Type::String,
            wire::Type::Bool => Type::Bool,
            wire::Type::Int(_) => Type::Int,
            wire::Type::Float => Type::Double,
            wire::Type::Bytes => Type::Bytes,
            wire::Type::Struct(id) => Type::Message(*id),
            wire::Type::Time => Type::Message(self.find("meta/v1.Time")?),
            wire::Type::Micro => Type::Message(self.find("meta/v1.MicroTime")?),
            wire::Type::Quantity => Type::Message(self.find("resource.Quantity")?),
            wire::Type::IntOrString => Type::Message(self.find("intstr.IntOrString")?),
            wire::Type::Any(message) => Type::Message(self.find(message)?),
            // Lists of strings in a map have a type of their own, the same in three groups.
            wire::Type::List(_) => Type::Message(self.find("authentication/v1.ExtraValue")?),
            wire::Type::Optional(_) | wire::Type::Map(_) => return None,
        };
        Some(Field { number: field.number, name: field.name, many, kind })
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    pub(super) fn message(&self, id: usize) -> &Message {
        &self.messages[id]
    }

    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Result<usize, String> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        let own = format!("{group}/{version}.{kind}");
        // Options and a few other kinds are the same in every group.
        let found = self.find(&own).or_else(|| self.find(&format!("meta/v1.{kind}")));
        found.ok_or_else(|| format!("proto: unknown message {own}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_known_type() {
        for (name, fields) in wire::messages() {
            let Message::Fields(found) = SCHEMA.message(SCHEMA.find(name).unwrap()) else { panic!("{name}") };
            assert_eq!(found.len(), fields.len(), "{name}");
        }
    }

    #[test]
    fn every_built_in_kind_has_a_message() {
        for kind in crate::api::kinds::builtin() {
            let (version, kind) = (kind.resource.api_version(), &kind.resource.kind);
            assert!(SCHEMA.of_kind(&version, kind).is_ok(), "{version} {kind}");
        }
    }

    #[test]
    fn fields_stand_in_the_order_of_their_numbers() {
        for message in &SCHEMA.messages {
            let Message::Fields(fields) = message else { continue };
            assert!(fields.is_sorted_by_key(|field| field.number), "{fields:?}");
        }
    }

    /// Compares a message that controllers read with the schema, and the messages in it.
    fn compare(read: &common::wire::MessageSchema) -> usize {
        use common::wire::{Cardinality, ValueType, ZeroMeaning};
        let id = SCHEMA.find(read.name).unwrap_or_else(|| panic!("{}", read.name));
        let Message::Fields(fields) = &SCHEMA.messages[id] else { panic!("{}", read.name) };
        assert_eq!(fields.len(), read.fields.len(), "{}", read.name);
        let mut compared = 1;
        for (field, own) in fields.iter().zip(read.fields) {
            let at = format!("{}.{}", read.name, own.name);
            let is_inlined = own.name.is_empty() && field.name == INLINE;
            assert!(is_inlined || field.name == own.name, "{at}");
            assert_eq!(field.number, u64::from(own.number), "{at}");
            let special = match field.kind {
                Type::Message(id) => match SCHEMA.messages[id] {
                    Message::Special(special) => Some(special),
                    Message::Fields(_) => None,
                },
                _ => None,
            };
            match (field.kind, own.value_type) {
                (Type::String, ValueType::Text) | (Type::Bool, ValueType::Bool) | (Type::Int, ValueType::Int) => {}
                (Type::Message(_), ValueType::Opaque) => continue,
                (Type::Message(id), ValueType::Object(inner)) => {
                    assert_eq!(SCHEMA.find(inner.name), Some(id), "{at}");
                    compared += compare(inner);
                }
                (Type::Message(_), shape) => {
                    let expected = match shape {
                        ValueType::Time => Special::Time,
                        ValueType::MicroTime => Special::MicroTime,
                        ValueType::Quantity => Special::Quantity,
                        ValueType::IntOrString => Special::IntOrString,
                        _ => Special::Json,
                    };
                    assert_eq!(special, Some(expected), "{at}");
                }
                _ => panic!("{at}: {:?} is no {:?}", field.kind, own.value_type),
            }
            let count = match field.many {
                Many::One | Many::Optional => Cardinality::One,
                Many::List => Cardinality::Many,
                Many::Map => Cardinality::Keyed,
            };
            assert_eq!(count, own.cardinality, "{at}");
            if matches!(own.value_type, ValueType::Text | ValueType::Bool | ValueType::Int)
                && own.cardinality == Cardinality::One
            {
                let is_optional = matches!(own.zero_meaning, ZeroMeaning::PresentIfSet | ZeroMeaning::NullInJson);
                assert_eq!(field.many == Many::Optional, is_optional, "{at}");
                if let Some(omits) = crate::api::kinds::omits_zero(read.name, own.name) {
                    assert_eq!(
                        omits && field.many == Many::One,
                        own.zero_meaning == ZeroMeaning::OmittedInJson,
                        "{at}"
                    );
                }
            }
        }
        compared
    }

    #[test]
    fn the_messages_that_controllers_read_are_the_servers() {
        use common::wire::messages::{
            CONTROLLER_REVISION, ENDPOINT_SLICE, ENDPOINTS, JOB, LEASE, LIST_META, NODE, PERSISTENT_VOLUME_CLAIM, POD,
            SERVICE, STATUS,
        };
        let kinds = [&POD, &NODE, &LEASE, &SERVICE, &ENDPOINTS, &ENDPOINT_SLICE, &CONTROLLER_REVISION, &JOB];
        let compared: usize =
            kinds.into_iter().chain([&PERSISTENT_VOLUME_CLAIM, &LIST_META, &STATUS]).map(compare).sum();
        assert!(compared > 60, "{compared}");
    }
}
