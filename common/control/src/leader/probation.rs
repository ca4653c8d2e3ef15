//! Versions of leaders, recorded in annotations of the Lease. No I/O, no clock.
//!
//! ```text
//!                 asks, and gets the Lease                leads for the time of its probation
//!   new version ───────────────────────────► on probation ──────────────────────────────────► proven
//!                                                 │                                              ▲
//!                                                 │ crashes, or loses the Lease                  │ leads long enough
//!                                                 ▼                                              │ without other candidates
//!                                              failed ───────────────────────────────────────────┘
//! ```
//! Only candidates with a [`ProbationSettings`] read or write these annotations. The annotations describe one term: a holder,
//! and the count of transitions at its start. A holder that does not know the annotations leaves them in place. The count of
//! transitions then differs from the count in the annotations, and shows that the annotations are outdated.

mod annotations;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use annotations::*;
use serde::{Deserialize, Serialize};

use super::lease::LeaseRecord;

/// How long other candidates leave a reserved Lease to the standby that has asked for it.
pub const LEASE_RESERVATION_TIME: Duration = Duration::from_secs(5);
/// How many lease durations a candidate of a failed version waits before it takes an available Lease.
const FAILED_VERSION_LEASE_DURATIONS: u32 = 2;
/// The most versions that an annotation lists.
const MAX_LISTED_VERSIONS: usize = 8;

/// The version of a candidate, and the length of a probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbationSettings {
    /// Version of the program with its commit. Contains neither commas nor white space.
    pub version: String,
    /// How long a new version has to lead until it is proven.
    pub probation_time: Duration,
}

/// A standby that asks for the Lease, or for which a released Lease is reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestingStandby {
    /// Holder identity of the standby.
    pub identity: String,
    /// Version of the standby, in the form of [`ProbationSettings::version`].
    pub version: String,
}

/// The version of one leader, and the proven versions of its predecessors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderTerm {
    /// Version of the leader, in the form of [`ProbationSettings::version`].
    pub version: String,
    /// Proven versions that led before, the latest first.
    pub proven_predecessor_versions: Vec<String>,
    /// Whether the leader still has to prove its version.
    pub is_on_probation: bool,
}

/// The decoded annotations of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseAnnotations {
    /// The term of the holder; for a released Lease, of its last holder. `None` if that holder recorded no version.
    pub term: Option<LeaderTerm>,
    /// Versions that failed, the latest first.
    pub failed_versions: Vec<String>,
    /// The standby that asks for the Lease; `None` if no standby asks.
    pub requesting_standby: Option<RequestingStandby>,
    /// The standby that is to take the released Lease; `None` if all candidates may take it.
    pub reserved_standby: Option<RequestingStandby>,
}

impl LeaseAnnotations {
    /// Returns the relation of a version to a Lease that this process does not hold.
    pub fn version_standing(&self, version: &str) -> VersionStanding {
        let has_failed = self.failed_versions.iter().any(|failed| failed == version);
        match &self.term {
            _ if has_failed => VersionStanding::FailedProbation,
            None => VersionStanding::VersionsIgnored,
            Some(term) if term.version == version && term.is_on_probation => VersionStanding::OnProbation,
            Some(term) if term.version == version || term.has_predecessor(version) => VersionStanding::Proven,
            Some(term) => VersionStanding::NotLedYet {
                leader_version: term.version.clone(),
                is_leader_on_probation: term.is_on_probation,
            },
        }
    }

    /// Returns the standby that has asked for the Lease and may have it; `None` if no such standby has asked.
    pub fn permitted_standby(&self) -> Option<&RequestingStandby> {
        self.requesting_standby.as_ref().filter(|standby| self.version_standing(&standby.version).may_ask_for_lease())
    }

