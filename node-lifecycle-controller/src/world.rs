//! Builders for unit tests: nodes, Pods, snapshots, and records of nodes with the passes of the node monitor.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{prelude::*, taints::Taint};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    disruption::{NodeCounts, ZoneSettings, ZoneState, ZoneStatus},
    eviction::decide as eviction,
    garbage::{decide as garbage, quarantine::NodeQuarantine},
    monitor::{
        health::decide::{self as health, Action, ExaminedNode, HealthSnapshot, NodeDecision, NodesToReport, Plan},
        tainting::decide::{TaintShareLimits, TaintingSnapshot, ZoneWithWaitingNodes},
    },
    node_records::NodeRecords,
    objects::{CachedPod, Node, NodeReadyStatus},
    rate::TaintRateLimiter,
    server_contact::ServerContact,
    silence::GracePeriods,
};

pub(crate) const PASS_PERIOD: Duration = Duration::from_secs(5);
pub(crate) const GRACE_PERIODS: GracePeriods = GracePeriods {
    node_monitor_grace_period: Duration::from_secs(50),
    node_startup_grace_period: Duration::from_secs(60),
};
pub(crate) const ZONE_SETTINGS: ZoneSettings = ZoneSettings {
    unhealthy_zone_threshold: 0.55,
    large_zone_threshold: 50,
    eviction_rate: 0.1,
    secondary_eviction_rate: 0.01,
};

/// Returns a time from which a test can subtract up to 10,000 seconds.
pub(crate) fn start_time() -> Instant {
    Clock::system().monotonic_now() + Duration::from_secs(10_000)
}

pub(crate) fn text_set(names: &[&str]) -> BTreeSet<Text> {
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
pub(crate) fn node_with_conditions_and_taints(
    conditions: &[(&str, &str)],
    taints: &[(&str, &str)],
    unschedulable: bool,
) -> Arc<Node> {
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status});
    let taint = |(key, effect): &(&str, &str)| {
        let key = if key.contains('/') { (*key).to_owned() } else { format!("node.kubernetes.io/{key}") };
        json!({"key": key, "effect": effect})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let taints: Vec<Value> = taints.iter().map(taint).collect();
    node("n", json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}}))
}

/// Returns the snapshot of a pass that can receive heartbeats. The cluster has 9 ready nodes and this node, which sent its last
/// heartbeat `heartbeat_age` seconds ago.
pub(crate) fn health_snapshot(node: Arc<Node>, heartbeat_age: u64) -> HealthSnapshot {
    let now = start_time();
    let mut server_contact = ServerContact::new(PASS_PERIOD, GRACE_PERIODS.node_monitor_grace_period);
    for ago in (0..=100).rev() {
        server_contact.record_contact(now - Duration::from_secs(ago * 10));
    }
    let is_ready = node.ready_status() == NodeReadyStatus::True;
    let count = NodeCounts { ready: 9 + usize::from(is_ready), not_ready: usize::from(!is_ready) };
    let node_records = NodeRecords::new(server_contact, GRACE_PERIODS, ZONE_SETTINGS);
    HealthSnapshot {
        examined_nodes: vec![ExaminedNode {
            node,
            grace_period_start: now - Duration::from_secs(heartbeat_age),
            condition_write_denied_until: None,
            is_waiting_for_taint: false,
            is_counted_as_ready: is_ready,
        }],
        zones: [(Text::default(), ZoneStatus { state: ZoneState::Normal, node_counts: count })].into(),
        ..node_records.health_snapshot(now, None, PASS_PERIOD)
    }
}

