//! Discovery: the resources that the API server serves, and an informer for each of those that a controller wants.
//!
//! Controllers that concern objects of every kind learn the resources at run time, because CustomResourceDefinitions and
//! extension servers add and remove resources. [`DiscoveredResources::read`] reads the resources once. [`DiscoveredInformers`]
//! starts and stops informers so that they follow the result. The caller decides when to read, and which resources it wants.
//!
//! Discovery can be partial: if an extension server does not answer, the API server marks its group versions as stale. The
//! absence of a resource from such a group version proves nothing.

mod informers;

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{
    api::{Api, Error},
    map::HashMap,
    meta::Meta,
    object::Resource,
};

pub use informers::{DiscoveredInformers, InformerChanges};

/// `Accept` header of aggregated discovery: one answer describes all resources below `/api` or `/apis`. Every supported server
/// version has this format.
pub const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The paths of the discovery documents.
pub const ROOTS: [&str; 2] = ["/api", "/apis"];

/// A resource in one version, and the requests that the server accepts for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// Names, version and scope.
    pub resource: Resource,
    /// Whether the server prefers this version: no version that it lists before this version contains the resource.
    pub is_preferred: bool,
    /// Supported verbs, for example `list`.
    pub verbs: Vec<String>,
    /// Names of the subresources, for example `scale`.
    pub subresources: Vec<String>,
}

impl DiscoveredResource {
    /// Whether the resource supports all of these verbs.
    pub fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|supported| supported == verb))
    }
}

/// The resources that the API server serves, as discovery reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredResources {
    /// Every resource in every version, except in stale group versions.
    pub resources: Vec<DiscoveredResource>,
    /// Group and version pairs that the server marks as stale, because it cannot reach the extension server behind them.
    pub stale_group_versions: BTreeSet<(String, String)>,
    /// By `apiVersion`, then by kind.
    resources_by_kind: HashMap<String, HashMap<String, Resource>>,
}

#[derive(Deserialize)]
struct Document {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: Meta,
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
    freshness: String,
    resources: Vec<Entry>,
}

/// A resource or a subresource.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    #[serde(alias = "subresource")]
    resource: String,
    response_kind: EntryKind,
    scope: String,
    verbs: Vec<String>,
    subresources: Vec<Self>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EntryKind {
    kind: String,
}

impl DiscoveredResources {
    /// Reads the discovery documents of the server.
    ///
    /// # Errors
    /// If the server does not answer, or if the answer is not a discovery document. Stale group versions are no error.
    pub async fn read(api: &Api) -> Result<Self, Error> {
        let mut discovered_resources = Self::default();
        for root in ROOTS {
            discovered_resources.add_document(&api.read_path(root, ACCEPT).await?)?;
        }
        Ok(discovered_resources)
    }

    /// Adds the resources of a discovery document, in JSON.
    ///
    /// # Errors
    /// If the text is not a discovery document.
    pub fn add_document(&mut self, json: &[u8]) -> Result<(), Error> {
        let document: Document = serde_json::from_slice(json)?;
        if document.kind != "APIGroupDiscoveryList" {
            return Err(Error::Unsent(format!("the API server answers discovery with {}", document.kind)));
        }
        for Group { metadata: group, versions } in document.items {
            let mut names = BTreeSet::new();
            for GroupVersion { version, freshness, resources } in versions {
                // The server reports outdated resources for a stale version, so they are skipped.
                if freshness == "Stale" {
                    self.stale_group_versions.insert((group.name.to_string(), version));
                    continue;
                }
                // A name with a slash is a subresource.
                for entry in resources.into_iter().filter(|entry| !entry.resource.contains('/')) {
                    let is_namespaced = entry.scope == "Namespaced";
                    let kind = &entry.response_kind.kind;
                    let resource = Resource::discovered(&group.name, &version, &entry.resource, kind, is_namespaced);
                    self.add_kind(&resource);
                    self.resources.push(DiscoveredResource {
                        resource,
                        is_preferred: names.insert(entry.resource),
                        verbs: entry.verbs,
                        subresources: entry.subresources.into_iter().map(|subresource| subresource.resource).collect(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Maps a kind to its resource. An exact name has precedence over an equal lower-case name of another kind.
    fn add_kind(&mut self, resource: &Resource) {
        let kinds = self.resources_by_kind.entry(resource.api_version()).or_default();
        let known = kinds.entry(resource.kind().to_owned()).or_insert_with(|| resource.clone());
        if known.kind() != resource.kind() {
            *known = resource.clone();
        }
        kinds.entry(resource.kind().to_lowercase()).or_insert_with(|| resource.clone());
    }

    /// Returns the resource that serves a kind; `None` if there is no such resource. `api_version` is for example `apps/v1`.
    ///
    /// The kind may be in lower case, as in some owner references. Unlike upstream, the kind of a list, such as
    /// `ConfigMapList`, is not found.
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        self.resources_by_kind.get(api_version)?.get(kind)
    }

    /// Whether discovery of the group version of this resource failed, so that the resource may be served or not.
    pub fn is_stale(&self, resource: &Resource) -> bool {
        self.stale_group_versions.contains(&(resource.group().to_owned(), resource.version().to_owned()))
    }

    /// Copies the kinds of group versions with failed discovery from the previous result.
    fn keep_stale_kinds(&mut self, previous: Self) {
        for (api_version, kinds) in previous.resources_by_kind {
            if kinds.values().any(|resource| self.is_stale(resource)) {
                self.resources_by_kind.entry(api_version).or_insert(kinds);
            }
        }
    }
}

#[cfg(test)]
mod tests;
