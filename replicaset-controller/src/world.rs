//! Builders for unit tests: a set, its Pods, and the snapshot of a sync.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    intern::Text,
    object::Object as _,
    refs::{self, Owner},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    kind::{Kind, ReplicaSets},
    objects::{ReplicaSet, Set},
    pod_cache::CachedPod,
    snapshot::{Blocked, Failing, Limits, PodRef, Snapshot},
};

/// Returns the fixed time of every sync in tests.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// Returns the time `seconds` before [`now`].
pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Returns a set named `web` that selects `app=web`.
pub(crate) fn web(replicas: usize) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "generation": 1, "resourceVersion": "5"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
    })
}

pub(crate) fn read(object: &Value) -> Arc<ReplicaSet> {
    Arc::clone(serde_json::from_str::<Set<ReplicaSets>>(&object.to_string()).unwrap().set())
}

/// A Pod under construction, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// Returns a ready Pod of `web` on a node, one hour old.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": true});
    let json = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"app": "web"},
            "ownerReferences": [owner]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    });
    PodBuilder(json).created(3600).ready(3600)
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
    pub(crate) fn created(self, seconds: i64) -> Self {
        self.set("metadata", "creationTimestamp", json!(ago(seconds).to_string()))
    }
    pub(crate) fn ready(self, seconds: i64) -> Self {
        let since = ago(seconds).to_string();
        self.set("status", "conditions", json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]))
    }
    pub(crate) fn ready_since_ever(self) -> Self {
        self.set("status", "conditions", json!([{"type": "Ready", "status": "True"}]))
    }
    pub(crate) fn unready(self) -> Self {
        self.set("status", "conditions", json!([{"type": "Ready", "status": "False"}]))
    }
    pub(crate) fn labels(self, labels: Value) -> Self {
        self.set("metadata", "labels", labels)
    }
    pub(crate) fn orphan(self) -> Self {
        self.set("metadata", "ownerReferences", json!([]))
    }
    pub(crate) fn owner(mut self, kind: &str, name: &str, uid: &str) -> Self {
        self.0["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "uid": uid, "controller": true}]);
        self
    }
    pub(crate) fn deleting(self) -> Self {
        self.set("metadata", "deletionTimestamp", json!(ago(1).to_string()))
    }
    pub(crate) fn cost(self, cost: &str) -> Self {
        self.set("metadata", "annotations", json!({common::pods::POD_DELETION_COST: cost}))
    }
    pub(crate) fn version(self, version: u64) -> Self {
        self.set("metadata", "resourceVersion", json!(version.to_string()))
    }
    pub(crate) fn build(&self) -> CachedPod {
        let mut pod: CachedPod = serde_json::from_str(&self.0.to_string()).unwrap();
        pod.trim();
        pod
    }
}

/// A set with its Pods, from which tests build a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) set: Value,
    pub(crate) pods: Vec<PodBuilder>,
    pub(crate) blocked: bool,
    pub(crate) terminating_namespace: bool,
    pub(crate) failing: Option<Failing>,
    pub(crate) limits: Limits,
    pub(crate) colocated: BTreeMap<Text, usize>,
}

pub(crate) fn world(replicas: usize, pods: impl IntoIterator<Item = PodBuilder>) -> World {
    World {
        set: web(replicas),
        pods: pods.into_iter().collect(),
        blocked: false,
        terminating_namespace: false,
        failing: None,
        limits: Limits {
            burst: 500,
            deletion_cost: true,
            counts_terminating: true,
            terminating_dropped: false,
            reads_own_writes: true,
            reranks: false,
        },
        colocated: BTreeMap::new(),
    }
}

/// Returns `count` Pods that have been ready for an hour.
pub(crate) fn pods(count: usize) -> impl Iterator<Item = PodBuilder> {
    (0..count).map(|n| pod(&format!("web-{n:05}")))
}

impl World {
    pub(crate) fn blocked(mut self) -> Self {
        self.blocked = true;
        self
    }
    pub(crate) fn deleting(mut self) -> Self {
        self.set["metadata"]["deletionTimestamp"] = json!(ago(1).to_string());
        self
    }
    pub(crate) fn min_ready(mut self, seconds: i32) -> Self {
        self.set["spec"]["minReadySeconds"] = json!(seconds);
        self
    }
    pub(crate) fn stored(mut self, status: Value) -> Self {
        self.set["status"] = status;
        self
    }
    pub(crate) fn snapshot(&self) -> Snapshot {
        let set = read(&self.set);
        let owner = Owner::new(ReplicaSets::RESOURCE, &set.metadata);
        let all: Vec<PodRef> = self.pods.iter().map(|pod| Arc::new(pod.build())).collect();
        let own = |pod: &&PodRef| pod.meta().controller().is_some_and(|c| c.uid == owner.uid);
        let terminating =
            all.iter().filter(own).filter(|pod| pod.is_terminating() && set.selector.matches(&pod.meta().labels));
        let terminating = terminating.count();
        let active = all.into_iter().filter(|pod| pod.is_active());
        Snapshot {
            claims: refs::claim(&owner, &set.selector, active, |_| true).unwrap_or_default(),
            terminating,
            colocated: self.colocated.clone(),
            terminating_namespace: self.terminating_namespace,
            blocked: self
                .blocked
                .then(|| Blocked { why: "2 deleted pods".to_owned(), at_most: Duration::from_secs(9) }),
            failing: self.failing,
            limits: self.limits,
            now: now(),
            owner,
            set,
        }
    }
}
