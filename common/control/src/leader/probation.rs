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

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::lease::{LeaseObject, LeaseRecord};
use crate::duration;

/// Annotation with the term that the other annotations describe: JSON with the holder and the count of transitions.
pub const TERM_ANNOTATION: &str = "nonet/term";
/// Annotation with the version of the leader.
pub const VERSION_ANNOTATION: &str = "nonet/version";
/// Annotation with the proven versions that led before, separated by commas, the latest first.
pub const PREDECESSORS_ANNOTATION: &str = "nonet/preceded-by";
/// Annotation with the time that the leader has to lead until its version is proven. Absent if the version is proven.
pub const PROBATION_ANNOTATION: &str = "nonet/probation";
/// Annotation with the versions that failed, the latest first: they crashed or lost the Lease on probation, or did not take a
/// Lease that was reserved for them.
pub const FAILED_VERSIONS_ANNOTATION: &str = "nonet/failed";
/// Annotation with the standby that asks for the Lease, as JSON.
pub const REQUESTING_STANDBY_ANNOTATION: &str = "nonet/asks";
/// Annotation with the standby that is to take the released Lease, as JSON.
pub const RESERVATION_ANNOTATION: &str = "nonet/reserved";

/// How long other candidates leave a reserved Lease to the standby that has asked for it.
pub const LEASE_RESERVATION_TIME: Duration = Duration::from_secs(5);
/// The time, in lease durations, for which a candidate of a failed version leaves an available Lease to other candidates.
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

/// The identity of a term, as in the annotation [`TERM_ANNOTATION`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TermIdentity {
    holder: String,
    transitions: i64,
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
    /// Decodes the annotations of a Lease. Annotations of an earlier term are ignored, except for the failed versions.
    pub fn from_lease(lease: &LeaseObject) -> Self {
        let Some(all) = lease.metadata.get("annotations").and_then(Value::as_object) else { return Self::default() };
        let text = |key: &str| all.get(key).and_then(Value::as_str);
        let failed = split_versions(text(FAILED_VERSIONS_ANNOTATION));
        // The annotations are used if they describe the term of the current holder, or of the last holder before the release.
        let record = &lease.record;
        let is_of = |term: TermIdentity| {
            term.transitions == record.transition_count
                && (record.holder_identity.is_empty() || record.holder_identity == term.holder)
        };
        if !text(TERM_ANNOTATION).and_then(|text| serde_json::from_str(text).ok()).is_some_and(is_of) {
            return Self { failed_versions: failed, ..Self::default() };
        }
        let term = text(VERSION_ANNOTATION).map(|version| LeaderTerm {
            version: version.to_owned(),
            proven_predecessor_versions: split_versions(text(PREDECESSORS_ANNOTATION)),
            is_on_probation: text(PROBATION_ANNOTATION).is_some(),
        });
        let standby = |key| text(key).and_then(|text| serde_json::from_str(text).ok());
        Self {
            term,
            failed_versions: failed,
            requesting_standby: standby(REQUESTING_STANDBY_ANNOTATION),
            reserved_standby: standby(RESERVATION_ANNOTATION),
        }
    }

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

/// Writes the annotations of a leader's term into its Lease. The record of the Lease must already describe the term.
///
/// Removes the request of a standby and the reservation, and removes a proven version from the failed versions.
pub fn write_term(lease: &mut LeaseObject, term: &LeaderTerm, probation: &ProbationSettings) {
    let mut failed = LeaseAnnotations::from_lease(lease).failed_versions;
    failed.retain(|version| term.is_on_probation || *version != term.version);
    let term_identity =
        TermIdentity { holder: lease.record.holder_identity.clone(), transitions: lease.record.transition_count };
    set_annotation(lease, REQUESTING_STANDBY_ANNOTATION, None);
    set_annotation(lease, RESERVATION_ANNOTATION, None);
    set_annotation(lease, TERM_ANNOTATION, Some(json!(term_identity).to_string()));
    set_annotation(lease, VERSION_ANNOTATION, Some(term.version.clone()));
    set_annotation(lease, PREDECESSORS_ANNOTATION, join_versions(&term.proven_predecessor_versions));
    set_annotation(
        lease,
        PROBATION_ANNOTATION,
        term.is_on_probation.then(|| duration::format(probation.probation_time)),
    );
    set_annotation(lease, FAILED_VERSIONS_ANNOTATION, join_versions(&failed));
}

/// Replaces the annotation with the failed versions; removes the annotation if `failed` is empty.
pub fn write_failed_versions(lease: &mut LeaseObject, failed: &[String]) {
    set_annotation(lease, FAILED_VERSIONS_ANNOTATION, join_versions(failed));
}

