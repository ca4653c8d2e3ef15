//! What a sync decides about: a DaemonSet, its revisions, its nodes and its Pods.

pub mod nodes;
pub mod revisions;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{pod_creation_pauses::PodCreationPause, prelude::*};
use jiff::Timestamp;

use crate::objects::{DaemonSet, ParsedPodTemplate, SharedPod};
use nodes::ActionableNodes;
use revisions::Revisions;

/// A DaemonSet and everything that a decision about it depends on, as the caches showed it at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The DaemonSet that is synced.
    pub set: Arc<DaemonSet>,
    /// `spec.template`, parsed once for all syncs until it changes.
    pub template: Arc<ParsedPodTemplate>,
    /// The identity of the DaemonSet for owner references, and whether it is terminating.
    pub owner: Owner,
    /// The revisions of the DaemonSet, divided by the changes that they need.
    pub revisions: Revisions,
    /// Revisions with a change that the server has denied, and the time until the next retry.
    pub denied_revision_changes: DeniedChanges,
    /// Pods with an adoption, a release or a relabelling that the server has denied, and the time until the next retry.
    pub denied_pod_changes: DeniedChanges,
    /// The Pods to adopt, to release and to relabel.
    pub pods_to_change: PodsToChange,
    /// The work of this sync if there are orphans: their adoption, or the creation and deletion of Pods.
    pub first_task: FirstTask,
    /// The hashes of those earlier revisions that Pods still have. Such revisions are not deleted.
    pub earlier_revision_hashes_on_pods: BTreeSet<Text>,
    /// The counts of the nodes, and the nodes on which this sync can act.
    pub actionable_nodes: ActionableNodes,
    /// The writes of this process that the caches do not show yet. Until they do, no Pods are created or deleted.
    pub pending_writes: Option<PendingWrites>,
    /// The pause in which no Pods are created; `None` if Pods may be created.
    pub pod_creation_pause: Option<PodCreationPause>,
    /// The feature gates and the `--tune` values that decisions depend on.
    pub decision_settings: DecisionSettings,
    /// The time of the sync, which decides whether a Pod has been ready for `min_ready_seconds`.
    pub now: Timestamp,
}

/// The Pods to adopt, to release and to relabel.
#[derive(Clone, Debug, Default)]
pub struct PodsToChange {
    /// Orphans that the selector matches and that are not terminating.
    pub orphans_to_adopt: Vec<SharedPod>,
    /// Pods that the selector no longer matches.
    pub pods_to_release: Vec<SharedPod>,
    /// Pods with the hash of a duplicate of the current revision. They get the hash of that revision.
    pub pods_to_relabel: Vec<SharedPod>,
    /// Pods without the label `controller-revision-hash`, which the watch of Pods selects. The sync restores the label with an
    /// empty value, because the revision of these Pods is unknown.
    pub pods_without_hash_label: Vec<SharedPod>,
}

impl PodsToChange {
    fn lists(&mut self) -> [&mut Vec<SharedPod>; 4] {
        let Self { orphans_to_adopt, pods_to_release, pods_to_relabel, pods_without_hash_label } = self;
        [pods_to_release, pods_to_relabel, pods_without_hash_label, orphans_to_adopt]
    }

    pub(crate) fn all_pods(&mut self) -> Vec<SharedPod> {
        self.lists().into_iter().flat_map(|list| list.iter().cloned()).collect()
    }

    /// Omits the Pods with these uids, because the server has denied their change. Returns the hashes of Pods that would have
    /// been relabelled.
    pub(crate) fn omit_denied_changes(&mut self, denied_uids: &BTreeSet<Uid>) -> BTreeSet<Text> {
        let is_denied = |pod: &SharedPod| denied_uids.contains(&pod.meta().uid);
        let kept = self.pods_to_relabel.iter().filter(|pod| is_denied(pod));
        let kept_hashes = kept.map(|pod| Text::new(pod.revision_hash())).collect();
        self.lists().into_iter().for_each(|list| list.retain(|pod| !is_denied(pod)));
        kept_hashes
    }
}

/// The first task of a sync if there are orphans to adopt.
///
/// Adoption and management take turns. Otherwise a steady supply of orphans would prevent the management of the Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstTask {
    /// The sync adopts the orphans, and leaves creations and deletions to the next sync.
    #[default]
    AdoptOrphans,
    /// The sync creates and deletes Pods, and leaves the orphans to the next sync.
    ManagePods,
}

/// The revisions or the Pods with a change that the server has denied, while the back-off of the change lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedChanges {
    /// The names of the objects, for the explanation.
    pub object_names: Vec<Text>,
    /// Time until the first change is retried; `None` without a denied change.
    pub retry_after: Option<Duration>,
}

/// The feature gates and the `--tune` values that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionSettings {
    /// Greatest number of Pods that one sync creates, and greatest number that it deletes (`--tune burst-replicas`).
    pub burst_replicas: usize,
    /// Whether tolerations may compare numbers (feature gate `TaintTolerationComparisonOperators`).
    pub allows_comparison_operators: bool,
}
