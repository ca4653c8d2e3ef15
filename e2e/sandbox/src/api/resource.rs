//! What is served: built-in and custom resources, and the table of all of them.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::api::logic::{Logic, MergeList};

/// Place of an object within its resource: `namespace/name`, or `name` for what has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(Arc<str>);

impl Key {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }
    pub(crate) fn from_path(path: &str) -> Self {
        Self(path.into())
    }
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }
    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

/// A subresource as discovery shows it.
#[derive(Clone, Debug)]
pub(crate) struct Sub {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) group_version: Option<(String, String)>,
    pub(crate) verbs: Vec<String>,
}

/// One served resource of one version.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<Sub>,
    pub(crate) storage_hash: String,
    /// Name of the storage table: the plural and the group of the stored form.
    pub(crate) table: Arc<str>,
    pub(crate) logic: Box<dyn Logic>,
}

impl Deref for Resource {
    type Target = dyn Logic;

    fn deref(&self) -> &Self::Target {
        &*self.logic
    }
}

/// Name of a resource with its group, as messages have it: `deployments.apps`.
pub(crate) fn qualify(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl Resource {
    /// `group/version`, or the version alone for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn qualified(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// `details` of a Status about one object.
    pub(crate) fn details(&self, name: &str) -> Value {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".into(), json!(self.group));
        }
        details.insert("kind".into(), json!(self.plural));
        Value::Object(details)
    }

    /// Where the real server would keep the object.
    pub(crate) fn storage_path(&self, key: &Key) -> String {
        let prefix = match (&*self.group, &*self.plural, self.is_custom()) {
            (group, plural, true) => format!("{group}/{plural}"),
            ("", "replicationcontrollers", _) => "controllers".into(),
            ("", "endpoints", _) => "services/endpoints".into(),
            ("", "nodes", _) => "minions".into(),
            ("", "services", _) => "services/specs".into(),
            (_, plural, _) => plural.into(),
        };
        format!("/registry/{prefix}/{}", key.as_str())
    }

    pub(crate) fn sub(&self, name: &str) -> Option<&Sub> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Whether this is the built-in resource of that group and name.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural && !self.is_custom()
    }

    /// How a strategic merge patch merges the list at a path.
    pub(crate) fn merge_list(&self, path: &str) -> Option<MergeList> {
        match path {
            "metadata.ownerReferences" => Some(MergeList { key: "uid" }),
            "metadata.finalizers" => Some(MergeList { key: "" }),
            _ => (**self).merge_list(path),
        }
    }

    /// Whether a successful DELETE answers with the object instead of a Status.
    pub(crate) fn returns_deleted(&self) -> bool {
        match &*self.group {
            "" => matches!(
                &*self.plural,
                "pods"
                    | "namespaces"
                    | "services"
                    | "serviceaccounts"
                    | "resourcequotas"
                    | "persistentvolumes"
                    | "persistentvolumeclaims"
                    | "podtemplates"
            ),
            "resource.k8s.io" => true,
            "storage.k8s.io" => {
                matches!(
                    &*self.plural,
                    "csidrivers" | "storageclasses" | "volumeattachments" | "csinodes" | "volumeattributesclasses"
                )
            }
            _ => false,
        }
    }
}

/// All served resources by group version and plural. Replaced as a whole when a custom resource comes or goes.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    versions: BTreeMap<(String, String), BTreeMap<String, Arc<Resource>>>,
    /// Aggregated discovery of the core group and of the others, once somebody has asked.
    pub(crate) discovery: [OnceLock<Bytes>; 2],
}

impl Registry {
    pub(crate) fn add(&mut self, resource: Arc<Resource>) {
        self.discovery = Default::default();
        let version = (resource.group.clone(), resource.version.clone());
        self.versions.entry(version).or_default().insert(resource.plural.clone(), resource);
    }

    /// Removes a custom resource in all versions.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.discovery = Default::default();
        for ((g, _), resources) in &mut self.versions {
            if g == group {
                resources.remove(plural);
            }
        }
        self.versions.retain(|_, resources| !resources.is_empty());
    }

    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.versions.contains_key(&(group.to_owned(), version.to_owned()))
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions.get(&(group.to_owned(), version.to_owned()))?.get(plural)
    }

    /// The resource that serves a kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.versions.get(&(group.to_owned(), version.to_owned()))?.values().find(|r| r.kind == kind)
    }

    /// The resource of a group and plural in any version.
    pub(crate) fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions.iter().filter(|((g, _), _)| g == group).find_map(|(_, resources)| resources.get(plural))
    }

    /// Everything served, by group version and plural.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.values().flat_map(BTreeMap::values)
    }

    /// Groups and their versions.
    pub(crate) fn group_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.versions.keys().map(|(g, v)| (&**g, &**v))
    }

    /// Resources of one version by plural.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.get(&(group.to_owned(), version.to_owned())).into_iter().flat_map(BTreeMap::values)
    }
}
