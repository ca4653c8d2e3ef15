//! What the API server serves.

use std::collections::{BTreeMap, BTreeSet};

use common::{
    api::{Api, Error},
    intern::Text,
    map::HashMap,
    object::Resource,
};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::graph::Kind;

/// What asks for everything about a root in one answer. Every supported server knows it.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// What a resource must support to be collected.
const VERBS: [&str; 3] = ["delete", "list", "watch"];
/// Resources that are neither watched nor collected, by group and name.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Everything that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The resource of each kind in every version, by the name of the kind and by that name in lower case.
    ///
    /// Owner references name a kind either way; `...List` names no kind here, although upstream maps it to a resource.
    pub kinds: HashMap<Kind, Resource>,
    /// Resources that can be watched and collected, each in the version its server prefers.
    pub collected: BTreeSet<Resource>,
    /// Groups and versions of which the server does not know at present what they serve.
    pub failed: BTreeSet<(String, String)>,
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

/// The same text, for as long as the process lives.
///
/// Names of resources come from a small set that recurs at every look: each is kept once.
fn forever(text: &str) -> &'static str {
    static ALL: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock();
    if let Some(known) = all.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(Box::from(text));
    all.insert(text.to_owned(), kept);
    kept
}

impl Served {
    /// Asks the server.
    ///
    /// # Errors
    /// If the server does not answer, or not in a way that can be read. An answer without a resource is an error, too.
    pub async fn read(api: &Api) -> Result<Self, Error> {
        let mut out = Self::default();
        for root in ["/api", "/apis"] {
            out.add(&api.read(root, ACCEPT).await?)?;
        }
        if out.collected.is_empty() {
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
                // What is still said of it is old.
                if version.freshness == "Stale" {
                    self.failed.insert((group.metadata.name.clone(), version.version.clone()));
                    continue;
                }
                // What has a slash in its name is no resource of its own.
                for found in version.resources.iter().filter(|found| !found.resource.contains('/')) {
                    self.found(&group.metadata.name, &version.version, found, &mut preferred);
                }
            }
        }
        Ok(())
    }

    /// `preferred` collects the names that a version before this one, which the server prefers, serves.
    fn found(&mut self, group: &str, version: &str, found: &Found, preferred: &mut BTreeSet<String>) {
        let resource = Resource {
            group: forever(group),
            version: forever(version),
            plural: forever(&found.resource),
            kind: forever(&found.response_kind.kind),
            namespaced: found.scope == "Namespaced",
        };
        self.add_kind(resource);
        let first = preferred.insert(found.resource.clone());
        let collected = VERBS.iter().all(|verb| found.verbs.iter().any(|v| v == verb));
        if first && collected && !IGNORED.contains(&(group, &*found.resource)) {
            self.collected.insert(resource);
        }
    }

    /// Maps a kind to its resource. A kind whose own name is the lower-case name of another kind keeps that name.
    fn add_kind(&mut self, resource: Resource) {
        let api_version = Text::new(&resource.api_version());
        let named = |kind: &str| Kind { api_version: api_version.clone(), kind: Text::new(kind) };
        let known = self.kinds.entry(named(resource.kind)).or_insert(resource);
        if known.kind != resource.kind {
            *known = resource;
        }
        self.kinds.entry(named(&resource.kind.to_lowercase())).or_insert(resource);
    }
}

#[cfg(test)]
mod tests;
