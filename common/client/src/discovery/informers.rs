//! One informer for each wanted resource, started and stopped as discovery finds the resources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{FutureExt as _, future};

use super::DiscoveredResources;
use crate::{
    informer::{AnyInformer as _, Sink, SinkInformer},
    map::HashMap,
    object::Resource,
};

/// The informers of the wanted resources. Each informer has its own sink.
///
/// # Guarantees
/// - After [`follow`](Self::follow), each wanted resource has exactly one informer. A resource that stays wanted keeps its
///   informer, with its state.
/// - A resource with a stale group version keeps its informer if the first list is complete, although discovery does not report
///   the resource. So a broken extension server does not empty a cache. The kinds of the group version stay known, too.
/// - A resource that cannot be listed or watched affects no other resource.
///
/// # Errors
/// There is no failure as a whole: [`failing_resources`](Self::failing_resources) and [`stale_errors`](Self::stale_errors) name
/// the resources that cannot be listed or watched, and [`unsynced_resources`](Self::unsynced_resources) those without a first
/// list. A resource without an informer may still be served if the discovery of its group version failed.
pub struct DiscoveredInformers<S> {
    /// The last result of discovery.
    discovered_resources: DiscoveredResources,
    informers: BTreeMap<Resource, Arc<SinkInformer<S>>>,
    /// By plural name and group, without the version: `replicasets.apps`. At most one version of a resource has an informer.
    by_name: HashMap<String, Arc<SinkInformer<S>>>,
}

/// The informers that [`DiscoveredInformers::follow`] started and stopped.
pub struct InformerChanges<S> {
    /// Informers of resources that were not watched before.
    pub started: Vec<Arc<SinkInformer<S>>>,
    /// Informers of resources that are no longer wanted. Each ends when its last reference is dropped.
    pub stopped: Vec<Arc<SinkInformer<S>>>,
}

impl<S> Default for DiscoveredInformers<S> {
    fn default() -> Self {
        let (discovered_resources, informers, by_name) = Default::default();
        Self { discovered_resources, informers, by_name }
    }
}

impl<S: Sink> DiscoveredInformers<S> {
    /// Starts and stops informers so that they match the wanted resources. `start` starts the informer of a resource.
    pub fn follow(
        &mut self,
        mut discovered_resources: DiscoveredResources,
        wanted: BTreeSet<Resource>,
        start: impl Fn(&Resource) -> SinkInformer<S>,
    ) -> InformerChanges<S> {
        discovered_resources.keep_stale_kinds(std::mem::take(&mut self.discovered_resources));
        let stays = |resource: &Resource, informer: &SinkInformer<S>| {
            wanted.contains(resource) || discovered_resources.is_stale(resource) && informer.is_synced()
        };
        let stopped: Vec<_> = self.informers.extract_if(.., |resource, informer| !stays(resource, informer)).collect();
        for (resource, _) in &stopped {
            tracing::info!(%resource, version = resource.version(), "Stopped watching a resource");
        }
        let mut started = Vec::new();
        for resource in wanted {
            self.informers.entry(resource).or_insert_with_key(|resource| {
                tracing::debug!(%resource, version = resource.version(), "Started watching a resource");
                let informer = Arc::new(start(resource));
                started.push(Arc::clone(&informer));
                informer
            });
        }
        let named = |(resource, informer): (&Resource, &Arc<_>)| (resource.to_string(), Arc::clone(informer));
        self.by_name = self.informers.iter().map(named).collect();
        self.discovered_resources = discovered_resources;
        InformerChanges { started, stopped: stopped.into_iter().map(|(_, informer)| informer).collect() }
    }

    /// Returns the last result of discovery, with the kinds of stale group versions as in earlier results.
    pub fn discovered_resources(&self) -> &DiscoveredResources {
        &self.discovered_resources
    }

    /// Returns all informers, in the order of their resources.
    pub fn informers(&self) -> impl Iterator<Item = &Arc<SinkInformer<S>>> {
        self.informers.values()
    }

    /// Returns the informer of a resource in the watched version, which may be another version; `None` if no version is watched.
    pub fn informer_of(&self, resource: &Resource) -> Option<&Arc<SinkInformer<S>>> {
        self.by_name.get(&resource.to_string())
    }

    /// Returns the resources without a complete first list.
    pub fn unsynced_resources(&self) -> Vec<Resource> {
        let unsynced = self.informers().filter(|informer| !informer.is_synced());
        unsynced.map(|informer| informer.resource()).collect()
    }

    /// Returns the resources with a list or watch that has just failed, each with the last error.
    pub fn failing_resources(&self) -> Vec<(Resource, String)> {
        let with_error =
            |informer: &Arc<SinkInformer<S>>| Some((informer.resource(), informer.informer_status().error?.0));
        self.informers().filter_map(with_error).collect()
    }

    /// Returns a message for each resource with lists and watches that have all failed for longer than
    /// [`InformerConfig::stale_after`](crate::informer::InformerConfig::stale_after).
    pub fn stale_errors(&self) -> Vec<String> {
        self.informers().filter_map(|informer| informer.stale_error()).collect()
    }

    /// Returns a future that ends when all first lists are complete. The future does not borrow the informers.
    pub fn wait_for_first_lists(&self) -> impl Future<Output = ()> + Send + use<S> {
        future::join_all(self.informers().map(|informer| informer.wait_for_first_list())).map(drop)
    }
}

#[cfg(test)]
mod tests;
