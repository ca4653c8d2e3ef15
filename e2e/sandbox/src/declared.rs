//! Whether a projection names what the API declares.
//!
//! A projection reads a field by its name in JSON, and what it does not find it takes for absent: a name with a typo would
//! never be noticed. The types of `k8s-openapi` say which fields there are. From one of them an object is made that has every
//! field once ([`sample`]); a projection is read from it, and each name that it asks for and the object lacks is reported, as
//! is a field of another type.

use std::{cell::RefCell, fmt, rc::Rc};

use common::object::Object;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value, json};

/// The key of the one entry of a map whose keys are anybody's.
const ANY: &str = "any-key";
/// What stands where a time is meant.
const TIME: &str = "2026-01-02T03:04:05Z";
/// What stands where any other text is meant. It reads as a number and as base64, too: versions, quantities and bytes are texts.
const TEXT: &str = "1000";

/// What is wrong with a projection of that type: resource, names and types. Empty if nothing is.
pub fn undeclared<P: Object, T: Resource + DeserializeOwned>() -> Vec<String>
where
    T::Scope: Scope,
{
    let mut found = unknown_fields::<P, T>();
    let (resource, group, version) = (P::RESOURCE, T::GROUP, T::VERSION);
    let declared = (group, version, T::URL_PATH_SEGMENT, T::KIND, T::Scope::NAMESPACED);
    let named = (resource.group(), resource.version(), resource.plural(), resource.kind(), resource.is_namespaced());
    if named != declared {
        found.push(format!("it is of {named:?}, and the API declares {declared:?}"));
    }
    found
}

/// The same of any type that is read from objects of that type, without its resource.
pub fn unknown_fields<P: DeserializeOwned, T: DeserializeOwned>() -> Vec<String> {
    let sample = match sample::<T>() {
        Ok(sample) => sample,
        Err(error) => return vec![format!("there is no sample of {}: {error}", std::any::type_name::<T>())],
    };
    let found = Rc::default();
    let reader = Reader { value: &sample, path: String::new(), found: Rc::clone(&found) };
    if let Err(error) = P::deserialize(reader) {
        found.borrow_mut().push(error.to_string());
    }
    found.take()
}

/// Where objects live.
pub trait Scope {
    /// Whether in namespaces.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// An object with every field that the type declares; lists and maps have one entry. Fails if the type is not read from JSON
/// as those of `k8s-openapi` are.
pub fn sample<T: DeserializeOwned>() -> Result<Value, Error> {
    let mut value = Value::Null;
    T::deserialize(Sampler { value: &mut value, text: TEXT })?;
    Ok(value)
}

/// Why there is no sample.
type Error = serde::de::value::Error;

/// Gives whatever it is asked for, and notes in `value` what that was.
struct Sampler<'a> {
    value: &'a mut Value,
    text: &'static str,
}

impl Sampler<'_> {
    fn number<T>(self, visit: impl FnOnce(u8) -> Result<T, Error>) -> Result<T, Error> {
        *self.value = json!(1);
        visit(1)
    }
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.number(|one| visitor.$visit(one.into()))
        })*
    };
}

impl<'de> Deserializer<'de> for Sampler<'_> {
    type Error = Error;

    numbers! {
        deserialize_i8 visit_i64 deserialize_i16 visit_i64 deserialize_i32 visit_i64 deserialize_i64 visit_i64
        deserialize_u8 visit_u64 deserialize_u16 visit_u64 deserialize_u32 visit_u64 deserialize_u64 visit_u64
        deserialize_f32 visit_f64 deserialize_f64 visit_f64
    }

    /// A number or a text is meant, or anything.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.text == TEXT { self.deserialize_i64(visitor) } else { self.deserialize_str(visitor) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.value = json!(true);
        visitor.visit_bool(true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.value = json!(self.text);
        visitor.visit_str(self.text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        let text = match name {
            "Time" | "MicroTime" => TIME,
            "Quantity" => "1k",
            _ => TEXT,
        };
        visitor.visit_newtype_struct(Sampler { text, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.value = json!([null]);
        visitor.visit_seq(Element(self.value[0].as_null().map(|()| &mut self.value[0])))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", &[ANY], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut object = Map::new();
        // Types that are kinds check these two; who reads them gets some text.
        let (heads, fields): (Vec<&str>, Vec<&str>) =
            fields.iter().partition(|field| matches!(**field, "apiVersion" | "kind"));
        object.extend(heads.into_iter().map(|head| (head.to_owned(), json!(TEXT))));
        let read = visitor.visit_map(Fields { object: &mut object, left: fields });
        *self.value = Value::Object(object);
        read
    }

    forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// The only element of a list.
struct Element<'a>(Option<&'a mut Value>);

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.take().map(|value| seed.deserialize(Sampler { value, text: TEXT })).transpose()
    }
}

