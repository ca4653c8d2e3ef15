//! Builders for tests: a DaemonSet, its nodes, Pods and revisions, and the snapshot of a sync.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    controller::Decision,
    intern::Text,
    object::Object,
    refs::{self, Owner},
    revision::{Data, Numbers},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    DaemonSetController,
    decide::{self, eligibility::eligibility, revisions},
    objects::{DAEMON_SETS, DaemonSet, DaemonTemplate, Node, PodRef, RevisionRef},
    plan::Plan,
    roster::{Roster, Surroundings},
    snapshot::{
        Blocked, Limits, RefusedChanges, Snapshot, Turn,
        nodes::{Cursors, Eligibility},
        revisions::hash_of,
    },
};

/// The time of every sync in tests, unless a test sets another time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// The time `seconds` before [`now`].
pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(crate) fn read<T: Object>(value: &Value) -> Arc<T> {
    let mut object: T = serde_json::from_str(&value.to_string()).unwrap();
    object.trim();
    Arc::new(object)
}

/// A Pod template with the image `img:<version>`.
pub(crate) fn template(version: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "c", "image": format!("img:{version}")}]}})
}

/// The cached objects from which a test makes a snapshot. The hash of a revision is the version of its template: `a`, `b`, ...
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) set: Value,
    pub(crate) revisions: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) failed: BTreeMap<Text, Timestamp>,
    pub(crate) limits: Limits,
    pub(crate) cursors: Cursors,
    pub(crate) blocked: Option<Blocked>,
    pub(crate) turn: Turn,
    pub(crate) lost_creates: BTreeMap<Text, Duration>,
    pub(crate) now: Timestamp,
}

