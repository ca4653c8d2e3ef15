//! What is read of an object before anything else: whether it can concern this controller at all.

use std::{borrow::Cow, fmt, marker::PhantomData};

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
    #[serde(borrow, default, rename = "ownerReferences", deserialize_with = "controller")]
    controller: Option<Str<'a>>,
}

impl<'a> Head<'a> {
    /// The head of an object that cannot concern whoever reads `K`. Of one that can, or that looks unusual, nothing.
    pub fn of_foreign<K: Object>(json: &'a str) -> Option<Self> {
        let concerns = K::CONCERNS?;
        let metadata = object::metadata(json)?;
        let head = Self::deserialize(&mut serde_json::Deserializer::from_str(metadata)).ok()?;
        let is_foreign = !head.name.is_empty() && !concerns(head.controller.as_deref());
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
fn controller<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Str<'a>>, D::Error> {
    #[derive(Deserialize)]
    struct Owner<'a> {
        #[serde(borrow, default)]
        kind: Option<Str<'a>>,
        #[serde(default)]
        controller: Option<bool>,
    }
    let mut found = None;
    each(deserializer, |owner: Owner<'de>| {
        if owner.controller == Some(true) && found.is_none() {
            found = Some(owner.kind.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(found)
}

/// Reads a list item by item, and keeps none of them. `null` is an empty list.
pub(super) fn each<'de, T, D>(deserializer: D, read: impl FnMut(T) -> Result<(), String>) -> Result<(), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Each<T, F>(F, PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<T, F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of objects")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
            Ok(())
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
            while let Some(item) = seq.next_element()? {
                self.0(item).map_err(serde::de::Error::custom)?;
            }
            Ok(())
        }
    }
    deserializer.deserialize_any(Each(read, PhantomData))
}
