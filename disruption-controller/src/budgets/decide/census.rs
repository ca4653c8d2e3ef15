//! Counts the Pods of a budget, in one pass over them.

use std::{collections::BTreeMap, sync::Arc};

use common::{prelude::*, selector_index::NameSortedObjects};
use jiff::{SignedDuration, Timestamp};

use crate::objects::{Budget, Pod};

/// How long a Pod whose eviction was approved counts as disrupted, if it is not deleted. Upstream: `DeletionTimeout`.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// The Pods of a budget, counted.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Number of Pods, terminating and finished ones included.
    pub pods: i32,
    /// Number of Pods that are ready and neither terminating nor disrupted.
    pub healthy: i32,
    /// The entries of `status.disruptedPods` that are kept.
    pub disrupted_pods: BTreeMap<Text, Option<Timestamp>>,
    /// Time until the earliest of these entries ends; `None` without an entry.
    pub next_end: Option<SignedDuration>,
    /// The Pods whose entries have ended, because the Pods were not deleted.
    pub not_deleted: Vec<Arc<Pod>>,
    /// The distinct owners, in the order of their first Pods; empty for a budget that does not sum up owners.
    pub owners: Vec<PodOwner>,
    /// Whether a Pod has no owner; false for a budget that does not sum up owners.
    pub has_unmanaged_pods: bool,
}

/// The owner of Pods of a budget.
#[derive(Clone, Debug)]
pub struct PodOwner {
    /// The owner reference with `controller: true`.
    pub reference: OwnerRef,
    /// The first Pod with this owner, by name.
    pub pod: Arc<str>,
}

/// Counts the Pods that a budget selects.
///
/// Upstream: `pkg/controller/disruption`, `countHealthyPods` and `buildDisruptedPodMap`.
pub fn count_pods(budget: &Budget, objects: &NameSortedObjects<Pod>, now: Timestamp) -> Census {
    let mut census = Census { pods: i32::try_from(objects.len()).unwrap_or(i32::MAX), ..Census::default() };
    let is_healthy = |pod: &Pod| pod.is_ready && !pod.metadata.is_deleting();
    let (sums_up_owners, mut seen) = (budget.spec.sums_up_owners(), HashSet::default());
    for pod in objects.iter() {
        census.healthy += i32::from(is_healthy(pod));
        if !sums_up_owners {
            continue;
        }
        match pod.metadata.controller() {
            None => census.has_unmanaged_pods = true,
            // Most Pods have the same owner as the Pod before them.
            Some(owner) if census.owners.last().is_some_and(|last| last.reference.uid == owner.uid) => {}
            Some(owner) => {
                if seen.insert(&owner.uid) {
                    census.owners.push(PodOwner { reference: owner.clone(), pod: Arc::clone(&pod.metadata.name) });
                }
            }
        }
    }
    for (name, time) in &budget.status.disrupted_pods {
        let Some(pod) = objects.get(name).filter(|pod| !pod.metadata.is_deleting()) else { continue };
        let since = time.unwrap_or(Timestamp::UNIX_EPOCH);
        let remaining = DELETION_TIMEOUT.saturating_add(since.duration_since(now));
        if remaining.is_negative() {
            census.not_deleted.push(Arc::clone(pod));
            continue;
        }
        census.healthy -= i32::from(remaining.is_positive() && is_healthy(pod));
        census.disrupted_pods.insert(name.clone(), *time);
        census.next_end = Some(census.next_end.map_or(remaining, |next| next.min(remaining)));
    }
    census
}
