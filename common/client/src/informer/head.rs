//! What is read of an object before anything else: whether it can concern this controller at all.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

use crate::{
    json::Str,
    meta::Version,
    object::{self, Object},
};

/// Which object, and in which version. Borrowed from the line that it was read from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head<'a> {
    #[serde(borrow, default)]
    namespace: Option<Str<'a>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    resource_version: Version,
    #[serde(borrow, default, rename = "ownerReferences")]
    controller: Controller<'a>,
}

impl<'a> Head<'a> {
    /// The head of an object that cannot concern whoever reads `K`. Of one that can, or that looks unusual, nothing.
    pub fn of_foreign<K: Object>(json: &'a str) -> Option<Self> {
        let concerns = K::CONCERNS?;
        let metadata = object::metadata(json)?;
        let head = Self::deserialize(&mut serde_json::Deserializer::from_str(metadata)).ok()?;
        let is_foreign = !head.name.is_empty() && !concerns(head.controller.0.as_deref());
        is_foreign.then_some(head)
    }

    /// Its namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of this state of it.
    pub fn version(&self) -> Version {
        self.resource_version
    }
}

/// The kind of the managing controller: of the first owner with `controller: true`.
#[derive(Debug, Default)]
struct Controller<'a>(Option<Str<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Controller<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Owner<'a> {
            #[serde(borrow, default)]
            kind: Option<Str<'a>>,
            #[serde(default)]
            controller: Option<bool>,
        }
        struct Owners;
        impl<'de> Visitor<'de> for Owners {
            type Value = Controller<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("owner references")
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Ok(Controller(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut found = None;
                while let Some(owner) = seq.next_element::<Owner<'de>>()? {
                    if owner.controller == Some(true) && found.is_none() {
                        found = Some(owner.kind.unwrap_or_default());
                    }
                }
                Ok(Controller(found))
            }
        }
        deserializer.deserialize_any(Owners)
    }
}