/// The fields of an object that are still to be given, the next one last.
struct Fields<'a> {
    object: &'a mut Map<String, Value>,
    left: Vec<&'static str>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.left.last().map(|field| seed.deserialize(StrDeserializer::new(field))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let field = self.left.pop().unwrap_or_default();
        let value = self.object.entry(field).or_insert(Value::Null);
        seed.deserialize(Sampler { value, text: TEXT })
    }
}

/// Reads from a sample, and notes names that it does not have.
struct Reader<'a> {
    value: &'a Value,
    path: String,
    found: Rc<RefCell<Vec<String>>>,
}

impl<'a> Reader<'a> {
    fn below(&self, name: &str, value: &'a Value) -> Self {
        Self { value, path: format!("{}.{name}", self.path), found: Rc::clone(&self.found) }
    }

    fn refuse(&self, error: impl fmt::Display) -> serde_json::Error {
        serde::de::Error::custom(format!("{} cannot be read from {}: {error}", self.path, self.value))
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.value.deserialize_any(visitor).map_err(|error| self.refuse(error))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        // JSON that is passed on unread, and may be borrowed for as long as there is this text.
        if name.starts_with('$') {
            let text: &'static str = self.value.to_string().leak();
            return serde_json::Deserializer::from_str(text).deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let Value::Array(values) = self.value else { return Err(self.refuse("a list was expected")) };
        visitor.visit_seq(Elements(values.iter().map(|value| self.below("0", value)).collect()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let Value::Object(entries) = self.value else { return Err(self.refuse("an object was expected")) };
        let left = entries.iter().map(|(key, value)| (key.as_str(), self.below(key, value))).collect();
        visitor.visit_map(Entries { left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let Value::Object(declared) = self.value else { return Err(self.refuse("an object was expected")) };
        if !declared.contains_key(ANY) {
            let unknown = fields.iter().filter(|field| !declared.contains_key(**field));
            self.found.borrow_mut().extend(unknown.map(|field| format!("{}.{field} is not declared", self.path)));
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.value.deserialize_enum(name, variants, visitor).map_err(|error| self.refuse(error))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct identifier ignored_any
    }
}

/// The elements of a list that are still to be read.
struct Elements<'a>(Vec<Reader<'a>>);

impl<'a> SeqAccess<'a> for Elements<'a> {
    type Error = serde_json::Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Self::Error> {
        self.0.pop().map(|reader| seed.deserialize(reader)).transpose()
    }
}

/// The entries of an object that are still to be read, the next one last.
struct Entries<'a> {
    left: Vec<(&'a str, Reader<'a>)>,
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = serde_json::Error;

    fn next_key_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Self::Error> {
        self.left.last().map(|(key, _)| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Self::Error> {
        let (_, reader) = self.left.pop().ok_or_else(|| serde::de::Error::custom("a value comes after its key"))?;
        seed.deserialize(reader)
    }
}

#[cfg(test)]
mod tests {
    use common::{pods::Pod, revision::ControllerRevision};
    use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Typo {
        spec: Spec,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_named: String,
        tolerations: Vec<Toleration>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Toleration {
        toleration_second: i64,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OtherType {
        metadata: Finalizers,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Finalizers {
        finalizers: String,
    }

    #[test]
    fn a_name_with_a_typo_and_a_field_of_another_type_are_found() {
        let found = unknown_fields::<Typo, core::Pod>();
        assert_eq!(found, [".spec.nodeNamed is not declared", ".spec.tolerations.0.tolerationSecond is not declared"]);
        let found = unknown_fields::<OtherType, core::Pod>();
        assert!(found[0].contains(".metadata.finalizers cannot be read"), "{found:?}");
    }

    #[test]
    fn a_resource_that_is_not_the_declared_one_is_found() {
        let found = undeclared::<Pod, core::Node>();
        assert!(found.last().is_some_and(|last| last.starts_with("it is of")), "{found:?}");
    }

    #[test]
    fn the_projections_of_all_controllers_name_what_is_declared() {
        assert_eq!(undeclared::<Pod, core::Pod>(), [""; 0]);
        assert_eq!(undeclared::<ControllerRevision, apps::ControllerRevision>(), [""; 0]);
    }
}
