//! What is read of an object before anything else: whether it can concern this controller at all.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use smallvec::SmallVec;

use crate::{
    json::{Str, each_item},
    meta::{Meta, Version},
};

/// The identity of an object, its version, its controller and its finalizers. Borrowed from the text or message that it was read from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head<'a> {
    #[serde(borrow, default)]
    namespace: Option<Str<'a>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    resource_version: Version,
    #[serde(borrow, default, rename = "ownerReferences", deserialize_with = "controller")]
    controller: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "finalizers")]
    finalizers: SmallVec<[Str<'a>; 2]>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

impl<'a> Head<'a> {
    /// The head of an object whose metadata have been read.
    pub fn of(meta: &'a Meta) -> Self {
        Self {
            namespace: Some(Str::from(meta.namespace.as_str())),
            name: Cow::Borrowed(&meta.name),
            resource_version: meta.resource_version,
            controller: meta.controller().map(|owner| Str::from(owner.kind.as_str())),
            finalizers: meta.finalizers.iter().map(|finalizer| Str::from(finalizer.as_str())).collect(),
            deletion_timestamp: meta.deleted.map(|_| IgnoredAny),
        }
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

    /// The kind of the managing controller; `None` if the object has none.
    pub fn controller(&self) -> Option<&str> {
        self.controller.as_deref()
    }

    /// Whether it has that finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| **own == *finalizer)
    }

    /// Whether its deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
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
    each_item(deserializer, |owner: Owner<'de>| {
        if owner.controller == Some(true) && found.is_none() {
            found = Some(owner.kind.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(found)
}

fn finalizers<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<SmallVec<[Str<'a>; 2]>, D::Error> {
    let mut found = SmallVec::new();
    each_item(deserializer, |finalizer: Str<'de>| {
        found.push(finalizer);
        Ok(())
    })?;
    Ok(found)
}
