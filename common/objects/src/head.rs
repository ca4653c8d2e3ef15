//! The head of an object: the fields that are read first and show whether the object can concern a controller.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use smallvec::SmallVec;

use crate::{
    json::{JsonStr, for_each_item},
    meta::{Meta, ResourceVersion},
};

/// Identity, version, controller and finalizers of an object, borrowed from the text or message that they were read from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectHead<'a> {
    #[serde(borrow, default)]
    namespace: Option<JsonStr<'a>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    resource_version: ResourceVersion,
    #[serde(borrow, default, rename = "ownerReferences", deserialize_with = "controller")]
    controller: Option<JsonStr<'a>>,
    #[serde(borrow, default, deserialize_with = "finalizers")]
    finalizers: SmallVec<[JsonStr<'a>; 2]>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

impl<'a> ObjectHead<'a> {
    /// Creates the head of an object whose metadata are already decoded.
    pub fn from_meta(meta: &'a Meta) -> Self {
        Self {
            namespace: Some(JsonStr::from(meta.namespace.as_str())),
            name: Cow::Borrowed(&meta.name),
            resource_version: meta.resource_version,
            controller: meta.controller().map(|owner| JsonStr::from(owner.kind.as_str())),
            finalizers: meta.finalizers.iter().map(|finalizer| JsonStr::from(finalizer.as_str())).collect(),
            deletion_timestamp: meta.deletion_timestamp.map(|_| IgnoredAny),
        }
    }

    /// Returns `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.name`; empty only if a faulty server sent an empty name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `metadata.resourceVersion`; [`ResourceVersion::UNKNOWN`] if the text is not a number.
    pub fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    /// Returns the `kind` of the first owner with `controller: true`; `None` if there is no such owner.
    pub fn controller_kind(&self) -> Option<&str> {
        self.controller.as_deref()
    }

    /// Whether `metadata.finalizers` contains `finalizer`; false if the list is missing.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| **own == *finalizer)
    }

    /// Whether `metadata.deletionTimestamp` is set, which means that the object is terminating.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Reads the `kind` of the first owner with `controller: true` from a list of owner references.
fn controller<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonStr<'a>>, D::Error> {
    #[derive(Deserialize)]
    struct Owner<'a> {
        #[serde(borrow, default)]
        kind: Option<JsonStr<'a>>,
        #[serde(default)]
        controller: Option<bool>,
    }
    let mut found = None;
    for_each_item(deserializer, |owner: Owner<'de>| {
        if owner.controller == Some(true) && found.is_none() {
            found = Some(owner.kind.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(found)
}

fn finalizers<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<SmallVec<[JsonStr<'a>; 2]>, D::Error> {
    let mut found = SmallVec::new();
    for_each_item(deserializer, |finalizer: JsonStr<'de>| {
        found.push(finalizer);
        Ok(())
    })?;
    Ok(found)
}