/// Writes a standby's request into the Lease of another holder.
pub fn write_standby_request(lease: &mut LeaseObject, standby: &RequestingStandby) {
    set_annotation(lease, REQUESTING_STANDBY_ANNOTATION, Some(json!(standby).to_string()));
}

/// Writes a reservation into a Lease that is about to be released; if `standby` is `None`, removes an earlier reservation.
pub fn write_reservation(lease: &mut LeaseObject, standby: Option<&RequestingStandby>) {
    set_annotation(lease, REQUESTING_STANDBY_ANNOTATION, None);
    set_annotation(lease, RESERVATION_ANNOTATION, standby.map(|standby| json!(standby).to_string()));
}

/// Sets an annotation, or removes it if `value` is `None`.
fn set_annotation(lease: &mut LeaseObject, key: &str, value: Option<String>) {
    match (lease.metadata.get_mut("annotations").and_then(Value::as_object_mut), value) {
        (Some(all), Some(value)) => drop(all.insert(key.to_owned(), Value::String(value))),
        (Some(all), None) => drop(all.remove(key)),
        (None, Some(value)) => drop(lease.metadata.insert("annotations".to_owned(), json!({ key: value }))),
        (None, None) => {}
    }
}

fn split_versions(text: Option<&str>) -> Vec<String> {
    let versions = text.unwrap_or_default().split(',').map(str::trim).filter(|version| !version.is_empty());
    versions.map(str::to_owned).collect()
}

