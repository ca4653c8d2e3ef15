//! What is served: built-in kinds and custom resources behind one face, and the table of all of them.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, LazyLock, OnceLock},
};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    kinds::{self, Kind, MergeList},
    logic::Logic,
};

/// Place of an object within its resource: `namespace/name`, or `name` for what has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Arc<str>);

impl Key {
    pub(super) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }
    pub(super) fn from_path(path: &str) -> Self {
        Self(path.into())
    }
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
    pub(super) fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }
    pub(super) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

/// A subresource as discovery shows it.
#[derive(Clone, Debug)]
pub(super) struct Sub {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) group_version: Option<(String, String)>,
    pub(super) verbs: Vec<String>,
}

/// One served resource of one version.
pub(super) struct Resource {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<String>,
    pub(super) subresources: Vec<Sub>,
    pub(super) storage_hash: String,
    /// Name of the storage table: the plural and the group of the stored form.
    pub(super) table: Arc<str>,
    pub(super) logic: LogicOf,
}

/// What knows about the objects of a resource.
pub(super) enum LogicOf {
    Builtin(&'static Kind),
    Custom(Box<dyn Logic>),
}

impl Deref for Resource {
    type Target = dyn Logic;

    fn deref(&self) -> &Self::Target {
        match &self.logic {
            LogicOf::Builtin(kind) => *kind,
            LogicOf::Custom(logic) => &**logic,
        }
    }
}

/// Name of a resource with its group, as messages have it: `deployments.apps`.
pub(super) fn qualify(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&s| s.to_owned()).collect()
}

impl Resource {
    pub(super) fn builtin(kind: &'static Kind) -> Self {
        let group = kind.stored_group();
        Self {
            group: kind.group.into(),
            version: kind.version.into(),
            kind: kind.kind.into(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.into(),
            singular: kind.singular.into(),
            short_names: owned(kind.short_names),
            categories: owned(kind.categories),
            namespaced: kind.namespaced,
            verbs: owned(kind.verbs),
            subresources: kind
                .subresources
                .iter()
                .map(|s| Sub {
                    name: s.name.into(),
                    kind: s.kind.into(),
                    group_version: s.group_version.map(|(g, v)| (g.into(), v.into())),
                    verbs: owned(s.verbs),
                })
                .collect(),
            storage_hash: kind.storage_hash.into(),
            table: qualify(kind.plural, group).into(),
            logic: LogicOf::Builtin(kind),
        }
    }

    /// `group/version`, or the version alone for the core group.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(super) fn qualified(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    pub(super) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// `details` of a Status about one object.
    pub(super) fn details(&self, name: &str) -> Value {
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
    pub(super) fn storage_path(&self, key: &Key) -> String {
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

    pub(super) fn sub(&self, name: &str) -> Option<&Sub> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(super) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Whether this is the built-in resource of that group and name.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural && !self.is_custom()
    }

    /// How a strategic merge patch merges the list at a path.
    pub(super) fn merge_list(&self, path: &str) -> Option<MergeList> {
        match path {
            "metadata.ownerReferences" => Some(MergeList { key: "uid" }),
            "metadata.finalizers" => Some(MergeList { key: "" }),
            _ => (**self).merge_list(path),
        }
    }

    /// Whether a successful DELETE answers with the object instead of a Status.
    pub(super) fn returns_deleted(&self) -> bool {
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
pub(super) struct Registry {
    versions: BTreeMap<(String, String), BTreeMap<String, Arc<Resource>>>,
    /// Aggregated discovery of the core group and of the others, once somebody has asked.
    pub(super) discovery: [OnceLock<Bytes>; 2],
}

impl Registry {
    /// What a sandbox serves whose gates are those.
    pub(super) fn gated(gate: impl Fn(&str) -> bool) -> Arc<Self> {
        let mut registry = Self::builtin();
        for kind in kinds::builtin().iter().filter(|kind| kind.gate.is_some_and(&gate)) {
            Arc::make_mut(&mut registry).add(Arc::new(Resource::builtin(kind)));
        }
        registry
    }

    /// What every sandbox serves: the same for all of a process.
    fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Registry>> = LazyLock::new(|| {
            let mut registry = Registry::default();
            for kind in kinds::builtin().iter().filter(|kind| kind.gate.is_none()) {
                registry.add(Arc::new(Resource::builtin(kind)));
            }
            Arc::new(registry)
        });
        Arc::clone(&BUILTIN)
    }

    pub(super) fn add(&mut self, resource: Arc<Resource>) {
        self.discovery = Default::default();
        let version = (resource.group.clone(), resource.version.clone());
        self.versions.entry(version).or_default().insert(resource.plural.clone(), resource);
    }

    /// Removes a custom resource in all versions.
    pub(super) fn remove(&mut self, group: &str, plural: &str) {
        self.discovery = Default::default();
        for ((g, _), resources) in &mut self.versions {
            if g == group {
                resources.remove(plural);
            }
        }
        self.versions.retain(|_, resources| !resources.is_empty());
    }

    pub(super) fn has_version(&self, group: &str, version: &str) -> bool {
        self.versions.contains_key(&(group.to_owned(), version.to_owned()))
    }

    pub(super) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions.get(&(group.to_owned(), version.to_owned()))?.get(plural)
    }

    /// The resource that serves a kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.versions.get(&(group.to_owned(), version.to_owned()))?.values().find(|r| r.kind == kind)
    }

    /// The resource of a group and plural in any version.
    pub(super) fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions.iter().filter(|((g, _), _)| g == group).find_map(|(_, resources)| resources.get(plural))
    }

    /// Everything served, by group version and plural.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.values().flat_map(BTreeMap::values)
    }

    /// Groups and their versions.
    pub(super) fn group_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.versions.keys().map(|(g, v)| (&**g, &**v))
    }

    /// Resources of one version by plural.
    pub(super) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.get(&(group.to_owned(), version.to_owned())).into_iter().flat_map(BTreeMap::values)
    }
}
