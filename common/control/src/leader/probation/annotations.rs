//! The annotations of a Lease that record versions, and their encoding.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LeaderTerm, LeaseAnnotations, ProbationSettings, RequestingStandby};
use crate::{duration, leader::lease::LeaseObject};

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

/// The identity of a term, as in the annotation [`TERM_ANNOTATION`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TermIdentity {
    holder: String,
    transitions: i64,
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
}

/// Writes the annotations of a leader's term into its Lease. The record of the Lease must already describe the term.
///
/// Removes the request of a standby and the reservation, and removes a proven version from the failed versions.
pub fn write_term(lease: &mut LeaseObject, term: &LeaderTerm, probation: &ProbationSettings) {
    let mut failed = LeaseAnnotations::from_lease(lease).failed_versions;
    failed.retain(|version| term.is_on_probation || *version != term.version);
    let term_identity =
        TermIdentity { holder: lease.record.holder_identity.clone(), transitions: lease.record.transition_count };
    lease.set_annotation(REQUESTING_STANDBY_ANNOTATION, None);
    lease.set_annotation(RESERVATION_ANNOTATION, None);
    lease.set_annotation(TERM_ANNOTATION, Some(json!(term_identity).to_string()));
    lease.set_annotation(VERSION_ANNOTATION, Some(term.version.clone()));
    lease.set_annotation(PREDECESSORS_ANNOTATION, join_versions(&term.proven_predecessor_versions));
    lease
        .set_annotation(PROBATION_ANNOTATION, term.is_on_probation.then(|| duration::format(probation.probation_time)));
    lease.set_annotation(FAILED_VERSIONS_ANNOTATION, join_versions(&failed));
}

/// Replaces the annotation with the failed versions; removes the annotation if `failed` is empty.
pub fn write_failed_versions(lease: &mut LeaseObject, failed: &[String]) {
    lease.set_annotation(FAILED_VERSIONS_ANNOTATION, join_versions(failed));
}

/// Writes a standby's request into the Lease of another holder.
pub fn write_standby_request(lease: &mut LeaseObject, standby: &RequestingStandby) {
    lease.set_annotation(REQUESTING_STANDBY_ANNOTATION, Some(json!(standby).to_string()));
}

/// Writes a reservation into a Lease that is about to be released; if `standby` is `None`, removes an earlier reservation.
pub fn write_reservation(lease: &mut LeaseObject, standby: Option<&RequestingStandby>) {
    lease.set_annotation(REQUESTING_STANDBY_ANNOTATION, None);
    lease.set_annotation(RESERVATION_ANNOTATION, standby.map(|standby| json!(standby).to_string()));
}

fn split_versions(text: Option<&str>) -> Vec<String> {
    let versions = text.unwrap_or_default().split(',').map(str::trim).filter(|version| !version.is_empty());
    versions.map(str::to_owned).collect()
}

fn join_versions(versions: &[String]) -> Option<String> {
    (!versions.is_empty()).then(|| versions.join(","))
}
