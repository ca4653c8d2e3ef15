//! Leases that an operator holds, deletes or annotates.

use super::*;

/// Returns a hold (a Lease that prevents leadership), shortened from `deploy/controllers/replicaset-controller/hold`.
fn hold() -> Value {
    json!({
        "metadata": {"namespace": "kube-system", "name": "replicaset-controller", "uid": "h", "labels": {"a": "b"}},
        "spec": {"holderIdentity": HAND_OVER_HOLDER_IDENTITY, "leaseDurationSeconds": 60},
    })
}

/// COMMON-57.
#[tokio::test(start_paused = true)]
async fn a_hold_never_expires_and_ends_when_it_is_deleted() {
    let server = Server::new();
    server.put(Some(hold()));
    let a = candidate(&server, 0, 0);
    advance_time(SECOND * 5).await;
    let gauge =
        || a.metrics.render_prometheus().contains("nonet_leader_election_held{name=\"replicaset-controller\"} 1");
    assert!(gauge() && a.status.is_held_for_hand_over());
    assert!(
        a.status.role_summary().contains("kubectl delete lease -n kube-system replicaset-controller"),
        "{}",
        a.status.role_summary()
    );
    // A day is far longer than the lease duration of the hold.
    advance_time(Duration::from_hours(24)).await;
    assert!(!a.gate.is_open());
    assert_eq!(server.writes(0), 0);
    server.put(None);
    assert!(wait_open(&a).await < SECOND);
    assert!(!gauge() && !a.status.is_held_for_hand_over());
    assert_eq!(a.status.role_summary(), "leads");
}

/// COMMON-57.
#[tokio::test(start_paused = true)]
async fn a_leader_ends_when_its_lease_is_held_and_no_standby_takes_over() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 10).await;
    server.put(Some(hold()));
    let start = a.clock.monotonic_now();
    a.gate.wait_until_closed().await;
    assert!(a.clock.monotonic_now() - start < SECOND * 3);
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
    advance_time(SECOND * 60).await;
    assert!(!b.gate.is_open());
    assert_eq!(server.holder(), HAND_OVER_HOLDER_IDENTITY);
}

/// COMMON-52.
#[tokio::test(start_paused = true)]
async fn a_lease_deleted_under_its_leader_is_left_to_that_leader() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    let b = candidate(&server, 1, 0);
    wait_open(&a).await;
    // Soon after the start: the standby has lost the race for the Lease and has not polled since.
    advance_time(SECOND / 10).await;
    server.put(None);
    for _ in 0..300 {
        assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead");
        advance_time(SECOND / 10).await;
    }
    assert_eq!(server.holder(), "c0");
    assert!(a.gate.is_open());
    // If the leader of the deleted Lease has crashed, the standby takes over after the lease duration.
    a.task.abort();
    advance_time(SECOND / 10).await;
    server.put(None);
    let took = wait_open(&b).await;
    assert!(took >= SECOND * 10 && took <= SECOND * 24, "{took:?}");
}

/// COMMON-78.
#[tokio::test(start_paused = true)]
async fn an_annotation_gives_the_time_until_which_a_second_writer_is_expected() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    assert_eq!(a.status.second_writer_expected_until(), None);
    let mut lease = server.lease();
    lease["metadata"]["annotations"][SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION] = json!("2026-01-02T06:00:00Z");
    server.put(Some(lease));
    advance_time(SECOND * 5).await;
    assert_eq!(a.status.second_writer_expected_until(), Some("2026-01-02T06:00:00Z".parse().unwrap()));
    let kept = &server.lease()["metadata"]["annotations"][SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION];
    assert_eq!(kept, "2026-01-02T06:00:00Z", "a renewal keeps it");
    assert!(a.gate.is_open());
}
