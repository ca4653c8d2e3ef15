//! Builders for unit tests: nodes, Pods, snapshots, and a fleet with its passes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    clock::{Clock, Instant},
    intern::Text,
    meta::{Key, Uid},
    taints::Taint,
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    disruption::{Count, ZoneLimits, ZoneStanding, ZoneState},
    eviction::snapshot as eviction,
    fleet::Fleet,
    garbage::{quarantine::Quarantine, snapshot as garbage},
    monitor::rounds::{
        decide::health,
        plan::health::{Action, Judged, Plan},
        snapshot::{BrakeLimits, Examined, HealthSnapshot, Reports, TaintingSnapshot, WaitingZone},
    },
    objects::{CachedPod, Node, NodeReady},
    rate::Limiter,
    sight::Sight,
    silence::Grace,
};

pub(crate) const PERIOD: Duration = Duration::from_secs(5);
pub(crate) const GRACE: Grace = Grace { monitor: Duration::from_secs(50), startup: Duration::from_secs(60) };
pub(crate) const LIMITS: ZoneLimits =
    ZoneLimits { unhealthy_threshold: 0.55, large_threshold: 50, rate: 0.1, secondary_rate: 0.01 };

/// Returns a time from which a test can subtract up to 10,000 seconds.
pub(crate) fn start() -> Instant {
    Clock::system().instant() + Duration::from_secs(10_000)
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<Text> {
    names.iter().map(|name| Text::new(name)).collect()
}

/// Decodes an object in the namespace `shop`. Its UID is its name; `fields` contains further fields by section, such as `spec`.
fn object<T: DeserializeOwned>(name: &str, fields: &Value) -> T {
    let mut object = json!({"metadata": {"name": name, "namespace": "shop", "uid": name}});
    for (section, fields) in fields.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            object[section][field] = value.clone();
        }
    }
    serde_json::from_str(&object.to_string()).unwrap()
}

pub(crate) fn node(name: &str, fields: Value) -> Arc<Node> {
    let mut fields = fields;
    fields["metadata"]["namespace"] = json!("");
    Arc::new(object(name, &fields))
}

pub(crate) fn pod(name: &str, fields: &Value) -> Arc<CachedPod> {
    Arc::new(object(name, fields))
}

/// Builds a node with conditions of these types and statuses, and taints with these keys and effects; `node.kubernetes.io/` is
/// added to a key without a domain.
pub(crate) fn node_with(conditions: &[(&str, &str)], taints: &[(&str, &str)], unschedulable: bool) -> Arc<Node> {
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status});
    let taint = |(key, effect): &(&str, &str)| {
        let key = if key.contains('/') { (*key).to_owned() } else { format!("node.kubernetes.io/{key}") };
        json!({"key": key, "effect": effect})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let taints: Vec<Value> = taints.iter().map(taint).collect();
    node("n", json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}}))
}

/// Returns the snapshot of a pass with a live view, in a cluster with this node, whose last heartbeat was `heard_ago` seconds
/// ago, and 9 ready nodes.
pub(crate) fn pass(node: Arc<Node>, heard_ago: u64) -> HealthSnapshot {
    let now = start();
    let mut sight = Sight::new(PERIOD, GRACE.monitor);
    for ago in (0..=100).rev() {
        sight.note(now - Duration::from_secs(ago * 10));
    }
    let is_ready = node.ready() == NodeReady::True;
    let count = Count { ready: 9 + usize::from(is_ready), not_ready: usize::from(!is_ready) };
    let heard = now - Duration::from_secs(heard_ago);
    HealthSnapshot {
        now,
        sight,
        trouble: None,
        grace_from: None,
        grace: GRACE,
        examined: vec![Examined { node, heard, denied_until: None, waits: false, counts: true }],
        zones: [(Text::default(), ZoneStanding { state: ZoneState::Normal, count })].into(),
        was_total: false,
        limits: LIMITS,
        reports: Reports::default(),
        period: PERIOD,
    }
}

