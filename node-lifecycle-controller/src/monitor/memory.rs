//! The memory that the three loops of the node monitor share.

use std::{sync::Arc, time::Duration};

use common::{
    api, duration,
    events::{EventType, ObjectRef},
    informer::AnyInformer,
    meta::Uid,
    object::Resource,
    runtime::Context,
};
use parking_lot::Mutex;

use super::{
    blindness::Blindness,
    metrics::MonitorMetrics,
    notes::{Note, Question},
    rounds::snapshot::Reports,
    upkeep::snapshot::Failure,
};
use crate::{
    caches::Caches,
    fleet::Fleet,
    heartbeats::Heartbeats,
    objects::{LEASE_NAMESPACE, NODES},
};

const NAMESPACES: Resource =
    Resource { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

/// State and clients shared by the three loops.
pub(crate) struct Monitor {
    pub(crate) context: Context,
    pub(crate) fleet: Arc<Mutex<Fleet>>,
    pub(crate) metrics: Arc<MonitorMetrics>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) blindness: Arc<Blindness>,
}

impl Monitor {
    pub(crate) fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.heartbeats.leases.informer(), self.caches.pods.informer()]
    }

    /// Returns the reason why no node is judged; `None` if nodes are judged.
    pub(super) fn troubles(&self) -> Option<String> {
        let blind = self
            .blindness
            .duration()
            .map(|time| format!("blind for {}", duration::format(Duration::from_secs(time.as_secs()))));
        match (self.heartbeats.trouble(), blind) {
            (Some(trouble), Some(blind)) => Some(format!("{blind}: {trouble}")),
            (trouble, blind) => trouble.or(blind),
        }
    }

    pub(super) fn note(&self, note: Note) {
        let now = || self.context.clock.instant();
        match note {
            Note::Reports(Reports { arrived, departed, lapsed }) => {
                for (name, uid) in arrived {
                    let message = format!("Node {name} event: Registered Node {name} in Controller");
                    self.report(&name, uid, "RegisteredNode", message);
                }
                for (name, uid) in departed {
                    let message = format!("Node {name} event: Removing Node {name} from Controller");
                    self.report(&name, uid, "RemovingNode", message);
                }
                for (name, uid) in lapsed {
                    self.not_ready(&name, uid);
                }
            }
            Note::NotReady(name, uid) => self.not_ready(&name, uid),
            Note::Alarm(alarm) => {
                tracing::warn!(
                    logger = "node-controller",
                    alarm,
                    "A large share of nodes has a NoExecute taint or waits for one"
                );
                let leases = ObjectRef::bare(NAMESPACES, "", LEASE_NAMESPACE, Uid::default());
                self.context.recorder.event(&leases, EventType::Warning, "ManyNodesTainted", alarm);
            }
            Note::Answered => self.fleet.lock().sight.note(now()),
            Note::Unanswered(error) => {
                tracing::warn!(logger = "node-controller", err = %error, "Cannot read Leases");
            }
            Note::Seen(node) => self.heartbeats.node_was_read(&node),
            Note::Renewed(name, renewal) => self.heartbeats.lease_was_read(&name, Some(renewal)),
            Note::Spared(name, is_unanswered) => self.fleet.lock().spare(&name, is_unanswered, now()),
            Note::Denied(name) => self.fleet.lock().deny(&name, now()),
            Note::Changed(name, what, error) => {
                if let Some(error) = &error {
                    tracing::error!(logger = "node-controller", node = &*name, err = %error, "Failed to update node");
                }
                self.note_write(&name, what, error.as_ref());
            }
            Note::Took(duration) => self.metrics.node_duration.observe(duration.as_secs_f64()),
            Note::Tainted(name, zone, cause) => {
                self.note_write(&name, "", None);
                tracing::info!(logger = "node-controller", node = &*name, taint = cause.key(), "Added taint to node");
                self.metrics.evicted(&zone);
            }
            Note::NotTainted(name, error) => {
                self.note_write(&name, "add the NoExecute taint", Some(&error));
                tracing::error!(logger = "node-controller", node = &*name, err = %error, "Failed to taint node");
                self.fleet.lock().postpone(&name, now());
            }
            Note::Released(name) => {
                self.note_write(&name, "", None);
                self.fleet.lock().release(&name);
            }
            // `Rounds` handles this note of a pass itself, and records the duration of the pass.
            Note::Passed => {}
        }
    }

    pub(super) fn answer(&self, question: Question) -> bool {
        let now = self.context.clock.instant();
        let fleet = self.fleet.lock();
        match question {
            Question::IsSilent(name) => fleet.is_silent(&name, now),
            Question::MayBeTainted(name) => fleet.may_be_tainted(&name, now),
            Question::IsNews(name, renewal) => fleet.is_news(&name, renewal),
        }
    }

    /// Records that the condition `Ready` of a node is no longer `True`, and creates an Event.
    fn not_ready(&self, name: &str, uid: Uid) {
        self.fleet.lock().was_lapsed(name);
        self.report(name, uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
    }

    fn report(&self, name: &str, uid: Uid, reason: &'static str, message: String) {
        let node = ObjectRef::bare(NODES, "", name, uid);
        self.context.recorder.event(&node, EventType::Normal, reason, message);
    }

    /// Counts a failed change of a node, and stores it for explanations until a change succeeds.
    fn note_write(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = error.map(|error| {
            self.metrics.write_failed(error);
            Failure { error: format!("{what}: {error}"), at: self.context.clock.now() }
        });
        self.fleet.lock().note_write(name, failure);
    }
}
