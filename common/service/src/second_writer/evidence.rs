//! Decides how many signs of a second writer make evidence, and when the signs expire. Pure code: no I/O and no clock.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::clock::Instant;

/// Minimum time for which a sighting (one observed sign of a second writer) counts.
const MIN_SIGHTING_WINDOW: Duration = Duration::from_mins(10);

/// A kind of sign that a second writer runs a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Writes of a kind that only this loop makes, but that this process has not sent.
    Writes,
    /// Events with the component of the loop, not sent by this process.
    Events,
    /// A Pod of kube-controller-manager with arguments that switch the loop on.
    Arguments,
    /// A renewed Lease of kube-controller-manager, while no Pod shows which loops kube-controller-manager runs.
    Lease,
}

impl Evidence {
    /// Every kind of evidence, in the order of the reports.
    pub const ALL: [Self; 4] = [Self::Writes, Self::Events, Self::Arguments, Self::Lease];

    /// Returns the value of the label `evidence` of `nonet_second_writer`.
    pub fn metric_label(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Events => "events",
            Self::Arguments => "arguments",
            Self::Lease => "lease",
        }
    }

    /// Whether this evidence proves that the loop runs elsewhere. With [`Evidence::Lease`] alone, the loop may run elsewhere.
    pub fn is_proof(self) -> bool {
        self != Self::Lease
    }

    /// Returns a clause for the message of an Event, in which "its" refers to the loop.
    pub(super) fn event_clause(self) -> &'static str {
        match self {
            Self::Writes => "objects were written with its field manager, and not by this leader",
            Self::Events => "Events with its component were recorded, and not by this leader",
            Self::Arguments => "the arguments of a Pod of kube-controller-manager switch it on",
            Self::Lease => "the Lease of kube-controller-manager is renewed, and its loops are unknown",
        }
    }

    /// Returns how many sightings within the window are needed as evidence.
    ///
    /// A single write may be misread: after a user has removed a field from an object, the object shows an earlier write.
    fn required_sightings(self) -> usize {
        match self {
            Self::Writes => 3,
            Self::Events | Self::Arguments | Self::Lease => 1,
        }
    }
}

/// Times of the sightings, by the index of the loop and the kind of evidence.
pub(super) struct EvidenceRecord {
    sightings: BTreeMap<(usize, Evidence), VecDeque<Instant>>,
    /// How long a sighting counts; at least [`MIN_SIGHTING_WINDOW`].
    window: Duration,
}

impl EvidenceRecord {
    /// Returns a record without sightings. A sighting counts for at least two periods, so that the next search can confirm it.
    pub(super) fn new(period: Duration) -> Self {
        Self { sightings: BTreeMap::new(), window: MIN_SIGHTING_WINDOW.max(period.saturating_mul(2)) }
    }

    /// Records a sighting. Keeps only the latest sightings, as many as `required_sightings` demands.
    pub(super) fn record_sighting(&mut self, loop_index: usize, evidence: Evidence, now: Instant) {
        let sightings = self.sightings.entry((loop_index, evidence)).or_default();
        if sightings.len() == evidence.required_sightings() {
            sightings.pop_front();
        }
        sightings.push_back(now);
    }

    /// Whether there are enough sightings within the window.
    pub(super) fn is_present(&self, loop_index: usize, evidence: Evidence, now: Instant) -> bool {
        let sightings = self.sightings.get(&(loop_index, evidence)).into_iter().flatten();
        let recent = sightings.filter(|at| now.saturating_duration_since(**at) < self.window);
        recent.count() >= evidence.required_sightings()
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
        let mut evidences = EvidenceRecord::new(MIN_SIGHTING_WINDOW / 2);
        for _ in 0..2 {
            evidences.record_sighting(1, Evidence::Writes, clock.monotonic_now());
            clock.sleep(Duration::from_mins(4)).await;
        }
        assert!(!evidences.is_present(1, Evidence::Writes, clock.monotonic_now()));
        evidences.record_sighting(1, Evidence::Writes, clock.monotonic_now());
        assert!(evidences.is_present(1, Evidence::Writes, clock.monotonic_now()));
        assert!(!evidences.is_present(0, Evidence::Writes, clock.monotonic_now()), "another loop");
        clock.sleep(Duration::from_mins(3)).await;
        assert!(!evidences.is_present(1, Evidence::Writes, clock.monotonic_now()), "the first write is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn one_sighting_of_arguments_is_enough() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let mut evidences = EvidenceRecord::new(MIN_SIGHTING_WINDOW / 2);
        evidences.record_sighting(0, Evidence::Arguments, clock.monotonic_now());
        assert!(evidences.is_present(0, Evidence::Arguments, clock.monotonic_now()));
        assert!(!evidences.is_present(0, Evidence::Events, clock.monotonic_now()));
    }
}