/// A DaemonSet `agent` with a stored revision of template `a`, and nodes `n0`, `n1`, ... without Pods.
pub(crate) fn empty(nodes: usize) -> World {
    let set = json!({
        "metadata": {"name": "agent", "namespace": "shop", "uid": "SET", "generation": 3, "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("a"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
    });
    let limits = Limits { burst: 250, compares_taints: false };
    let world = World {
        set,
        revisions: Vec::new(),
        nodes: Vec::new(),
        pods: Vec::new(),
        failed: BTreeMap::new(),
        limits,
        cursors: Cursors::default(),
        blocked: None,
        turn: Turn::default(),
        lost_creates: BTreeMap::new(),
        now: now(),
    };
    (0..nodes).fold(world.revision("a", 1), |world, n| world.node(json!({"metadata": {"name": format!("n{n}")}})))
}

/// A DaemonSet `agent` with an available Pod of template `a` on each of the nodes `n0`, `n1`, ...
pub(crate) fn world(nodes: usize) -> World {
    (0..nodes).fold(empty(nodes), |world, n| world.pod(n, pod()))
}

#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// A running Pod of template `a` that has been ready for an hour. It has no node and no name yet.
pub(crate) fn pod() -> PodBuilder {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "SET", "controller": true});
    PodBuilder(json!({
        "metadata": {"namespace": "shop", "resourceVersion": "1", "ownerReferences": [owner],
            "labels": {"app": "agent", "controller-revision-hash": "a"}, "creationTimestamp": ago(7200).to_string()},
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
        let since = ago(seconds).to_string();
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
        self.with("/metadata/deletionTimestamp", json!(ago(1).to_string()))
    }
    pub(crate) fn of(self, version: &str) -> Self {
        self.with("/metadata/labels/controller-revision-hash", json!(version))
    }
    pub(crate) fn generation(self, generation: &str) -> Self {
        self.with("/metadata/labels/pod-template-generation", json!(generation))
    }
    pub(crate) fn created(self, seconds_ago: i64) -> Self {
        self.with("/metadata/creationTimestamp", json!(ago(seconds_ago).to_string()))
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
    pub(crate) fn named(mut self, name: &str, node: &str) -> Value {
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

/// The nodes and the back-off of a [`World`], as the update of a roster reads them.
pub(crate) struct Around<'a> {
    world: &'a World,
    nodes: BTreeMap<String, Arc<Node>>,
    template: Arc<DaemonTemplate>,
}

impl Around<'_> {
    fn eligibility(&self, node: &str) -> Eligibility {
        let known = self.nodes.get(node);
        known.map_or(Eligibility::Vanished, |node| {
            eligibility(&self.template.placement, node, self.world.limits.compares_taints)
        })
    }

    /// Updates a roster after deciding the eligibility of its undecided nodes.
    pub(crate) fn update(&self, roster: &mut Roster, set: &DaemonSet, hash: &str, now: Timestamp) {
        for (node, change) in roster.undecided.first(usize::MAX) {
            let eligibility = self.eligibility(&node);
            roster.decide_node(node, change, eligibility);
        }
        roster.update(set, hash, &BTreeSet::new(), now, self);
    }
}

impl Surroundings for Around<'_> {
    fn failed_until(&self, node: &Text) -> Option<Timestamp> {
        self.world.failed.get(node).copied()
    }

    fn failed_delay(&self, _node: &Text) -> Duration {
        Duration::from_secs(1)
    }
}

impl World {
    pub(crate) fn node(mut self, node: Value) -> Self {
        self.nodes.retain(|known| known["metadata"]["name"] != node["metadata"]["name"]);
        self.nodes.push(node);
        self
    }
    pub(crate) fn without_node(mut self, name: &str) -> Self {
        self.nodes.retain(|known| known["metadata"]["name"] != name);
        self
    }
    /// Gives node `n<n>` a taint with the key `k`.
    pub(crate) fn taint(self, n: usize, effect: &str) -> Self {
        let name = format!("n{n}");
        self.node(json!({"metadata": {"name": name}, "spec": {"taints": [{"key": "k", "effect": effect}]}}))
    }
    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.set["spec"][field] = value;
        self
    }
    pub(crate) fn status_of(mut self, status: Value) -> Self {
        self.set["status"] = status;
        self
    }
    pub(crate) fn limits(self, max_unavailable: Value, max_surge: Value) -> Self {
        let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
        self.spec("updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
    }
    pub(crate) fn template_generation(mut self, generation: &str) -> Self {
        self.set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": generation});
        self
    }
    /// Sets the template to this version, and stores its revision with the next number.
    pub(crate) fn rollout_to(self, version: &str) -> Self {
        let number = self.revisions.len() as i64 + 1;
        self.spec("template", template(version)).revision(version, number)
    }
    /// Adds a stored revision of this version of the template. The version is also its hash.
    pub(crate) fn revision(self, version: &str, number: i64) -> Self {
        self.revision_of(version, number, &template(version))
    }
    pub(crate) fn revision_of(mut self, hash: &str, number: i64, template: &Value) -> Self {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "SET", "controller": true});
        let data = Data::from_value(template.clone(), Numbers::Exact).unwrap();
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
        self.pods.push(pod.named(&name, &format!("n{n}")));
        self
    }
    /// Adds a second Pod `p<n>x` for node `n<n>`.
    pub(crate) fn second(mut self, n: usize, pod: PodBuilder) -> Self {
        self.pods.push(pod.named(&format!("p{n}x"), &format!("n{n}")));
        self
    }
    pub(crate) fn without_pod(mut self, n: usize) -> Self {
        self.pods.retain(|known| known["metadata"]["name"] != format!("p{n}"));
        self
    }
    pub(crate) fn deleting(mut self) -> Self {
        self.set["metadata"]["deletionTimestamp"] = json!(ago(1).to_string());
        self
    }
    /// Makes the answer to the creation of a Pod for node `n<n>` lost, with 60 seconds left.
    pub(crate) fn lost_create(mut self, n: usize) -> Self {
        self.lost_creates.insert(Text::new(&format!("n{n}")), Duration::from_secs(60));
        self
    }
    /// Lets the next sync manage Pods and leave orphans to the sync after it.
    pub(crate) fn manages(mut self) -> Self {
        self.turn = Turn::Manages;
        self
    }
    pub(crate) fn failed_until(mut self, n: usize, seconds: i64) -> Self {
        self.failed.insert(Text::new(&format!("n{n}")), now() + SignedDuration::from_secs(seconds));
        self
    }

    pub(crate) fn around(&self) -> Around<'_> {
        let nodes = self.nodes.iter().map(read::<Node>).map(|node| (node.name().to_string(), node)).collect();
        let set: Arc<DaemonSet> = read(&self.set);
        Around { world: self, nodes, template: Arc::new(DaemonTemplate::new(&set.template).unwrap()) }
    }

    /// Builds a roster of the Pods and nodes. `hash` is the hash of the current revision.
    pub(crate) fn roster(&self, hash: &str) -> Roster {
        let (set, around) = (read::<DaemonSet>(&self.set), self.around());
        let pods: Vec<PodRef> = self.pods.iter().map(read).collect();
        let names: Vec<Text> = around.nodes.keys().map(|name| Text::new(name)).collect();
        let mut roster = Roster::new(&set, Arc::clone(&around.template), pods, names.into_iter());
        around.update(&mut roster, &set, hash, self.now);
        roster
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let set: Arc<DaemonSet> = read(&self.set);
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = Arc::new(DaemonTemplate::new(&set.template).unwrap());
        let candidates: Vec<RevisionRef> = self.revisions.iter().map(read).collect();
        let claims = refs::claim(&owner, &set.selector, candidates, |_| true).unwrap_or_default();
        let revisions = revisions::choose(&set, &template, claims);
        let pods: Vec<PodRef> = self.pods.iter().map(read).collect();
        let orphans = pods.into_iter().filter(|pod| pod.meta().controller().is_none());
        let (mut roster, around) = (self.roster(&revisions.hash), self.around());
        roster.update(&set, &revisions.hash, &revisions.same_hashes, self.now, &around);
        let live = revisions.old.iter().map(hash_of).filter(|hash| roster.hashes.has(hash));
        let adopt: Vec<PodRef> = orphans.filter(|pod| !pod.meta().is_deleting()).collect();
        let held_back = decide::held_back(&self.lost_creates, adopt.iter());
        Snapshot {
            adopt,
            unseen_second_pods: roster.count_with_pod(self.lost_creates.keys()),
            release: roster.unselected(),
            relabel: roster.with_hashes(&revisions.same_hashes),
            unlabelled: roster.hashes.unlabelled(),
            live_hashes: live.map(Text::new).collect(),
            nodes: roster.nodes(&set, self.limits.burst, &self.cursors, &held_back, &around),
            held_back,
            blocked: self.blocked.clone(),
            turn: self.turn,
            refused_revisions: RefusedChanges::default(),
            refused_pods: RefusedChanges::default(),
            lost_creates: self.lost_creates.clone(),
            terminating_namespace: false,
            limits: self.limits,
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
    pub(crate) fn work(&self) -> Vec<String> {
        let plan = self.plan();
        let creates = plan.creates.iter().map(|creation| format!("+{}", creation.node));
        let deletes = plan.deletes.iter().map(|deletion| format!("-{}", deletion.pod.meta().name));
        creates.chain(deletes).collect()
    }

    /// The counts of the status: desired, current, ready, available, updated, misscheduled, unavailable.
    pub(crate) fn counts(&self) -> [i32; 7] {
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
