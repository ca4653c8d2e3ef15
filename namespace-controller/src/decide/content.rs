//! The kinds of objects that a namespace may contain, and what remains of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::{
    discovery::{DiscoveredResource, DiscoveredResources},
    partial_object::PartialObject,
    prelude::*,
};
use jiff::Timestamp;

/// Finalizers that garbage collection removes. They do not exempt an object from a deletion by name.
const GARBAGE_COLLECTION_FINALIZERS: [&str; 2] = ["orphan", "foregroundDeletion"];
/// Maximum number of finalizers that are counted for one kind.
const MAX_FINALIZERS: usize = 100;

/// The failure of a part of a sync: its text for conditions, logs and explanations, and its label in metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// One sentence; the message of the server if a request was refused.
    pub text: String,
    /// Class of the error of the sync.
    pub class: SyncErrorClass,
}

/// Whether this is the resource of Pods.
pub fn is_pods(resource: &Resource) -> bool {
    (resource.group(), resource.plural()) == ("", "pods")
}

/// Everything that a namespace may contain, from one discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The namespaced resources with the verb `delete`, in the order of discovery.
    pub kinds: Arc<[DiscoveredResource]>,
    /// The group versions whose resources are unknown, such as `example.com/v1`.
    pub stale_group_versions: BTreeSet<String>,
}

impl Content {
    /// Selects the content from a discovery.
    ///
    /// # Errors
    /// If the core group has no content, because a namespace would then be finalized with all of its content.
    pub fn from_discovery(discovered: &DiscoveredResources) -> Result<Self, Failure> {
        let is_content = |resource: &&DiscoveredResource| {
            resource.is_preferred && resource.resource.is_namespaced() && resource.supports(&["delete"])
        };
        let kinds: Vec<_> = discovered.resources.iter().filter(is_content).cloned().collect();
        if !kinds.iter().any(|kind| kind.resource.group().is_empty()) {
            let text = "discovery of the API server has no resources in the core group".to_owned();
            return Err(Failure { text, class: SyncErrorClass::Unserved });
        }
        let stale = discovered.stale_group_versions.iter();
        let stale = stale.map(|(group, version)| format!("{group}/{version}").trim_start_matches('/').to_owned());
        Ok(Self { kinds: kinds.into(), stale_group_versions: stale.collect() })
    }
}

/// What is known about one kind after the visit of a sync. The default is an empty kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindState {
    /// Number of objects in the last list.
    pub count: usize,
    /// Number of these objects that are terminating and wait for the end of a grace period or for a finalizer.
    pub waiting: usize,
    /// Largest `metadata.deletionGracePeriodSeconds`; 0 if no object has any.
    pub grace_period_seconds: i64,
    /// The finalizers, at most a hundred, each with the number of objects that have it and the name of the first one.
    pub finalizers: BTreeMap<Text, (usize, Arc<str>)>,
    /// Time of the first list that was answered with 404; `None` if the last list was answered otherwise.
    pub unserved_since: Option<Timestamp>,
    /// The first refused request; `None` if the visit has not failed.
    pub failure: Option<Failure>,
}

impl KindState {
    /// Creates the state of a kind of which nothing is known but a failure.
    pub fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// Counts an object.
    pub fn add(&mut self, object: &PartialObject) {
        self.count += 1;
        self.waiting += usize::from(is_waiting(object));
        self.grace_period_seconds = self.grace_period_seconds.max(object.deletion_grace_period_seconds.unwrap_or(0));
        for finalizer in &object.metadata.finalizers {
            if let Some((count, _)) = self.finalizers.get_mut(finalizer) {
                *count += 1;
            } else if self.finalizers.len() < MAX_FINALIZERS {
                self.finalizers.insert(finalizer.clone(), (1, Arc::clone(&object.metadata.name)));
            }
        }
    }

    /// Whether the kind is known to have no objects.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.unserved_since.is_none() && self.failure.is_none()
    }

    /// Whether there are objects, and a further deletion of them would change nothing.
    pub fn only_waits(&self) -> bool {
        self.count > 0 && self.waiting == self.count && self.failure.is_none()
    }
}

/// Whether an object is terminating and waits for the end of its grace period or for a finalizer.
pub fn is_waiting(object: &PartialObject) -> bool {
    let holds = |finalizer: &Text| !GARBAGE_COLLECTION_FINALIZERS.contains(&finalizer.as_str());
    let has_grace_period = object.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    object.metadata.is_deleting() && (has_grace_period || object.metadata.finalizers.iter().any(holds))
}

/// What the last sync has found in a namespace.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The kinds that were visited; `None` if Pods remained, so that no other kind was visited.
    pub visited: Option<Arc<[DiscoveredResource]>>,
    /// The states of the kinds that are not known to be empty.
    pub kinds: Arc<BTreeMap<Resource, KindState>>,
}

impl Findings {
    /// Returns the kinds that the last sync has found empty, and the others. Both begin with Pods and end with the kinds that failed in
    /// the last sync.
    pub fn order_of_visits<'c>(&self, content: &'c Content) -> [Vec<&'c DiscoveredResource>; 2] {
        let mut kinds: Vec<&DiscoveredResource> = content.kinds.iter().collect();
        let has_failed = |resource| self.kinds.get(resource).is_some_and(|state| state.failure.is_some());
        kinds.sort_by_key(|kind| (!is_pods(&kind.resource), has_failed(&kind.resource)));
        let visited: BTreeMap<&Resource, &DiscoveredResource> =
            self.visited.iter().flat_map(|visited| visited.iter()).map(|kind| (&kind.resource, kind)).collect();
        let is_known_empty = |discovered: &&DiscoveredResource| {
            visited.get(&discovered.resource) == Some(discovered) && !self.kinds.contains_key(&discovered.resource)
        };
        let (known_empty, others) = kinds.into_iter().partition(is_known_empty);
        [known_empty, others]
    }
}