fn join_versions(versions: &[String]) -> Option<String> {
    (!versions.is_empty()).then(|| versions.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1.0.0+a";
    const B: &str = "1.1.0+b";
    const C: &str = "1.2.0+c";
    const LEASE: Duration = Duration::from_secs(15);

    fn term(version: &str, preceded_by: &[&str], on_probation: bool) -> LeaderTerm {
        LeaderTerm {
            version: version.to_owned(),
            proven_predecessor_versions: owned(preceded_by),
            is_on_probation: on_probation,
        }
    }

    fn owned(versions: &[&str]) -> Vec<String> {
        versions.iter().map(|version| (*version).to_owned()).collect()
    }

    fn standby(identity: &str, version: &str) -> RequestingStandby {
        RequestingStandby { identity: identity.to_owned(), version: version.to_owned() }
    }

    fn record(holder: &str) -> LeaseRecord {
        LeaseRecord { holder_identity: holder.to_owned(), transition_count: 4, ..LeaseRecord::default() }
    }

    fn probation(version: &str) -> ProbationSettings {
        ProbationSettings { version: version.to_owned(), probation_time: Duration::from_mins(1) }
    }

    /// Returns a Lease with this holder and the annotations of this term.
    fn signed(holder: &str, term: &LeaderTerm) -> LeaseObject {
        let mut lease = LeaseObject::new(serde_json::Map::new(), record(holder));
        write_term(&mut lease, term, &probation(&term.version));
        lease
    }

    #[test]
    fn annotations_of_a_leader_are_readable_by_people_and_decode_to_the_same_term() {
        let mut lease = signed("b", &term(B, &[A, C], true));
        write_failed_versions(&mut lease, &owned(&["0.9.0+z"]));
        assert_eq!(
            lease.metadata["annotations"],
            json!({
                "nonet/term": r#"{"holder":"b","transitions":4}"#,
                "nonet/version": "1.1.0+b",
                "nonet/preceded-by": "1.0.0+a,1.2.0+c",
                "nonet/probation": "1m0s",
                "nonet/failed": "0.9.0+z",
            })
        );
        let read = LeaseAnnotations::from_lease(&lease);
        let failed = owned(&["0.9.0+z"]);
        let term = term(B, &[A, C], true);
        assert_eq!(
            read,
            LeaseAnnotations {
                term: Some(term),
                failed_versions: failed,
                requesting_standby: None,
                reserved_standby: None
            }
        );
    }

    #[test]
    fn other_annotations_stay_and_malformed_metadata_is_tolerated() {
        for before in [json!({"team": "x"}), json!(null), json!("odd"), json!({})] {
            let kept = before.get("team").cloned();
            let metadata = [("annotations".to_owned(), before)].into_iter().collect();
            let mut lease = LeaseObject::new(metadata, record("a"));
            assert_eq!(LeaseAnnotations::from_lease(&lease), LeaseAnnotations::default());
            write_term(&mut lease, &term(A, &[], false), &probation(A));
            assert_eq!(lease.metadata["annotations"].get("team").cloned(), kept);
            assert_eq!(LeaseAnnotations::from_lease(&lease).term, Some(term(A, &[], false)));
        }
    }

    #[test]
    fn annotations_of_an_earlier_term_are_ignored_except_for_failures() {
        let mut lease = signed("a", &term(A, &[], true));
        write_failed_versions(&mut lease, &owned(&[C]));
        write_standby_request(&mut lease, &standby("b", B));
        assert!(
            LeaseAnnotations::from_lease(&lease).term.is_some()
                && LeaseAnnotations::from_lease(&lease).requesting_standby.is_some()
        );
        let outdated = LeaseAnnotations { failed_versions: owned(&[C]), ..LeaseAnnotations::default() };
        let mut taken = lease.clone();
        taken.record = LeaseRecord { transition_count: 5, ..record("foreign") };
        assert_eq!(LeaseAnnotations::from_lease(&taken), outdated, "a client-go elector has taken the Lease");
        taken.record.holder_identity.clear();
        assert_eq!(LeaseAnnotations::from_lease(&taken), outdated, "the client-go elector has released the Lease");
        lease.record.holder_identity = "held-for-hand-over".to_owned();
        assert_eq!(LeaseAnnotations::from_lease(&lease), outdated, "kubectl has changed the holder and nothing else");
        lease.record.holder_identity.clear();
        assert!(LeaseAnnotations::from_lease(&lease).term.is_some(), "its holder has released the Lease");
    }

    #[test]
    fn the_standing_of_a_version_follows_from_the_last_term_and_the_failures() {
        let proven = |leader: &str| VersionStanding::NotLedYet {
            leader_version: leader.to_owned(),
            is_leader_on_probation: false,
        };
        for (leader, failed, version, expected, asks) in [
            (None, &[][..], A, VersionStanding::VersionsIgnored, false),
            (None, &[A], A, VersionStanding::FailedProbation, false),
            (Some(term(A, &[], false)), &[], A, VersionStanding::Proven, false),
            (Some(term(A, &[], true)), &[], A, VersionStanding::OnProbation, false),
            (Some(term(A, &[], true)), &[A], A, VersionStanding::FailedProbation, false),
            (Some(term(B, &[A], false)), &[], A, VersionStanding::Proven, false),
            (Some(term(B, &[A], true)), &[], A, VersionStanding::Proven, false),
            (Some(term(A, &[], false)), &[], B, proven(A), true),
            (Some(term(A, &[], false)), &[C], B, proven(A), true),
            (Some(term(A, &[], false)), &[B], B, VersionStanding::FailedProbation, false),
            (Some(term(A, &[C, B], false)), &[], B, VersionStanding::Proven, false),
            (
                Some(term(B, &[A], true)),
                &[],
                C,
                VersionStanding::NotLedYet { leader_version: B.to_owned(), is_leader_on_probation: true },
                false,
            ),
        ] {
            let annotations =
                LeaseAnnotations { term: leader, failed_versions: owned(failed), ..LeaseAnnotations::default() };
            let standing = annotations.version_standing(version);
            assert_eq!(
                (standing.clone(), standing.may_ask_for_lease()),
                (expected, asks),
                "{version} at {annotations:?}"
            );
            let asked = LeaseAnnotations { requesting_standby: Some(standby("x", version)), ..annotations };
            assert_eq!(asked.permitted_standby().is_some(), asks, "a leader grants permitted requests: {asked:?}");
        }
    }

    #[test]
    fn a_new_term_follows_from_the_last_term() {
        // Columns: last term, whether its holder released the Lease, failed versions, new leader; expected term and failed
        // version.
        for (last, released, failed, version, expected, condemned) in [
            (None, true, &[][..], A, term(A, &[], false), None),
            (None, false, &[], A, term(A, &[], false), None),
            (None, true, &[A], A, term(A, &[], true), None),
            // An upgrade, with or without a release.
            (Some(term(A, &[], false)), true, &[], B, term(B, &[A], true), None),
            (Some(term(A, &[], false)), false, &[], B, term(B, &[A], true), None),
            (Some(term(B, &[A], false)), true, &[], C, term(C, &[B, A], true), None),
            // The version of the last term takes the Lease again.
            (Some(term(B, &[A], false)), false, &[], B, term(B, &[A], false), None),
            (Some(term(B, &[A], true)), false, &[], B, term(B, &[A], true), None),
            (Some(term(B, &[A], true)), true, &[], B, term(B, &[A], true), None),
            // Version B crashes on probation, or is stopped.
            (Some(term(B, &[A], true)), false, &[], A, term(A, &[], false), Some(B)),
            (Some(term(B, &[A], true)), true, &[], A, term(A, &[], false), None),
            (Some(term(B, &[A], true)), false, &[], C, term(C, &[A], true), Some(B)),
            // A rollback from version B to version A.
            (Some(term(B, &[A], false)), true, &[], A, term(A, &[B], false), None),
            (Some(term(B, &[A], false)), false, &[], A, term(A, &[B], false), None),
            // A failed version takes the Lease, because there are no other candidates.
            (Some(term(A, &[], false)), false, &[B], B, term(B, &[A], true), None),
        ] {
            let holder = if released { "" } else { "x" };
            let found = LeaseAnnotations { term: last, failed_versions: owned(failed), ..LeaseAnnotations::default() };
            let accession = found.next_term(version, &record(holder));
            assert_eq!(accession.term, expected, "{version} after {found:?}");
            assert_eq!(accession.newly_failed_version.as_deref(), condemned, "{version} after {found:?}");
            let all: Vec<_> = condemned.iter().chain(failed).map(|version| (*version).to_owned()).collect();
            assert_eq!(accession.failed_versions, all);
        }
    }

    #[test]
    fn a_version_that_does_not_take_its_reserved_lease_has_failed() {
        let reserved_for = Some(standby("b", B));
        let found = LeaseAnnotations {
            term: Some(term(A, &[], false)),
            reserved_standby: reserved_for,
            ..LeaseAnnotations::default()
        };
        assert_eq!(found.next_term(A, &record("")).newly_failed_version.as_deref(), Some(B));
        assert_eq!(found.next_term(B, &record("")).newly_failed_version, None, "another replica has taken the Lease");
        assert_eq!(found.next_term(B, &record("")).term, term(B, &[A], true));
    }

    #[test]
    fn failed_versions_do_not_precede_and_are_listed_once_up_to_a_limit() {
        let found = LeaseAnnotations {
            term: Some(term(B, &[C, A], true)),
            failed_versions: owned(&[C, B, "1", "2", "3", "4", "5", "6", "7"]),
            ..LeaseAnnotations::default()
        };
        let accession = found.next_term(A, &record("x"));
        assert_eq!(accession.term, term(A, &[], false));
        assert_eq!(accession.failed_versions, owned(&[B, C, "1", "2", "3", "4", "5", "6"]));
    }

    #[test]
    fn a_proven_version_is_removed_from_the_failed_versions() {
        let mut lease = signed("b", &term(B, &[A], true));
        write_failed_versions(&mut lease, &owned(&[B, C]));
        write_term(&mut lease, &term(B, &[A], true), &probation(B));
        assert_eq!(LeaseAnnotations::from_lease(&lease).failed_versions, owned(&[B, C]));
        write_term(&mut lease, &term(B, &[A], false), &probation(B));
        assert_eq!(LeaseAnnotations::from_lease(&lease).failed_versions, owned(&[C]));
    }

    #[test]
    fn failed_versions_and_reservations_delay_the_take_over_of_an_available_lease() {
        let after = |last: LeaderTerm, failed: &[&str], reserved_for: Option<&str>| LeaseAnnotations {
            term: Some(last),
            failed_versions: owned(failed),
            requesting_standby: None,
            reserved_standby: reserved_for.map(|identity| standby(identity, B)),
        };
        let proven = || term(A, &[], false);
        let dead = || term(B, &[A], true);
        for (found, released, identity, version, expected) in [
            (after(proven(), &[], None), true, "a", A, Duration::ZERO),
            (after(proven(), &[], None), false, "b", B, Duration::ZERO),
            (after(proven(), &[], Some("b")), true, "b", B, Duration::ZERO),
            (after(proven(), &[], Some("b")), true, "a", A, LEASE_RESERVATION_TIME),
            (after(proven(), &[], Some("b")), true, "b2", B, LEASE_RESERVATION_TIME),
            (after(proven(), &[B], None), true, "b", B, LEASE * 2),
            (after(proven(), &[B], None), false, "b", B, LEASE * 2),
            (after(dead(), &[], None), false, "a", A, Duration::ZERO),
            (after(dead(), &[], None), false, "c", C, Duration::ZERO),
            (after(dead(), &[], None), false, "b", B, LEASE * 2),
            (after(dead(), &[], None), true, "b", B, Duration::ZERO),
        ] {
            let record = record(if released { "" } else { "x" });
            assert_eq!(found.take_over_delay(identity, version, &record, LEASE), expected, "{version} at {found:?}");
        }
    }
}
