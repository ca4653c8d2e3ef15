//! Discovery: the resources that the API server serves.

use std::collections::BTreeSet;

use common::{
    api::{Api, Error},
    intern::Text,
    map::HashMap,
    object::Resource,
};
use serde::Deserialize;

use crate::graph::Kind;

/// `Accept` header of aggregated discovery: one answer describes all resources below `/api` or `/apis`. Every supported server
/// version has this format.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Verbs that a resource must support to be collected.
const REQUIRED_VERBS: [&str; 3] = ["delete", "list", "watch"];
/// Group and plural of resources that are neither watched nor collected.
const IGNORED_RESOURCES: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The resources that the API server serves, as discovery reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredResources {
    /// The resource of each kind in every version, under the name of the kind and under this name in lower case.
    ///
    /// Owner references contain both forms. Unlike upstream, the kind of a list, such as `ConfigMapList`, is not included.
    pub resource_by_kind: HashMap<Kind, Resource>,
    /// Resources that can be watched and collected, each in the version that the server prefers.
    pub collectable_resources: BTreeSet<Resource>,
    /// Group and version pairs that the server marks as stale, because it cannot reach the extension server behind them.
    pub stale_group_versions: BTreeSet<(String, String)>,
}

#[derive(Deserialize)]
struct List {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: GroupName,
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupName {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
    freshness: String,
    resources: Vec<Found>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Found {
    resource: String,
    response_kind: FoundKind,
    scope: String,
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FoundKind {
    kind: String,
}

impl DiscoveredResources {
    /// Reads the discovery documents of the server.
    ///
    /// # Errors
    /// If the server does not answer, if the answer is not a discovery document, or if it contains no resource that can be
    /// collected.
    pub async fn read(api: &Api) -> Result<Self, Error> {
        let mut out = Self::default();
        for root in ["/api", "/apis"] {
            out.add(&api.read_path(root, ACCEPT).await?)?;
        }
        if out.collectable_resources.is_empty() {
            return Err(Error::Unsent("the API server serves nothing that can be collected".to_owned()));
        }
        Ok(out)
    }

    fn add(&mut self, body: &[u8]) -> Result<(), Error> {
        let list: List = serde_json::from_slice(body)?;
        if list.kind != "APIGroupDiscoveryList" {
            return Err(Error::Unsent(format!("the API server answers discovery with {}", list.kind)));
        }
        for group in list.items {
            let mut preferred = BTreeSet::new();
            for version in &group.versions {
                // The server reports outdated resources for a stale version, so they are skipped.
                if version.freshness == "Stale" {
                    self.stale_group_versions.insert((group.metadata.name.clone(), version.version.clone()));
                    continue;
                }
                // A name with a slash is a subresource, which is not collected.
                for found in version.resources.iter().filter(|found| !found.resource.contains('/')) {
                    self.found(&group.metadata.name, &version.version, found, &mut preferred);
                }
            }
        }
        Ok(())
    }

    /// Adds a discovered resource. A resource is collected only in the first version of its group that contains it; `preferred`
    /// holds the names of the resources in the versions that the server lists before `version`.
    fn found(&mut self, group: &str, version: &str, found: &Found, preferred: &mut BTreeSet<String>) {
        let resource = Resource::discovered(
            group,
            version,
            &found.resource,
            &found.response_kind.kind,
            found.scope == "Namespaced",
        );
        self.add_kind(&resource);
        let first = preferred.insert(found.resource.clone());
        let collected = REQUIRED_VERBS.iter().all(|verb| found.verbs.iter().any(|v| v == verb));
        if first && collected && !IGNORED_RESOURCES.contains(&(group, &*found.resource)) {
            self.collectable_resources.insert(resource);
        }
    }

    /// Maps a kind to its resource. An exact name has precedence over an equal lower-case name of another kind.
    fn add_kind(&mut self, resource: &Resource) {
        let api_version = Text::new(&resource.api_version());
        let named = |kind: &str| Kind { api_version: api_version.clone(), kind: Text::new(kind) };
        let known = self.resource_by_kind.entry(named(resource.kind())).or_insert_with(|| resource.clone());
        if known.kind() != resource.kind() {
            *known = resource.clone();
        }
        self.resource_by_kind.entry(named(&resource.kind().to_lowercase())).or_insert_with(|| resource.clone());
    }
}

#[cfg(test)]
mod tests;
