//! The messages of the API, as `data/protobuf-1.36.txt` describes them.

use std::{collections::BTreeMap, sync::LazyLock};

/// How often a field occurs.
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
    /// A message, as its index in the schema.
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
    /// A list of strings with a type of its own.
    Strings,
    /// A schema, or whether anything is allowed.
    SchemaOrBool,
    /// A schema, or a list of schemas.
    SchemaOrSchemas,
    /// A schema, or a list of names.
    SchemaOrNames,
}

impl Special {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "resource.Quantity" => Self::Quantity,
            "intstr.IntOrString" => Self::IntOrString,
            "meta/v1.Time" => Self::Time,
            "meta/v1.MicroTime" => Self::MicroTime,
            "runtime.RawExtension" | "meta/v1.FieldsV1" | "apiextensions/v1.JSON" => Self::Json,
            "apiextensions/v1.JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            "apiextensions/v1.JSONSchemaPropsOrArray" => Self::SchemaOrSchemas,
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => Self::SchemaOrNames,
            name if name.ends_with(".ExtraValue") => Self::Strings,
            _ => return None,
        })
    }
}

/// The fields of a message, in the order of their numbers.
#[derive(Debug)]
pub(super) enum Message {
    Fields(Vec<Field>),
    Special(Special),
}

/// All messages.
#[derive(Debug)]
pub(super) struct Schema {
    messages: Vec<Message>,
    names: BTreeMap<String, usize>,
}

pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TEXT));

const TEXT: &str = include_str!("../data/protobuf-1.36.txt");

impl Schema {
    fn parse(text: &'static str) -> Self {
        let mut schema = Self { messages: Vec::new(), names: BTreeMap::new() };
        for name in text.lines().filter(|line| !line.starts_with(' ')) {
            schema.add(name);
        }
        let mut current = "";
        for line in text.lines() {
            let Some(field) = line.strip_prefix(' ') else {
                current = line;
                continue;
            };
            let Some(field) = schema.parse_field(current, field) else { continue };
            if let Some(id) = schema.find(current)
                && let Some(Message::Fields(fields)) = schema.messages.get_mut(id)
            {
                let at = fields.partition_point(|other| other.number < field.number);
                fields.insert(at, field);
            }
        }
        schema
    }

    fn add(&mut self, name: &str) -> usize {
        let message = Special::of(name).map_or_else(|| Message::Fields(Vec::new()), Message::Special);
        self.names.insert(name.to_owned(), self.messages.len());
        self.messages.push(message);
        self.messages.len() - 1
    }

    fn parse_field(&mut self, message: &str, line: &'static str) -> Option<Field> {
        let mut words = line.split(' ');
        let (number, name, kind) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let (many, kind) = match kind.as_bytes().first()? {
            b'*' => (Many::List, &kind[1..]),
            b'%' => (Many::Map, &kind[1..]),
            b'?' => (Many::Optional, &kind[1..]),
            _ => (Many::One, kind),
        };
        let kind = match kind {
            "s" => Type::String,
            "b" => Type::Bool,
            "i" => Type::Int,
            "d" => Type::Double,
            "y" => Type::Bytes,
            other => {
                let full = match other.strip_prefix('@') {
                    Some(local) => format!("{}.{local}", message.rsplit_once('.')?.0),
                    None => other.to_owned(),
                };
                // Messages that are not an object in JSON are not described; they are known by their names.
                let special = Special::of(&full).is_some();
                Type::Message(self.find(&full).or_else(|| special.then(|| self.add(&full)))?)
            }
        };
        Some(Field { number, name, many, kind })
    }

    /// The index of a message.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The message of an index that [`Schema::find`] or a field gave.
    pub(super) fn message(&self, id: usize) -> &Message {
        &self.messages[id]
    }

    /// The index of the message of a kind.
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
    fn every_line_is_a_message_or_a_field_of_a_known_type() {
        let lines = TEXT.lines().filter(|line| line.starts_with(' ')).count();
        let fields = SCHEMA.messages.iter().map(|message| match message {
            Message::Fields(fields) => fields.len(),
            Message::Special(_) => 0,
        });
        assert_eq!(fields.sum::<usize>(), lines - TEXT.matches("ExtraValue\n 1 ").count());
    }

    #[test]
    fn every_built_in_kind_has_a_message() {
        for kind in crate::kinds::builtin() {
            let version =
                if kind.group.is_empty() { kind.version.into() } else { format!("{}/{}", kind.group, kind.version) };
            assert!(SCHEMA.of_kind(&version, kind.kind).is_ok(), "{version} {}", kind.kind);
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
        let structure = read.name.replacen("/v1.", ".", 1);
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
                assert_eq!(field.many == Many::Optional, own.zero_meaning == ZeroMeaning::PresentIfSet, "{at}");
                if let Some(omits) = crate::kinds::omits_zero(&structure, own.name) {
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
