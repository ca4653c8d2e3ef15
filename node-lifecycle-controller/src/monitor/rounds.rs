//! The rounds of the node monitor: passes over nodes that changed or are due, and the tainting of nodes that wait.

use std::{fmt, sync::Arc, time::Duration};

use common::{
    clock::Instant,
    controller::{Explain, Observed, Sequenced},
    duration,
    events::ObjectRef,
    informer::AnyInformer,
    meta::Uid,
    queue::{Priority, QueueKey},
    sequence::{Failed, Sequence},
};
use jiff::Timestamp;

use crate::{
    decide::{
        health,
        tainting::{self, Share},
    },
    sequence::{
        self,
        monitor::{Note, Question},
    },
};

use super::{Monitor, blindness::Change};

/// The rounds, as keys of their queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Round {
    /// A pass over nodes.
    Health,
    /// The tainting of nodes that wait.
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

/// Everything a round may look at.
pub(crate) enum Snapshot {
    /// Of a pass.
    Health(Box<health::Snapshot>),
    /// Of tainting.
    Tainting(tainting::Snapshot),
}

/// What a round does.
pub(crate) enum Plan {
    /// Of a pass.
    Health(Box<health::Plan>),
    /// Of tainting.
    Tainting(tainting::Plan),
}

impl Plan {
    fn inner(&self) -> &dyn Explain {
        match self {
            Self::Health(plan) => &**plan,
            Self::Tainting(plan) => plan,
        }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        self.inner().situation()
    }

    fn waiting(&self) -> Vec<String> {
        self.inner().waiting()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.inner().requeue_after()
    }

    fn is_notable(&self) -> bool {
        self.inner().is_notable()
    }
}

/// The rounds.
pub(crate) struct Rounds(pub(crate) Arc<Monitor>);

impl Sequenced for Rounds {
    type Key = Round;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, round: &Round, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let snapshot = match round {
            Round::Health => Snapshot::Health(Box::new(self.0.observe_health())),
            Round::Tainting => Snapshot::Tainting(self.0.observe_tainting()),
        };
        Ok(Observed::Ready(snapshot))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        match snapshot {
            Snapshot::Health(snapshot) => Plan::Health(Box::new(health::decide(snapshot))),
            Snapshot::Tainting(snapshot) => Plan::Tainting(tainting::decide(snapshot)),
        }
    }

    fn sequence<'a>(_: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::rounds::sequence(plan)
    }

    fn object(_: &Snapshot) -> (ObjectRef, Uid) {
        (ObjectRef::default(), Uid::default())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        match (note, snapshot) {
            (Note::Passed, Snapshot::Health(snapshot)) => {
                let took = self.0.context.clock.instant().saturating_duration_since(snapshot.now);
                self.0.metrics.pass_duration.observe(took.as_secs_f64());
            }
            (note, _) => self.0.note(note),
        }
    }

    fn fresh(&self, _: &Snapshot, question: Question) -> Option<bool> {
        Some(self.0.answer(question))
    }

    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        match (snapshot, plan) {
            (Snapshot::Health(snapshot), Plan::Health(plan)) => self.0.record_health(snapshot, plan),
            (Snapshot::Tainting(snapshot), Plan::Tainting(plan)) => self.0.record_tainting(snapshot, plan),
            _ => {}
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}

impl Monitor {
    fn observe_health(&self) -> health::Snapshot {
        let (now, trouble) = (self.context.clock.instant(), self.heartbeats.trouble());
        let fleet = self.fleet.lock();
        let due = fleet.due(now);
        health::Snapshot {
            now,
            sight: fleet.sight,
            trouble,
            grace_from: due.grace_from,
            grace: self.heartbeats.grace,
            examined: due.examined,
            zones: due.zones,
            was_total: due.was_total,
            limits: self.heartbeats.limits,
            arrived: due.arrived,
            departed: due.departed,
            lapsed: due.lapsed,
            period: self.heartbeats.period,
        }
    }

    /// What keeps nodes from being judged, if anything does.
    pub(super) fn troubles(&self) -> Option<String> {
        let blind = self
            .blindness
            .duration()
            .map(|time| format!("blind since {} ago", duration::format(Duration::from_secs(time.as_secs()))));
        match (self.heartbeats.trouble(), blind) {
            (Some(trouble), Some(blind)) => Some(format!("{blind}: {trouble}")),
            (trouble, blind) => trouble.or(blind),
        }
    }

    fn record_health(&self, snapshot: &health::Snapshot, plan: &health::Plan) {
        let unseen_for = self.fleet.lock().sight.blind_for(snapshot.now);
        self.heartbeats.note_trouble(snapshot.trouble.is_some());
        let mut fleet = self.fleet.lock();
        fleet.passed(plan, snapshot.now);
        self.metrics.zones(&fleet.standings(), &fleet.take_vanished());
        self.metrics.examined.inc_by(plan.judged.len() as u64);
        let waiting = fleet.waiting();
        if waiting > 0 {
            self.rounds.add(Round::Tainting, Priority::Normal);
        } else {
            self.metrics.held.set(0.0);
        }
        let share = Share { count: fleet.tainted() + fleet.expected(), nodes: fleet.len() };
        self.metrics.tainted_share.set(share.value());
        if !share.is_alarming(self.brake.alarm) {
            *self.is_alarmed.lock() = false;
        }
        drop(fleet);
        self.note_blindness(plan.blind.as_deref(), unseen_for, snapshot.now);
    }

    /// Counts and logs that the process became blind, or sees again.
    fn note_blindness(&self, blind: Option<&str>, unseen_for: Option<Duration>, now: Instant) {
        match self.blindness.note(blind.is_some(), unseen_for, now) {
            Some(Change::Began) => {
                self.metrics.blind_times.inc();
                let why = blind.unwrap_or_default();
                tracing::warn!(
                    logger = "node-controller",
                    why,
                    "Nodes are not judged, because what they do is not seen"
                );
            }
            Some(Change::Ended) => {
                tracing::info!(logger = "node-controller", "What nodes do is seen again, grace periods begin anew");
            }
            None => {}
        }
    }

    fn observe_tainting(&self) -> tainting::Snapshot {
        let now = self.context.clock.instant();
        let trouble = self.heartbeats.trouble();
        let fleet = self.fleet.lock();
        tainting::Snapshot {
            now,
            sees: trouble.is_none() && fleet.sight.is_fresh(now),
            zones: fleet.heads(now),
            nodes: fleet.len(),
            tainted: fleet.tainted(),
            brake: self.brake,
            is_alarmed: *self.is_alarmed.lock(),
            period: self.heartbeats.period,
        }
    }

    fn record_tainting(&self, snapshot: &tainting::Snapshot, plan: &tainting::Plan) {
        let mut fleet = self.fleet.lock();
        for chosen in &plan.chosen {
            fleet.spend(&chosen.zone, snapshot.now);
        }
        for (_, name) in &plan.over {
            fleet.release(name);
        }
        let mut is_alarmed = self.is_alarmed.lock();
        *is_alarmed = plan.alarm.is_some() || (*is_alarmed && plan.is_alarmed);
        let share = Share { count: snapshot.tainted + plan.expected, nodes: snapshot.nodes };
        self.metrics.tainted_share.set(share.value());
        self.metrics.held.set(plan.held as f64);
    }
}
