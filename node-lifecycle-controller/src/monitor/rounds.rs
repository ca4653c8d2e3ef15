//! The rounds of the node monitor: passes over nodes that changed or are due, and the tainting of waiting nodes.

mod act;
pub(crate) mod decide;
mod observe;
pub(crate) mod plan;
pub(crate) mod snapshot;

use std::{fmt, sync::Arc, time::Duration};

use common::{
    clock::Instant,
    controller::{Controller, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::Uid,
    queue::{Priority, Queue, QueueKey},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    blindness::Change,
    memory::Monitor,
    notes::{Note, Question},
};

use plan::{Plan, health, tainting};
use snapshot::{BrakeLimits, HealthSnapshot, Share, Snapshot, TaintingSnapshot};

/// The kinds of rounds. Each kind is one key in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Round {
    /// A pass over the nodes that changed or are due.
    Health,
    /// The tainting of nodes that wait for a `NoExecute` taint.
    Tainting,
}

impl Round {
    pub(super) const ALL: [Self; 2] = [Self::Health, Self::Tainting];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Tainting => "tainting",
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl QueueKey for Round {
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|round| round.as_str() == text)
    }

    fn tenant(&self) -> &'static str {
        ""
    }
}

/// The loop that runs passes over nodes and taints waiting nodes.
pub(crate) struct Rounds {
    pub(super) monitor: Arc<Monitor>,
    pub(super) queue: Queue<Round>,
    pub(super) brake: BrakeLimits,
    /// True from the alarm about tainted nodes until their share no longer exceeds the flag `--node-taint-alarm-share`.
    pub(super) is_alarmed: Mutex<bool>,
}

impl Controller for Rounds {
    type Key = Round;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, round: &Round, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        Ok(Observed::Ready(self.observe(*round)))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(plan, io).await
    }

    fn object(_: &Snapshot) -> (ObjectRef, Uid) {
        (ObjectRef::default(), Uid::default())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        match (note, snapshot) {
            (Note::Passed, Snapshot::Health(snapshot)) => {
                let took = self.monitor.context.clock.instant().saturating_duration_since(snapshot.now);
                self.monitor.metrics.pass_duration.observe(took.as_secs_f64());
            }
            (note, _) => self.monitor.note(note),
        }
    }

    fn observe_again(&self, _: &Snapshot, question: Question) -> Option<bool> {
        Some(self.monitor.answer(question))
    }

    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        match (snapshot, plan) {
            (Snapshot::Health(snapshot), Plan::Health(plan)) => self.record_health(snapshot, plan),
            (Snapshot::Tainting(snapshot), Plan::Tainting(plan)) => self.record_tainting(snapshot, plan),
            _ => {}
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.monitor.informers()
    }
}

impl Rounds {
    fn record_health(&self, snapshot: &HealthSnapshot, plan: &health::Plan) {
        let unseen_for = self.monitor.fleet.lock().sight.blind_for(snapshot.now);
        self.monitor.heartbeats.note_trouble(snapshot.trouble.is_some());
        let mut fleet = self.monitor.fleet.lock();
        fleet.passed(plan, snapshot.now);
        self.monitor.metrics.zones(&fleet.zones.standings(), &fleet.zones.take_vanished());
        self.monitor.metrics.examined.inc_by(plan.judged.len() as u64);
        let waiting = fleet.zones.waiting();
        if waiting > 0 {
            self.queue.add(Round::Tainting, Priority::Normal);
        } else {
            self.monitor.metrics.held.set(0.0);
        }
        let share = Share { count: fleet.tainted() + fleet.zones.expected(), nodes: fleet.len() };
        self.monitor.metrics.tainted_share.set(share.value());
        if !share.is_alarming(self.brake.alarm) {
            *self.is_alarmed.lock() = false;
        }
        drop(fleet);
        self.note_blindness(plan.blind.as_deref(), unseen_for, snapshot.now);
    }

    /// Counts and logs the loss of this process's live view of nodes, and logs its return.
    fn note_blindness(&self, blind: Option<&str>, unseen_for: Option<Duration>, now: Instant) {
        match self.monitor.blindness.note(blind.is_some(), unseen_for, now) {
            Some(Change::Began) => {
                self.monitor.metrics.blind_times.inc();
                let why = blind.unwrap_or_default();
                tracing::warn!(
                    logger = "node-controller",
                    why,
                    "Nodes are not judged, because there is no live view of them"
                );
            }
            Some(Change::Ended) => {
                tracing::info!(logger = "node-controller", "Nodes are judged again, and all grace periods restart");
            }
            None => {}
        }
    }

    fn record_tainting(&self, snapshot: &TaintingSnapshot, plan: &tainting::Plan) {
        let mut fleet = self.monitor.fleet.lock();
        for chosen in &plan.chosen {
            fleet.zones.spend(&chosen.zone, snapshot.now);
        }
        for name in &plan.over {
            fleet.release(name);
        }
        let mut is_alarmed = self.is_alarmed.lock();
        *is_alarmed = plan.alarm.is_some() || (*is_alarmed && plan.is_alarmed);
        let share = Share { count: snapshot.tainted + plan.expected, nodes: snapshot.nodes };
        self.monitor.metrics.tainted_share.set(share.value());
        self.monitor.metrics.held.set(plan.held as f64);
    }
}
