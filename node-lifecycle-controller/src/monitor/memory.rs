//! The memory that the three loops of the node monitor share.

use std::{sync::Arc, time::Duration};

use common::{
    api, duration,
    events::{EventType, InvolvedObject},
    informer::AnyInformer,
    meta::Uid,
    object::Resource,
    runtime::LoopContext,
};
use parking_lot::Mutex;

use super::{
    metrics::MonitorMetrics,
    node_pass::snapshot::NodesToReport,
    notes::{MonitorNote, MonitorQuery},
    outage::MonitorOutage,
    taints_and_labels::snapshot::NodeChangeFailure,
};
use crate::{
    caches::Caches,
    heartbeats::Heartbeats,
    node_records::NodeRecords,
    objects::{NODE_LEASE_NAMESPACE, NODES},
};

const NAMESPACES: Resource = Resource::cluster_scoped("", "v1", "namespaces", "Namespace");

/// The records, caches and metrics that the three loops of the node monitor share.
pub(crate) struct NodeMonitor {
    pub(crate) context: LoopContext,
    pub(crate) node_records: Arc<Mutex<NodeRecords>>,
    pub(crate) metrics: Arc<MonitorMetrics>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) outage: Arc<MonitorOutage>,
}

impl NodeMonitor {
    pub(crate) fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![
            self.caches.node_informer.informer(),
            self.heartbeats.lease_informer.informer(),
            self.caches.pod_informer.informer(),
        ]
    }

    /// Returns the reason why passes make no decisions about nodes; `None` if they make decisions.
    pub(super) fn outage_reason(&self) -> Option<String> {
        let blind = self
            .outage
            .outage_duration()
            .map(|time| format!("blind for {}", duration::format(Duration::from_secs(time.as_secs()))));
        match (self.heartbeats.contact_problem(), blind) {
            (Some(trouble), Some(blind)) => Some(format!("{blind}: {trouble}")),
            (trouble, blind) => trouble.or(blind),
        }
    }

    pub(super) fn apply_note(&self, note: MonitorNote) {
        let now = || self.context.clock.monotonic_now();
        match note {
            MonitorNote::ReportNodes(NodesToReport {
                added_nodes: arrived,
                removed_nodes: departed,
                nodes_set_unknown: lapsed,
            }) => {
                for (name, uid) in arrived {
                    let message = format!("Node {name} event: Registered Node {name} in Controller");
                    self.report_event(&name, uid, "RegisteredNode", message);
                }
                for (name, uid) in departed {
                    let message = format!("Node {name} event: Removing Node {name} from Controller");
                    self.report_event(&name, uid, "RemovingNode", message);
                }
                for (name, uid) in lapsed {
                    self.record_not_ready(&name, uid);
                }
            }
            MonitorNote::BecameNotReady(name, uid) => self.record_not_ready(&name, uid),
            MonitorNote::ManyNodesTainted(alarm) => {
                tracing::warn!(
                    logger = "node-controller",
                    alarm,
                    "A large share of nodes has a NoExecute taint or waits for one"
                );
                let leases = InvolvedObject::without_version(NAMESPACES, "", NODE_LEASE_NAMESPACE, Uid::default());
                self.context.recorder.record_event(&leases, EventType::Warning, "ManyNodesTainted", alarm);
            }
            MonitorNote::LeaseReadSucceeded => self.node_records.lock().server_contact.record_contact(now()),
            MonitorNote::LeaseReadFailed(error) => {
                tracing::warn!(logger = "node-controller", err = %error, "Cannot read Leases");
            }
            MonitorNote::NodeStateReceived(node) => self.heartbeats.record_read_node(&node),
            MonitorNote::LeaseRenewed(name, renewal) => self.heartbeats.record_read_lease(&name, Some(renewal)),
            MonitorNote::ConditionWriteFailed(name, is_unanswered) => {
                self.node_records.lock().restart_grace_period(&name, is_unanswered, now());
            }
            MonitorNote::ConditionWriteDenied(name) => {
                self.node_records.lock().record_denied_condition_write(&name, now());
            }
            MonitorNote::NodeChangeAttempted(name, what, error) => {
                if let Some(error) = &error {
                    tracing::error!(logger = "node-controller", node = &*name, err = %error, "Failed to update node");
                }
                self.record_write_result(&name, what, error.as_ref());
            }
            MonitorNote::ActionDuration(duration) => self.metrics.node_update_duration.observe(duration.as_secs_f64()),
            MonitorNote::NodeTainted(name, zone, cause) => {
                self.record_write_result(&name, "", None);
                tracing::info!(
                    logger = "node-controller",
                    node = &*name,
                    taint = cause.taint_key(),
                    "Added taint to node"
                );
                self.metrics.count_tainted_node(&zone);
            }
            MonitorNote::TaintWriteFailed(name, error) => {
                self.record_write_result(&name, "add the NoExecute taint", Some(&error));
                tracing::error!(logger = "node-controller", node = &*name, err = %error, "Failed to taint node");
                self.node_records.lock().move_to_end_of_taint_queue(&name, now());
            }
            MonitorNote::TaintUnnecessary(name) => {
                self.record_write_result(&name, "", None);
                self.node_records.lock().stop_waiting_for_taint(&name);
            }
            // The controller of the passes handles this message itself, and records the duration of the pass.
            MonitorNote::PassFinished => {}
        }
    }

    pub(super) fn answer_query(&self, question: MonitorQuery) -> bool {
        let now = self.context.clock.monotonic_now();
        let fleet = self.node_records.lock();
        match question {
            MonitorQuery::HasExceededGracePeriod(name) => fleet.has_exceeded_grace_period(&name, now),
            MonitorQuery::MayBeTainted(name) => fleet.may_be_tainted(&name, now),
            MonitorQuery::IsNewLeaseRenewal(name, renewal) => fleet.is_new_lease_renewal(&name, renewal),
        }
    }

    /// Records that the condition `Ready` of a node is no longer `True`, and creates an Event.
    fn record_not_ready(&self, name: &str, uid: Uid) {
        self.node_records.lock().record_successful_condition_write(name);
        self.report_event(name, uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
    }

    fn report_event(&self, name: &str, uid: Uid, reason: &'static str, message: String) {
        let node = InvolvedObject::without_version(NODES, "", name, uid);
        self.context.recorder.record_event(&node, EventType::Normal, reason, message);
    }

    /// Counts a failed change of a node, and stores it for explanations until a change succeeds.
    fn record_write_result(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = error.map(|error| {
            self.metrics.count_failed_write(error);
            NodeChangeFailure { error: format!("{what}: {error}"), failed_at: self.context.clock.now() }
        });
        self.node_records.lock().record_node_change_result(name, failure);
    }
}
