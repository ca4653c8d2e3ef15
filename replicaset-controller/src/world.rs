//! Builders for unit tests: a set, its Pods, and the snapshot of a sync.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{pod_creation_pauses::PodCreationPause, prelude::*, refs};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    kind::{ReplicaSets, SetKind},
    objects::{CachedSet, ReplicaSet},
    pod_cache::CachedPod,
    snapshot::{DecisionSettings, FailedPodBackoff, SharedPod, Snapshot},
};

/// Returns the fixed time of every sync in tests.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn time_before_now(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Returns a set named `web` that selects `app=web`.
pub(crate) fn web_set_json(replicas: usize) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "generation": 1, "resourceVersion": "5"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
    })
}

pub(crate) fn decode_set(object: &Value) -> Arc<ReplicaSet> {
    serde_json::from_str::<CachedSet<ReplicaSets>>(&object.to_string()).unwrap().replica_set
}

/// The JSON of a Pod, which each method changes.
#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// Returns a ready Pod of `web` on a node, one hour old.
pub(crate) fn pod_builder(name: &str) -> PodBuilder {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": true});
    let json = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"app": "web"},
            "ownerReferences": [owner]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    });
    PodBuilder(json).created_seconds_ago(3600).ready_for_seconds(3600)
}

impl PodBuilder {
    fn set(mut self, section: &str, field: &str, value: Value) -> Self {
        self.0[section][field] = value;
        self
    }
    pub(crate) fn node(self, node: &str) -> Self {
        self.set("spec", "nodeName", json!(node))
    }
    pub(crate) fn phase(self, phase: &str) -> Self {
        self.set("status", "phase", json!(phase))
    }
    pub(crate) fn created_seconds_ago(self, seconds: i64) -> Self {
        self.set("metadata", "creationTimestamp", json!(time_before_now(seconds).to_string()))
    }
    pub(crate) fn ready_for_seconds(self, seconds: i64) -> Self {
        let since = time_before_now(seconds).to_string();
        self.set("status", "conditions", json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]))
    }
    pub(crate) fn ready_without_transition_time(self) -> Self {
        self.set("status", "conditions", json!([{"type": "Ready", "status": "True"}]))
    }
    pub(crate) fn unready(self) -> Self {
        self.set("status", "conditions", json!([{"type": "Ready", "status": "False"}]))
    }
    pub(crate) fn labels(self, labels: Value) -> Self {
        self.set("metadata", "labels", labels)
    }
    pub(crate) fn into_orphan(self) -> Self {
        self.set("metadata", "ownerReferences", json!([]))
    }
    pub(crate) fn owner(mut self, kind: &str, name: &str, uid: &str) -> Self {
        self.0["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "uid": uid, "controller": true}]);
        self
    }
    pub(crate) fn terminating(self) -> Self {
        self.set("metadata", "deletionTimestamp", json!(time_before_now(1).to_string()))
    }
    pub(crate) fn deletion_cost(self, cost: &str) -> Self {
        self.set("metadata", "annotations", json!({common::pods::POD_DELETION_COST: cost}))
    }
    pub(crate) fn resource_version(self, version: u64) -> Self {
        self.set("metadata", "resourceVersion", json!(version.to_string()))
    }
    pub(crate) fn build(&self) -> CachedPod {
        let mut pod: CachedPod = serde_json::from_str(&self.0.to_string()).unwrap();
        pod.drop_unneeded_fields();
        pod
    }
}

/// A set with its Pods, from which tests build a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotBuilder {
    pub(crate) set: Value,
    pub(crate) pods: Vec<PodBuilder>,
    pub(crate) has_pending_writes: bool,
    pub(crate) pod_creation_pause: Option<PodCreationPause>,
    pub(crate) failed_pod_backoff: Option<FailedPodBackoff>,
    pub(crate) decision_settings: DecisionSettings,
    pub(crate) colocated_pod_counts_by_node: BTreeMap<Text, usize>,
}

pub(crate) fn set_with_pods(replicas: usize, pods: impl IntoIterator<Item = PodBuilder>) -> SnapshotBuilder {
    SnapshotBuilder {
        set: web_set_json(replicas),
        pods: pods.into_iter().collect(),
        has_pending_writes: false,
        pod_creation_pause: None,
        failed_pod_backoff: None,
        decision_settings: DecisionSettings {
            burst_replicas: 500,
            uses_deletion_cost: true,
            counts_terminating_pods: true,
            drops_terminating_replicas: false,
            waits_for_own_writes: true,
            reranks_remaining_pods: false,
        },
        colocated_pod_counts_by_node: BTreeMap::new(),
    }
}

/// Returns `count` Pods that have been ready for an hour.
pub(crate) fn ready_pods(count: usize) -> impl Iterator<Item = PodBuilder> {
    (0..count).map(|n| pod_builder(&format!("web-{n:05}")))
}

impl SnapshotBuilder {
    pub(crate) fn with_pending_writes(mut self) -> Self {
        self.has_pending_writes = true;
        self
    }
    pub(crate) fn with_terminating_set(mut self) -> Self {
        self.set["metadata"]["deletionTimestamp"] = json!(time_before_now(1).to_string());
        self
    }
    pub(crate) fn with_min_ready_seconds(mut self, seconds: i32) -> Self {
        self.set["spec"]["minReadySeconds"] = json!(seconds);
        self
    }
    pub(crate) fn with_stored_status(mut self, status: Value) -> Self {
        self.set["status"] = status;
        self
    }
    pub(crate) fn build_snapshot(&self) -> Snapshot {
        let set = decode_set(&self.set);
        let owner = Owner::new(ReplicaSets::RESOURCE, &set.metadata);
        let all: Vec<SharedPod> = self.pods.iter().map(|pod| Arc::new(pod.build())).collect();
        let own = |pod: &&SharedPod| pod.meta().controller().is_some_and(|c| c.uid == owner.uid);
        let terminating =
            all.iter().filter(own).filter(|pod| pod.is_terminating() && set.selector.matches(&pod.meta().labels));
        let terminating = terminating.count();
        let active = all.into_iter().filter(|pod| pod.is_active());
        Snapshot {
            claims: refs::claim_dependents(&owner, &set.selector, active, |_| true).unwrap_or_default(),
            terminating_pod_count: terminating,
            colocated_pod_counts_by_node: self.colocated_pod_counts_by_node.clone(),
            pod_creation_pause: self.pod_creation_pause,
            pending_writes: self.has_pending_writes.then(|| PendingWrites {
                description: "2 deleted pods".to_owned(),
                max_wait: Duration::from_secs(9),
                stale_resource: None,
            }),
            failed_pod_backoff: self.failed_pod_backoff,
            decision_settings: self.decision_settings,
            now: now(),
            owner,
            set,
        }
    }
}
