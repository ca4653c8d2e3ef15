//! Tests of versions and their annotations.

use serde_json::json;

use super::*;
use crate::leader::lease::LeaseObject;

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
    let proven =
        |leader: &str| VersionStanding::NotLedYet { leader_version: leader.to_owned(), is_leader_on_probation: false };
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
        assert_eq!((standing.clone(), standing.may_ask_for_lease()), (expected, asks), "{version} at {annotations:?}");
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