/// Returns a zone in which `count` nodes wait for a taint, `{name}-0` first.
pub(crate) fn waiting_zone(name: &str, count: usize, limiter: Limiter) -> WaitingZone {
    let node = node(&format!("{name}-0"), json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    WaitingZone { zone: Text::new(name), node, is_over: false, count, limiter }
}

/// Returns the snapshot of a round of tainting in a cluster of 20 nodes.
pub(crate) fn tainting(now: Instant, zones: Vec<WaitingZone>) -> TaintingSnapshot {
    let brake = BrakeLimits { alarm: 0.55, cap: 0.0 };
    TaintingSnapshot { now, sees: true, zones, nodes: 20, tainted: 0, brake, is_alarmed: false, period: PERIOD }
}

/// Returns the snapshot of a pass of the Pod garbage collector without any work.
pub(crate) fn garbage_pass() -> garbage::Snapshot {
    let (period, quarantine_period) = (Duration::from_secs(20), Duration::from_secs(40));
    garbage::Snapshot {
        ended: Vec::new(),
        ended_count: 0,
        terminating: Vec::new(),
        unscheduled: Vec::new(),
        missing: BTreeSet::new(),
        pods_of_due: BTreeMap::new(),
        quarantine: Quarantine::default(),
        limits: garbage::Limits { threshold: 0, period, quarantine_period },
        now: start(),
    }
}

/// Builds `NoExecute` taints with these keys, separated by spaces.
pub(crate) fn evicting(keys: &str) -> Arc<[Taint]> {
    let one = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
    keys.split_whitespace().map(one).collect()
}

pub(crate) fn tolerating(tolerations: &Value) -> CachedPod {
    object("p", &json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n", "tolerations": tolerations}}))
}

pub(crate) fn timer(uid: &str, due: Instant) -> eviction::Timer {
    eviction::Timer { pod: Uid::new(uid), due, is_put_off: false }
}

/// Returns the snapshot of a Pod whose node has taints with `keys`, or does not exist if `keys` is `None`. `of` describes the
/// timer: the UID of its Pod, and the seconds until the timer is due, which may be negative.
pub(crate) fn eviction(tolerations: &Value, keys: Option<&str>, of: Option<(&str, i64)>) -> eviction::Snapshot {
    let now = start();
    let due = |seconds: i64| {
        let by = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { now - by } else { now + by }
    };
    eviction::Snapshot {
        key: Key::new("shop", "p"),
        pod: Some(Arc::new(tolerating(tolerations))),
        taints: keys.map(evicting),
        doubt: None,
        timer: of.map(|(uid, seconds)| timer(uid, due(seconds))),
        now,
        compares: false,
    }
}

/// A fleet of ready nodes `n0`, `n1` and so on, and a time that the test advances.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) now: Instant,
    version: u64,
}

/// Builds a ready node in zone `a`, modified by `change`.
pub(crate) fn member(name: &str, uid: &str, version: u64, change: impl FnOnce(&mut Value)) -> Arc<Node> {
    let mut fields = json!({
        "metadata": {"uid": uid, "resourceVersion": version.to_string(), "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T09:00:00Z"}]},
        "spec": {},
    });
    change(&mut fields);
    node(name, fields)
}

impl World {
    pub(crate) fn new(count: usize) -> Self {
        let now = start();
        let mut sight = Sight::new(PERIOD, GRACE.monitor);
        sight.note(now);
        let mut world = Self { fleet: Fleet::new(sight, GRACE, LIMITS), now, version: 1 };
        for number in 0..count {
            world.see(&format!("n{number}"), |_| {});
        }
        world
    }

    pub(crate) fn see(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        self.fleet.see(&member(name, name, self.version, change), None, false, self.now);
    }

    pub(crate) fn ready(&mut self, name: &str, status: &str, reason: &str) {
        self.see(name, |node| {
            node["status"]["conditions"][0]["status"] = json!(status);
            node["status"]["conditions"][0]["reason"] = json!(reason);
        });
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.fleet.sight.note(self.now);
        }
    }

    pub(crate) fn renew(&mut self, name: &str) {
        self.version += 1;
        let renewal = Timestamp::from_second(1_700_000_000 + self.version as i64).unwrap();
        self.fleet.renewed(name, Some(renewal), self.now);
    }

    /// Returns the nodes that the next pass reports.
    pub(crate) fn reports(&self) -> Reports {
        self.fleet.pass(self.now, None, PERIOD).reports
    }

    /// Returns the plan of the next pass.
    pub(crate) fn decide(&self) -> Plan {
        health::decide(&self.fleet.pass(self.now, None, PERIOD))
    }

    /// Runs a pass, and returns the examined nodes with their actions.
    pub(crate) fn pass(&mut self) -> Vec<String> {
        let plan = self.decide();
        self.fleet.passed(&plan, self.now);
        let line = |judged: &Judged| {
            let action = judged.action.as_ref().map_or("nothing", |action| match action {
                Action::Lapse(_) => "lapse",
                Action::Relieve => "relieve",
                Action::Swap(_) => "swap",
                Action::Wait(_) => "wait",
            });
            format!("{} {action}", judged.node.metadata.name)
        };
        plan.judged.iter().map(line).collect()
    }

    /// Returns for each zone the node that has waited longest for a taint.
    pub(crate) fn heads(&self) -> Vec<String> {
        let line = |WaitingZone { zone, node, count, is_over, .. }: &WaitingZone| {
            let over = if *is_over { " over" } else { "" };
            format!("{} {} of {count}{over}", zone.replace('\0', ""), node.metadata.name)
        };
        self.fleet.waiting_zones(self.now).iter().map(line).collect()
    }
}
