//! How much evidence is enough, and for how long it counts: no I/O, no clock.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::clock::Instant;

/// How far back sightings count at least.
const WINDOW: Duration = Duration::from_mins(10);

/// What shows that a second writer is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Writes of the loop's kind that this process has not made.
    Writes,
    /// Events of the loop that this process has not sent.
    Events,
    /// The arguments of a Pod of kube-controller-manager.
    Arguments,
    /// A live Lease of kube-controller-manager, whose loops are not known.
    Lease,
}

impl Evidence {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Writes, Self::Events, Self::Arguments, Self::Lease];

    /// The value of the label `evidence`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Events => "events",
            Self::Arguments => "arguments",
            Self::Lease => "lease",
        }
    }

    /// Whether it shows that the loop runs elsewhere, and not only that it may.
    pub fn is_proof(self) -> bool {
        self != Self::Lease
    }

    /// What was seen, as a clause.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Writes => "objects were written under its field manager and not by this leader",
            Self::Events => "Events of its component were recorded and not by this leader",
            Self::Arguments => "the arguments of a Pod of kube-controller-manager include it",
            Self::Lease => "the Lease of kube-controller-manager is renewed, and its loops are not known",
        }
    }

    /// How many sightings within the window are enough.
    ///
    /// One write may be misread: an object from which a user has removed something shows the write before that.
    fn enough(self) -> usize {
        match self {
            Self::Writes => 3,
            Self::Events | Self::Arguments | Self::Lease => 1,
        }
    }
}

/// What was seen of each loop, and when.
pub(super) struct Evidences {
    sightings: BTreeMap<(usize, Evidence), VecDeque<Instant>>,
    /// How far back they count.
    window: Duration,
}

impl Evidences {
    /// Nothing was seen. What is asked for once in a period counts until it is asked for again.
    pub(super) fn new(period: Duration) -> Self {
        Self { sightings: BTreeMap::new(), window: WINDOW.max(period.saturating_mul(2)) }
    }

    /// Notes a sighting. The latest ones are kept.
    pub(super) fn note(&mut self, loop_index: usize, evidence: Evidence, now: Instant) {
        let sightings = self.sightings.entry((loop_index, evidence)).or_default();
        if sightings.len() == evidence.enough() {
            sightings.pop_front();
        }
        sightings.push_back(now);
    }

    /// Whether there are enough sightings within the window.
    pub(super) fn is_present(&self, loop_index: usize, evidence: Evidence, now: Instant) -> bool {
        let sightings = self.sightings.get(&(loop_index, evidence)).into_iter().flatten();
        let recent = sightings.filter(|at| now.saturating_duration_since(**at) < self.window);
        recent.count() >= evidence.enough()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    /// COMMON-75.
    #[tokio::test(start_paused = true)]
    async fn three_writes_within_ten_minutes_are_enough_and_count_for_ten_minutes() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let mut evidences = Evidences::new(WINDOW / 2);
        for _ in 0..2 {
            evidences.note(1, Evidence::Writes, clock.instant());
            clock.sleep(Duration::from_mins(4)).await;
        }
        assert!(!evidences.is_present(1, Evidence::Writes, clock.instant()));
        evidences.note(1, Evidence::Writes, clock.instant());
        assert!(evidences.is_present(1, Evidence::Writes, clock.instant()));
        assert!(!evidences.is_present(0, Evidence::Writes, clock.instant()), "another loop");
        clock.sleep(Duration::from_mins(3)).await;
        assert!(!evidences.is_present(1, Evidence::Writes, clock.instant()), "the first of them is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn one_argument_is_enough() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let mut evidences = Evidences::new(WINDOW / 2);
        evidences.note(0, Evidence::Arguments, clock.instant());
        assert!(evidences.is_present(0, Evidence::Arguments, clock.instant()));
        assert!(!evidences.is_present(0, Evidence::Events, clock.instant()));
    }
}