/// Returns a zone in which `count` nodes wait for a taint, `{name}-0` first.
pub(crate) fn zone_with_waiting_nodes(name: &str, count: usize, limiter: TaintRateLimiter) -> ZoneWithWaitingNodes {
    let node = node(&format!("{name}-0"), json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    ZoneWithWaitingNodes {
        zone_key: Text::new(name),
        node,
        is_taint_unnecessary: false,
        waiting_node_count: count,
        limiter,
    }
}

/// Returns the snapshot of a tainting pass in a cluster of 20 nodes.
pub(crate) fn tainting_snapshot(now: Instant, zones: Vec<ZoneWithWaitingNodes>) -> TaintingSnapshot {
    TaintingSnapshot {
        now,
        has_server_contact: true,
        zones_with_waiting_nodes: zones,
        total_node_count: 20,
        tainted_node_count: 0,
        share_limits: TaintShareLimits { alarm_share: 0.55, max_share: 0.0 },
        is_taint_alarm_active: false,
        pass_period: PASS_PERIOD,
    }
}

/// Returns the snapshot of a pass of the Pod garbage collector, without a Pod to remove.
pub(crate) fn garbage_snapshot() -> garbage::Snapshot {
    let (period, quarantine_period) = (Duration::from_secs(20), Duration::from_secs(40));
    garbage::Snapshot {
        finished_pods_to_remove: Vec::new(),
        finished_pod_count: 0,
        terminating_pods_of_out_of_service_nodes: Vec::new(),
        terminating_pods_without_node: Vec::new(),
        names_of_missing_nodes: BTreeSet::new(),
        pods_of_nodes_after_quarantine: BTreeMap::new(),
        quarantine: NodeQuarantine::default(),
        settings: garbage::PodGcSettings { finished_pod_threshold: 0, pass_period: period, quarantine_period },
        now: start_time(),
    }
}

/// Builds `NoExecute` taints with these keys, separated by spaces.
pub(crate) fn no_execute_taints(keys: &str) -> Arc<[Taint]> {
    let one = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
    keys.split_whitespace().map(one).collect()
}

pub(crate) fn pod_with_tolerations(tolerations: &Value) -> CachedPod {
    object("p", &json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n", "tolerations": tolerations}}))
}

pub(crate) fn deletion_timer(uid: &str, due: Instant) -> eviction::DeletionTimer {
    eviction::DeletionTimer { pod_uid: Uid::new(uid), due_at: due, is_deletion_put_off: false }
}

/// Returns the snapshot of a Pod on a node that has taints with `keys`, or does not exist if `keys` is `None`. `of` describes
/// the timer: the UID of its Pod, and the seconds until the timer is due, which may be negative.
pub(crate) fn eviction_snapshot(
    tolerations: &Value,
    keys: Option<&str>,
    of: Option<(&str, i64)>,
) -> eviction::Snapshot {
    let now = start_time();
    let due = |seconds: i64| {
        let by = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { now - by } else { now + by }
    };
    eviction::Snapshot {
        key: NamespacedName::new("shop", "p"),
        pod: Some(Arc::new(pod_with_tolerations(tolerations))),
        no_execute_taints: keys.map(no_execute_taints),
        time_until_taint_confirmation: None,
        timer: of.map(|(uid, seconds)| deletion_timer(uid, due(seconds))),
        now,
        are_comparison_operators_enabled: false,
    }
}

/// Records of ready nodes `n0`, `n1` and so on, and a time that the test advances.
pub(crate) struct NodeRecordsFixture {
    pub(crate) node_records: NodeRecords,
    pub(crate) now: Instant,
    version: u64,
}

/// Builds a ready node in zone `a`, modified by `change`.
pub(crate) fn ready_node(name: &str, uid: &str, version: u64, change: impl FnOnce(&mut Value)) -> Arc<Node> {
    let mut fields = json!({
        "metadata": {"uid": uid, "resourceVersion": version.to_string(), "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T09:00:00Z"}]},
        "spec": {},
    });
    change(&mut fields);
    node(name, fields)
}

impl NodeRecordsFixture {
    pub(crate) fn new(count: usize) -> Self {
        let now = start_time();
        let mut server_contact = ServerContact::new(PASS_PERIOD, GRACE_PERIODS.node_monitor_grace_period);
        server_contact.record_contact(now);
        let mut world =
            Self { node_records: NodeRecords::new(server_contact, GRACE_PERIODS, ZONE_SETTINGS), now, version: 1 };
        for number in 0..count {
            world.update_node(&format!("n{number}"), |_| {});
        }
        world
    }

    pub(crate) fn update_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        self.node_records.record_node(&ready_node(name, name, self.version, change), None, false, self.now);
    }

    pub(crate) fn set_ready_condition(&mut self, name: &str, status: &str, reason: &str) {
        self.update_node(name, |node| {
            node["status"]["conditions"][0]["status"] = json!(status);
            node["status"]["conditions"][0]["reason"] = json!(reason);
        });
    }

    pub(crate) fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.node_records.server_contact.record_contact(self.now);
        }
    }

    pub(crate) fn renew_lease(&mut self, name: &str) {
        self.version += 1;
        let renewal = Timestamp::from_second(1_700_000_000 + self.version as i64).unwrap();
        self.node_records.record_lease_renewal(name, Some(renewal), self.now);
    }

    /// Returns the nodes that the next pass reports.
    pub(crate) fn next_nodes_to_report(&self) -> NodesToReport {
        self.node_records.health_snapshot(self.now, None, PASS_PERIOD).nodes_to_report
    }

    /// Returns the plan of the next pass.
    pub(crate) fn next_plan(&self) -> Plan {
        health::decide(&self.node_records.health_snapshot(self.now, None, PASS_PERIOD))
    }

    /// Runs a pass, and returns the examined nodes with their actions.
    pub(crate) fn run_pass(&mut self) -> Vec<String> {
        let plan = self.next_plan();
        self.node_records.apply_health_plan(&plan, self.now);
        let line = |decision: &NodeDecision| {
            let action = decision.action.as_ref().map_or("nothing", |action| match action {
                Action::SetConditionsUnknown(_) => "lapse",
                Action::RemoveNoExecute => "relieve",
                Action::ReplaceNoExecute(_) => "swap",
                Action::WaitForTaint(_) => "wait",
            });
            format!("{} {action}", decision.node.metadata.name)
        };
        plan.node_decisions.iter().map(line).collect()
    }

    /// Returns for each zone the node that has waited longest for a taint.
    pub(crate) fn longest_waiting_nodes(&self) -> Vec<String> {
        let line = |zone: &ZoneWithWaitingNodes| {
            let ZoneWithWaitingNodes { zone_key, node, waiting_node_count, is_taint_unnecessary, .. } = zone;
            let over = if *is_taint_unnecessary { " over" } else { "" };
            format!("{} {} of {waiting_node_count}{over}", zone_key.replace('\0', ""), node.metadata.name)
        };
        self.node_records.zones_with_waiting_nodes(self.now).iter().map(line).collect()
    }
}
