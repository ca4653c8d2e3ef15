//! Builders for tests: a DaemonSet, its nodes, Pods and revisions, and the snapshot of a sync.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    controller::Decision,
    prelude::*,
    refs,
    revision::{NumberEncoding, RevisionData},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    DaemonSetController,
    decide::{eligibility::decide_eligibility, revisions},
    failed_pods::{BackoffBounds, FailedPodBackoff},
    node_index::NodeIndex,
    objects::{CachedPod, DAEMON_SETS, DaemonSet, Node, ParsedPodTemplate, SharedPod, SharedRevision},
    observe::{earlier_revision_hashes_on_pods, read_pods_to_change},
    plan::Plan,
    snapshot::{
        DecisionSettings, DeniedChanges, FirstTask, Snapshot,
        nodes::{DelayedPodCreations, Eligibility, RefusedNodeCursors},
    },
};

/// The time of every sync in tests, unless a test sets another time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn time_before_now(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(crate) fn decode_trimmed<T: Object>(value: &Value) -> Arc<T> {
    let mut object: T = serde_json::from_str(&value.to_string()).unwrap();
    object.drop_unneeded_fields();
    Arc::new(object)
}

/// A Pod template with the image `img:<version>`.
pub(crate) fn template(version: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "c", "image": format!("img:{version}")}]}})
}

/// The cached objects from which a test makes a snapshot. The hash of a revision is the version of its template: `a`, `b`, ...
#[derive(Clone, Debug)]
pub(crate) struct SnapshotBuilder {
    pub(crate) set: Value,
    pub(crate) revisions: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) failed_pod_backoff: FailedPodBackoff,
    pub(crate) decision_settings: DecisionSettings,
    pub(crate) refused_node_cursors: RefusedNodeCursors,
    pub(crate) pending_writes: Option<PendingWrites>,
    pub(crate) first_task: FirstTask,
    pub(crate) unanswered_creations: BTreeMap<Text, Duration>,
    pub(crate) now: Timestamp,
}

/// A DaemonSet `agent` with a stored revision of template `a`, and nodes `n0`, `n1`, ... without Pods.
pub(crate) fn set_without_pods(nodes: usize) -> SnapshotBuilder {
    let set = json!({
        "metadata": {"name": "agent", "namespace": "shop", "uid": "SET", "generation": 3, "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("a"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
    });
    let bounds = BackoffBounds { initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(900) };
    let limits = DecisionSettings { burst_replicas: 250, allows_comparison_operators: false };
    let world = SnapshotBuilder {
        set,
        revisions: Vec::new(),
        nodes: Vec::new(),
        pods: Vec::new(),
        failed_pod_backoff: FailedPodBackoff::new(bounds),
        decision_settings: limits,
        refused_node_cursors: RefusedNodeCursors::default(),
        pending_writes: None,
        first_task: FirstTask::default(),
        unanswered_creations: BTreeMap::new(),
        now: now(),
    };
    (0..nodes).fold(world.revision("a", 1), |world, n| world.node(json!({"metadata": {"name": format!("n{n}")}})))
}

/// A DaemonSet `agent` with an available Pod of template `a` on each of the nodes `n0`, `n1`, ...
pub(crate) fn set_with_pods(nodes: usize) -> SnapshotBuilder {
    (0..nodes).fold(set_without_pods(nodes), |world, n| world.pod(n, pod()))
}

#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// A running Pod of template `a` that has been ready for an hour. It has no node and no name yet.
pub(crate) fn pod() -> PodBuilder {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "SET", "controller": true});
    PodBuilder(json!({
        "metadata": {"namespace": "shop", "resourceVersion": "1", "ownerReferences": [owner],
            "labels": {"app": "agent", "controller-revision-hash": "a"}, "creationTimestamp": time_before_now(7200).to_string()},
        "spec": {}, "status": {"phase": "Running"},
    }))
    .ready(3600)
}

impl PodBuilder {
    fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap()[field] = value;
        self
    }
    pub(crate) fn ready(self, seconds: i64) -> Self {
        let since = time_before_now(seconds).to_string();
        self.with("/status/conditions", json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]))
    }
    pub(crate) fn unready(self) -> Self {
        self.with("/status/conditions", json!([{"type": "Ready", "status": "False"}]))
    }
    pub(crate) fn phase(self, phase: &str) -> Self {
        let pod = self.with("/status/phase", json!(phase));
        if phase == "Running" { pod } else { pod.unready() }
    }
    pub(crate) fn terminating(self) -> Self {
        self.with("/metadata/deletionTimestamp", json!(time_before_now(1).to_string()))
    }
    pub(crate) fn revision_hash(self, version: &str) -> Self {
        self.with("/metadata/labels/controller-revision-hash", json!(version))
    }
    pub(crate) fn template_generation_label(self, generation: &str) -> Self {
        self.with("/metadata/labels/pod-template-generation", json!(generation))
    }
    pub(crate) fn created_seconds_ago(self, seconds_ago: i64) -> Self {
        self.with("/metadata/creationTimestamp", json!(time_before_now(seconds_ago).to_string()))
    }
    pub(crate) fn owner_name(self, name: &str) -> Self {
        self.with("/metadata/ownerReferences/0/name", json!(name))
    }
    pub(crate) fn orphan(self) -> Self {
        self.with("/metadata/ownerReferences", json!([]))
    }
    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.with(&format!("/metadata/labels/{key}"), json!(value))
    }
    /// Sets the phase `Pending`, and removes the binding to a node.
    pub(crate) fn pending(self) -> Self {
        self.with("/unbound", json!(true)).phase("Pending")
    }
    /// Returns the JSON of the Pod with this name, pinned to `node`. A Pod that is not pending is also bound to `node`.
    pub(crate) fn build_named(mut self, name: &str, node: &str) -> Value {
        self.0["metadata"]["name"] = json!(name);
        self.0["metadata"]["uid"] = json!(format!("POD-{name}"));
        let pin = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [pin]}]});
        self.0["spec"]["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        if self.0.get("unbound").is_none() && !node.is_empty() {
            self.0["spec"]["nodeName"] = json!(node);
        }
        self.0
    }
}