    /// Returns how long a candidate leaves an available Lease to other candidates.
    ///
    /// A candidate of a version that failed, or that has just crashed on probation, waits for other candidates, and
    /// takes the Lease if no other candidate does.
    pub fn take_over_delay(
        &self,
        identity: &str,
        version: &str,
        record: &LeaseRecord,
        lease_duration: Duration,
    ) -> Duration {
        let released = record.holder_identity.is_empty();
        let is_reserved =
            released && self.reserved_standby.as_ref().is_some_and(|standby| standby.identity != identity);
        let has_died = !released && self.version_failed_by_take_over(record) == Some(version);
        let reservation = if is_reserved { LEASE_RESERVATION_TIME } else { Duration::ZERO };
        let unproven = has_died || self.version_standing(version) == VersionStanding::FailedProbation;
        reservation.max(if unproven { lease_duration * FAILED_VERSION_LEASE_DURATIONS } else { Duration::ZERO })
    }

    /// Returns the version that fails if a candidate of another version takes the Lease in the state `record`.
    ///
    /// A leader on probation that released the Lease was stopped, which says nothing about its version.
    fn version_failed_by_take_over(&self, record: &LeaseRecord) -> Option<&str> {
        if record.holder_identity.is_empty() {
            return self.reserved_standby.as_ref().map(|standby| &*standby.version);
        }
        self.term.as_ref().filter(|term| term.is_on_probation).map(|term| &*term.version)
    }

    /// Returns the term that begins when a candidate of `version` takes the Lease in the state `record`.
    pub fn next_term(&self, version: &str, record: &LeaseRecord) -> NewTerm {
        let newly_failed_version =
            self.version_failed_by_take_over(record).filter(|failed| *failed != version).map(str::to_owned);
        let failed: Vec<_> = newly_failed_version
            .iter()
            .chain(self.failed_versions.iter().filter(|v| Some(*v) != newly_failed_version.as_ref()))
            .cloned()
            .collect();
        let is_failed = |version: &str| failed.iter().any(|failed| failed == version);
        let (before, follows): (Vec<&String>, bool) = match &self.term {
            None => (Vec::new(), true),
            Some(last) if last.version == version => {
                (last.proven_predecessor_versions.iter().collect(), !last.is_on_probation)
            }
            Some(last) => {
                let proven = (!last.is_on_probation).then_some(&last.version);
                (proven.into_iter().chain(&last.proven_predecessor_versions).collect(), last.has_predecessor(version))
            }
        };
        let proven_predecessor_versions =
            before.into_iter().filter(|v| *v != version && !is_failed(v)).take(MAX_LISTED_VERSIONS).cloned().collect();
        let is_on_probation = !follows || is_failed(version);
        let term = LeaderTerm { version: version.to_owned(), proven_predecessor_versions, is_on_probation };
        NewTerm { term, failed_versions: failed.into_iter().take(MAX_LISTED_VERSIONS).collect(), newly_failed_version }
    }
}

impl LeaderTerm {
    fn has_predecessor(&self, version: &str) -> bool {
        self.proven_predecessor_versions.iter().any(|before| before == version)
    }
}

/// The relation between a version and the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionStanding {
    /// The last holder recorded no version, so versions do not matter.
    VersionsIgnored,
    /// The proven version of the leader, or a proven version that led before. Its candidates may take over at any time.
    Proven,
    /// The leader's version, which is not proven yet.
    OnProbation,
    /// The version crashed or lost the Lease on probation, or did not take a Lease that was reserved for it.
    FailedProbation,
    /// The version has not led yet.
    NotLedYet {
        /// Version of the process that leads, as the Lease records it.
        leader_version: String,
        /// Whether the leader still has to prove its version.
        is_leader_on_probation: bool,
    },
}

impl VersionStanding {
    /// Whether a standby of this version may ask for the Lease. No standby asks a leader on probation.
    pub fn may_ask_for_lease(&self) -> bool {
        matches!(self, Self::NotLedYet { is_leader_on_probation: false, .. })
    }
}

/// The content of a new leader's annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTerm {
    /// The term of the new leader.
    pub term: LeaderTerm,
    /// Versions that failed, the latest first.
    pub failed_versions: Vec<String>,
    /// The version that failed in the term before; `None` if the version of that term did not fail.
    pub newly_failed_version: Option<String>,
}
