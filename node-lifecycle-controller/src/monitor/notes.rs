//! What sequences note in the memory of the monitor, and what they ask it.

use common::{
    api,
    events::{EventType, ObjectRef},
    meta::Uid,
    object::Resource,
};

use crate::{
    decide::upkeep::Failure,
    objects::{LEASE_NAMESPACE, NODES},
    sequence::monitor::{Note, Question},
};

use super::Monitor;

const NAMESPACES: Resource =
    Resource { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

impl Monitor {
    pub(super) fn note(&self, note: Note) {
        let now = || self.context.clock.instant();
        match note {
            Note::Arrived(name, uid) => {
                self.report(
                    &name,
                    uid,
                    "RegisteredNode",
                    format!("Node {name} event: Registered Node {name} in Controller"),
                );
            }
            Note::Departed(name, uid) => {
                self.report(
                    &name,
                    uid,
                    "RemovingNode",
                    format!("Node {name} event: Removing Node {name} from Controller"),
                );
            }
            Note::NotReady(name, uid) => {
                self.fleet.lock().was_lapsed(&name);
                self.report(&name, uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
            }
            Note::Alarm(alarm) => {
                tracing::warn!(logger = "node-controller", alarm, "A large share of nodes is tainted");
                let leases = ObjectRef::bare(NAMESPACES, "", LEASE_NAMESPACE, Uid::default());
                self.context.recorder.event(&leases, EventType::Warning, "ManyNodesTainted", alarm);
            }
            Note::Answered => self.fleet.lock().sight.note(now()),
            Note::Unanswered(error) => {
                tracing::warn!(logger = "node-controller", err = %error, "Leases cannot be read");
            }
            Note::Seen(node) => self.heartbeats.node_was_read(&node),
            Note::Renewed(name, renewal) => {
                let mut fleet = self.fleet.lock();
                fleet.renewed(&name, renewal, now());
                fleet.touch(&name);
            }
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
            // The round itself is told.
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

    fn report(&self, name: &str, uid: Uid, reason: &'static str, message: String) {
        let node = ObjectRef::bare(NODES, "", name, uid);
        self.context.recorder.event(&node, EventType::Normal, reason, message);
    }

    /// Counts a change of a node that failed, and keeps it for explanations until a change succeeds.
    fn note_write(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = error.map(|error| {
            self.metrics.write_failed(error);
            Failure { error: format!("{what}: {error}"), at: self.context.clock.now() }
        });
        self.fleet.lock().note_write(name, failure);
    }
}