/// The nodes of a [`SnapshotBuilder`], as the update of a node index reads them.
pub(crate) struct NodeIndexInputs<'a> {
    world: &'a SnapshotBuilder,
    nodes: BTreeMap<String, Arc<Node>>,
    template: Arc<ParsedPodTemplate>,
}

impl NodeIndexInputs<'_> {
    fn eligibility(&self, node: &str) -> Eligibility {
        let known = self.nodes.get(node);
        known.map_or(Eligibility::NodeDeleted, |node| {
            decide_eligibility(&self.template.placement, node, self.world.decision_settings.allows_comparison_operators)
        })
    }

    /// Updates a node index after deciding the eligibility of its undecided nodes.
    pub(crate) fn update(&self, node_index: &mut NodeIndex, set: &DaemonSet, hash: &str, now: Timestamp) {
        for (node, change) in node_index.nodes_with_undecided_eligibility.first_nodes(usize::MAX) {
            let eligibility = self.eligibility(&node);
            node_index.store_eligibility(node, change, eligibility);
        }
        node_index.update(set, hash, &BTreeSet::new(), now, &self.world.failed_pod_backoff);
    }
}

impl SnapshotBuilder {
    pub(crate) fn node(mut self, node: Value) -> Self {
        self.nodes.retain(|known| known["metadata"]["name"] != node["metadata"]["name"]);
        self.nodes.push(node);
        self
    }
    pub(crate) fn without_node(mut self, name: &str) -> Self {
        self.nodes.retain(|known| known["metadata"]["name"] != name);
        self
    }
    /// Adds a taint with the key `k` and this effect to node `n<n>`.
    pub(crate) fn taint(self, n: usize, effect: &str) -> Self {
        let name = format!("n{n}");
        self.node(json!({"metadata": {"name": name}, "spec": {"taints": [{"key": "k", "effect": effect}]}}))
    }
    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.set["spec"][field] = value;
        self
    }
    pub(crate) fn with_status(mut self, status: Value) -> Self {
        self.set["status"] = status;
        self
    }
    pub(crate) fn rolling_limits(self, max_unavailable: Value, max_surge: Value) -> Self {
        let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
        self.spec("updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
    }
    pub(crate) fn template_generation(mut self, generation: &str) -> Self {
        self.set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": generation});
        self
    }
    /// Sets the template to this version, and stores its revision with the next number.
    pub(crate) fn roll_out_to(self, version: &str) -> Self {
        let number = self.revisions.len() as i64 + 1;
        self.spec("template", template(version)).revision(version, number)
    }
    /// Adds a stored revision of this version of the template. The version is also its hash.
    pub(crate) fn revision(self, version: &str, number: i64) -> Self {
        self.revision_with_template(version, number, &template(version))
    }
    pub(crate) fn revision_with_template(mut self, hash: &str, number: i64, template: &Value) -> Self {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "SET", "controller": true});
        let data = RevisionData::from_value(template.clone(), NumberEncoding::Exact).unwrap();
        let data: Value = serde_json::from_slice(data.bytes()).unwrap();
        let meta = json!({"name": format!("agent-{hash}"), "namespace": "shop", "uid": format!("REV-{hash}"),
            "resourceVersion": "1", "labels": {"app": "agent", "controller-revision-hash": hash}, "ownerReferences": [owner]});
        self.revisions.push(json!({"metadata": meta, "revision": number, "data": data}));
        self
    }
    /// Sets the Pod `p<n>` of node `n<n>`.
    pub(crate) fn pod(mut self, n: usize, pod: PodBuilder) -> Self {
        let name = format!("p{n}");
        self.pods.retain(|known| known["metadata"]["name"] != name);
        self.pods.push(pod.build_named(&name, &format!("n{n}")));
        self
    }
    /// Adds a second Pod `p<n>x` for node `n<n>`.
    pub(crate) fn second_pod(mut self, n: usize, pod: PodBuilder) -> Self {
        self.pods.push(pod.build_named(&format!("p{n}x"), &format!("n{n}")));
        self
    }
    pub(crate) fn without_pod(mut self, n: usize) -> Self {
        self.pods.retain(|known| known["metadata"]["name"] != format!("p{n}"));
        self
    }
    pub(crate) fn with_terminating_set(mut self) -> Self {
        self.set["metadata"]["deletionTimestamp"] = json!(time_before_now(1).to_string());
        self
    }
    /// Records a creation of a Pod for node `n<n>` without an answer, which may take effect for another 60 seconds.
    pub(crate) fn unanswered_creation(mut self, n: usize) -> Self {
        self.unanswered_creations.insert(Text::new(&format!("n{n}")), Duration::from_secs(60));
        self
    }
    /// Lets the next sync manage Pods and leave orphans to the sync after it.
    pub(crate) fn manages_pods_next(mut self) -> Self {
        self.first_task = FirstTask::ManagePods;
        self
    }
    pub(crate) fn delay_failed_pods_until(mut self, n: usize, seconds: i64) -> Self {
        let delay = Duration::from_secs(seconds.unsigned_abs());
        self.failed_pod_backoff.set_delay(&Text::new(&format!("n{n}")), delay, now());
        self
    }

    pub(crate) fn node_index_inputs(&self) -> NodeIndexInputs<'_> {
        let nodes = self.nodes.iter().map(decode_trimmed::<Node>).map(|node| (node.name().to_string(), node)).collect();
        let set: Arc<DaemonSet> = decode_trimmed(&self.set);
        NodeIndexInputs { world: self, nodes, template: Arc::new(ParsedPodTemplate::new(&set.template).unwrap()) }
    }

    /// Builds a node index of the Pods and nodes. `hash` is the hash of the current revision.
    pub(crate) fn node_index(&self, hash: &str) -> NodeIndex {
        let (set, inputs) = (decode_trimmed::<DaemonSet>(&self.set), self.node_index_inputs());
        let pods: Vec<SharedPod> = self.pods.iter().map(decode_trimmed).collect();
        let names = inputs.nodes.keys().map(|name| Text::new(name));
        let mut node_index = NodeIndex::new(&set, Arc::clone(&inputs.template), pods, names);
        inputs.update(&mut node_index, &set, hash, self.now);
        node_index
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let set: Arc<DaemonSet> = decode_trimmed(&self.set);
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = Arc::new(ParsedPodTemplate::new(&set.template).unwrap());
        let candidates: Vec<SharedRevision> = self.revisions.iter().map(decode_trimmed).collect();
        let claims = refs::claim_dependents(&owner, &set.selector, candidates, |_| true).unwrap_or_default();
        let revisions = revisions::choose_current_revision(&set, &template, claims);
        let pods = self.pods.iter().map(decode_trimmed::<CachedPod>);
        let is_adoptable = |pod: &SharedPod| pod.meta().controller().is_none() && !pod.meta().is_deleting();
        let orphans: Vec<SharedPod> = pods.filter(is_adoptable).collect();
        let (hash, duplicate_hashes) = (&revisions.current_hash, &revisions.duplicate_hashes);
        let mut node_index = self.node_index(hash);
        node_index.update(&set, hash, duplicate_hashes, self.now, &self.failed_pod_backoff);
        let delayed_pod_creations = DelayedPodCreations::new(self.unanswered_creations.clone(), &orphans);
        Snapshot {
            pods_to_change: read_pods_to_change(&node_index, orphans, &owner, &revisions),
            earlier_revision_hashes_on_pods: earlier_revision_hashes_on_pods(&node_index, &revisions),
            actionable_nodes: node_index.actionable_nodes(
                &set,
                self.decision_settings.burst_replicas,
                &self.refused_node_cursors,
                delayed_pod_creations,
                self.now,
                &self.failed_pod_backoff,
            ),
            pending_writes: self.pending_writes.clone(),
            first_task: self.first_task,
            denied_revision_changes: DeniedChanges::default(),
            denied_pod_changes: DeniedChanges::default(),
            pod_creation_pause: None,
            decision_settings: self.decision_settings,
            now: self.now,
            revisions,
            template,
            owner,
            set,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        crate::decide::decide(&self.snapshot())
    }

    /// Returns the requests of a sync in the words of `/debug/explain`.
    pub(crate) fn actions(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain().actions
    }

    /// Returns the creations and deletions of the plan: `+n1` creates a Pod for node `n1`, `-p1` deletes Pod `p1`.
    pub(crate) fn pod_actions(&self) -> Vec<String> {
        let plan = self.plan();
        let creates = plan.pod_creations.iter().map(|creation| format!("+{}", creation.node_name));
        let deletes = plan.pod_deletions.iter().map(|deletion| format!("-{}", deletion.pod.meta().name));
        creates.chain(deletes).collect()
    }

    /// The counts of the status: desired, current, ready, available, updated, misscheduled, unavailable.
    pub(crate) fn decided_status_counts(&self) -> [i32; 7] {
        let status = self.plan().status;
        [
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_ready,
            status.number_available,
            status.updated_number_scheduled,
            status.number_misscheduled,
            status.number_unavailable,
        ]
    }
}
