//! Leases that do not exist, that are held, and that an operator edits, deletes or annotates. Each test holds cells of the table in
//! `docs/decisions/0026-born-held.md`.

use super::*;

/// Starts a candidate that creates a missing Lease held, as every installation does. Candidates differ in their versions, and
/// all of them have a probation, as in the manifests.
fn installed(server: &Server, who: usize) -> Candidate {
    let version = format!("1.{}.0+x", who % 2);
    let settings = ElectionSettings {
        probation: Some(ProbationSettings { version, probation_time: SECOND * 60 }),
        ..ElectionSettings::new("kube-system", "replicaset-controller", format!("c{who}"))
    };
    start(server, who, 0, settings, || true)
}

/// Starts a leader as every installation does: it creates the Lease held, and an operator releases it.
async fn released_leader(server: &Server) -> Candidate {
    let leader = installed(server, 0);
    advance_time(SECOND * 20).await;
    release(server, &leader).await;
    leader
}

/// Sets the holder of the Lease, as `kubectl patch` does.
fn set_holder(server: &Server, holder: &str) {
    let mut lease = server.lease();
    if !lease.is_null() {
        lease["spec"]["holderIdentity"] = json!(holder);
        server.put(Some(lease));
    }
}

/// Releases the Lease and returns how long the candidate takes to lead.
async fn release(server: &Server, c: &Candidate) -> Duration {
    set_holder(server, "");
    wait_open(c).await
}

/// Returns the gauges of a hold: held, and held after leading.
fn gauges(c: &Candidate) -> [bool; 2] {
    let text = c.metrics.render_prometheus();
    ["nonet_leader_election_held", "nonet_leader_election_held_after_leading"]
        .map(|metric| text.contains(&format!("{metric}{{name=\"replicaset-controller\"}} 1")))
}

/// COMMON-57, COMMON-109.
#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_created_held_and_no_process_leads_until_it_is_released() {
    let server = Server::new();
    let (a, b) = (installed(&server, 0), installed(&server, 1));
    advance_time(SECOND * 20).await;
    let spec =
        json!({"holderIdentity": "held-for-hand-over", "leaseDurationSeconds": 315_360_000, "leaseTransitions": 0});
    assert_eq!(server.lease()["spec"], spec);
    assert_eq!(server.writes(0) + server.writes(1), 1);
    let summary = a.status.role_summary();
    assert!(summary.contains("the Lease is held.") && a.status.is_held_for_hand_over(), "{summary}");
    assert!(summary.ends_with("kubectl nonet release -n kube-system replicaset-controller"), "{summary}");
    assert_eq!((gauges(&a), gauges(&b)), ([true, false], [true, false]));
    // Far longer than the duration of any lease.
    advance_time(Duration::from_hours(24)).await;
    assert!(!a.gate.is_open() && !b.gate.is_open());
    // A hold that is deleted comes back.
    server.put(None);
    advance_time(SECOND * 20).await;
    assert_eq!(server.lease()["spec"], spec);
    // A process that starts finds the hold.
    let c = installed(&server, 2);
    advance_time(SECOND * 30).await;
    assert!(!a.gate.is_open() && !b.gate.is_open() && !c.gate.is_open());
    set_holder(&server, "");
    advance_time(SECOND / 2).await;
    let leaders = [&a, &b, &c].iter().filter(|c| c.gate.is_open()).count();
    assert_eq!(leaders, 1, "the release makes one leader at once");
    assert_eq!(gauges(&a), [false, false]);
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
}

/// COMMON-57.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_leads_without_a_release_respects_a_hold() {
    let server = Server::new();
    let a = installed(&server, 0);
    advance_time(SECOND * 20).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 60).await;
    assert!(!b.gate.is_open());
    drop(a.task);
    a.stop.prevent_new_leadership();
    assert!(release(&server, &b).await < SECOND);
}

/// COMMON-57, COMMON-109.
#[tokio::test(start_paused = true)]
async fn a_leader_ends_when_its_lease_is_held_and_no_standby_takes_over() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = installed(&server, 1);
    advance_time(SECOND * 10).await;
    set_holder(&server, HAND_OVER_HOLDER_IDENTITY);
    let start = a.clock.monotonic_now();
    a.gate.wait_until_closed().await;
    assert!(a.clock.monotonic_now() - start < SECOND * 3);
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
    advance_time(SECOND * 60).await;
    assert!(!b.gate.is_open());
    assert_eq!(server.holder(), HAND_OVER_HOLDER_IDENTITY);
    assert_eq!(gauges(&b), [true, true], "it is known that a process has led");
    assert!(b.status.role_summary().contains("although a process has led before"), "{}", b.status.role_summary());
    assert!(release(&server, &b).await < SECOND, "the leader of the time before has long noticed the hold");
    assert_eq!(gauges(&b), [false, false]);
}

/// Typing `release` at a Lease that has a leader changes nothing, and no standby writes meanwhile. COMMON-108.
#[tokio::test(start_paused = true)]
async fn a_release_of_a_lease_with_a_leader_makes_no_second_writer() {
    // The second candidate has seen the leader, or has just started.
    for fresh in [false, true] {
        for step in 0..8 {
            let server = Server::new();
            let a = candidate(&server, 0, 0);
            wait_open(&a).await;
            let seen = (!fresh).then(|| installed(&server, 1));
            advance_time(SECOND * 10 + Duration::from_millis(270) * step).await;
            set_holder(&server, "");
            let b = seen.unwrap_or_else(|| installed(&server, 1));
            for _ in 0..200 {
                assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead");
                advance_time(SECOND / 10).await;
            }
            assert!(a.gate.is_leading(), "the leader takes its Lease again");
            assert_eq!(server.holder(), "c0");
        }
    }
}

/// A hold and a release within the same two seconds: the leader has not noticed the hold. COMMON-108.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_released_at_once_makes_no_second_writer() {
    for fresh in [false, true] {
        for step in 0..8 {
            let server = Server::new();
            let a = candidate(&server, 0, 0);
            wait_open(&a).await;
            let seen = (!fresh).then(|| installed(&server, 1));
            advance_time(SECOND * 10 + Duration::from_millis(270) * step).await;
            set_holder(&server, HAND_OVER_HOLDER_IDENTITY);
            advance_time(SECOND).await;
            let b = seen.unwrap_or_else(|| installed(&server, 1));
            set_holder(&server, "");
            for _ in 0..200 {
                assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead");
                advance_time(SECOND / 10).await;
            }
            assert!(a.gate.is_leading() || b.gate.is_leading(), "one of them leads");
        }
    }
}

/// A tool puts back a Lease that it has read while no process led, or a user writes what looks like a release. The leader does not
/// notice that before its next renewal. COMMON-108.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_put_back_makes_no_second_writer() {
    let server = Server::new();
    let before = released_leader(&server).await;
    before.stop.release_lease();
    before.task.await.unwrap();
    let replayed = server.lease()["spec"].clone();
    assert_eq!(replayed["leaseDurationSeconds"], 1);
    let forged = json!({"holderIdentity": "", "leaseDurationSeconds": 1});
    for spec in [replayed, forged] {
        for fresh in [false, true] {
            for step in 0..8 {
                let server = Server::new();
                let a = released_leader(&server).await;
                let seen = (!fresh).then(|| installed(&server, 2));
                advance_time(SECOND * 70 + Duration::from_millis(270) * step).await;
                let mut lease = server.lease();
                lease["spec"] = spec.clone();
                server.put(Some(lease));
                let b = seen.unwrap_or_else(|| installed(&server, 2));
                for _ in 0..200 {
                    assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead after {spec}");
                    advance_time(SECOND / 10).await;
                }
                assert!(a.gate.is_leading(), "the leader takes its Lease again");
            }
        }
    }
}

/// A standby that has learned of the leader from its watch alone for an hour reports the hold. COMMON-109.
#[tokio::test(start_paused = true)]
async fn an_idle_standby_reports_a_hold_that_its_watch_shows() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = installed(&server, 1);
    advance_time(Duration::from_hours(1)).await;
    set_holder(&server, HAND_OVER_HOLDER_IDENTITY);
    advance_time(SECOND).await;
    assert_eq!(gauges(&b), [true, true]);
}

/// A replica that lost the API server does not say that the Lease is held when it no longer knows. COMMON-109.
#[tokio::test(start_paused = true)]
async fn the_gauges_of_a_hold_need_contact_to_the_server() {
    let server = Server::new();
    let a = installed(&server, 0);
    advance_time(SECOND * 20).await;
    assert_eq!(gauges(&a), [true, false]);
    server.state.lock().down[0] = true;
    advance_time(SECOND * 30).await;
    assert_eq!(gauges(&a), [false, false]);
    server.state.lock().down[0] = false;
    advance_time(SECOND * 10).await;
    assert_eq!(gauges(&a), [true, false]);
}

/// With `--lead-without-release`, a process that starts just after the Lease of a leader was deleted cannot know of that leader.
/// The overlap ends at the leader's next renewal, which decision 0026 states.
#[tokio::test(start_paused = true)]
async fn the_overlap_after_a_deletion_with_lead_without_release_ends_at_the_next_renewal() {
    for step in 0..25 {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        advance_time(SECOND * 10 + Duration::from_millis(100) * step).await;
        server.put(None);
        let b = candidate(&server, 1, 0);
        advance_time(Duration::from_millis(2100)).await;
        assert!(!(a.gate.is_open() && b.gate.is_open()));
        assert!(a.gate.is_leading() || b.gate.is_leading());
    }
}

/// COMMON-108.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_edited_to_a_shorter_duration_is_not_taken_earlier() {
    for nonsense in [json!(1), json!(0), json!(-7), Value::Null] {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        let b = installed(&server, 1);
        advance_time(SECOND * 11).await;
        // The leader does not reach the server any more. It may write for the rest of its ten seconds.
        server.state.lock().down[0] = true;
        let mut lease = server.lease();
        lease["spec"]["leaseDurationSeconds"] = nonsense.clone();
        server.put(Some(lease));
        for _ in 0..100 {
            assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead with {nonsense}");
            advance_time(SECOND / 10).await;
        }
        wait_open(&b).await;
    }
}

/// COMMON-108.
#[tokio::test(start_paused = true)]
async fn nonsense_in_a_lease_stops_no_leader() {
    let nonsense = [
        json!({"leaseTransitions": i32::MAX, "leaseDurationSeconds": i32::MAX}),
        json!({"leaseTransitions": -5, "leaseDurationSeconds": -1, "acquireTime": "1970-01-01T00:00:00.000000Z"}),
        json!({"renewTime": "2999-01-01T00:00:00.000000Z"}),
        json!({"preferredHolder": "x", "strategy": "OldestEmulationVersion"}),
    ];
    for fields in nonsense {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        advance_time(SECOND * 11).await;
        let mut lease = server.lease();
        lease["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.put(Some(lease));
        advance_time(SECOND * 60).await;
        assert!(a.gate.is_leading(), "the leader writes its own values again after {fields}");
        assert!([15, 60].map(Value::from).contains(&server.lease()["spec"]["leaseDurationSeconds"]));
    }
    // Without a leader, a Lease that lasts for decades says so. A hold and a release make it free.
    let server = Server::new();
    let spec = json!({"holderIdentity": "gone", "leaseDurationSeconds": i32::MAX});
    server.put(Some(json!({"metadata": {"namespace": "kube-system", "name": "replicaset-controller"}, "spec": spec})));
    let b = installed(&server, 1);
    advance_time(SECOND * 60).await;
    let summary = b.status.role_summary();
    assert!(!b.gate.is_open() && summary.contains("stands by for gone, whose Lease lasts 5965"), "{summary}");
    let way_out = "kubectl nonet hold -n kube-system replicaset-controller && kubectl nonet release -n kube-system";
    assert!(summary.contains(way_out), "{summary}");
    set_holder(&server, HAND_OVER_HOLDER_IDENTITY);
    advance_time(SECOND * 5).await;
    assert!(release(&server, &b).await < SECOND * 16);
}

/// A Lease with the sentence of its holder in other words is no hold: it expires. COMMON-57.
#[tokio::test(start_paused = true)]
async fn a_misspelt_hold_is_an_unknown_holder_and_expires() {
    let server = Server::new();
    let spec = json!({"holderIdentity": "Held-for-hand-over ", "leaseDurationSeconds": 15});
    server.put(Some(json!({"metadata": {"namespace": "kube-system", "name": "replicaset-controller"}, "spec": spec})));
    let a = installed(&server, 0);
    let took = wait_open(&a).await;
    assert!(took >= SECOND * 12, "{took:?}");
}

/// COMMON-52.
#[tokio::test(start_paused = true)]
async fn a_lease_deleted_under_its_leader_is_left_to_that_leader() {
    for leads_without_release in [false, true] {
        let server = Server::new();
        let standby = || if leads_without_release { candidate(&server, 1, 0) } else { installed(&server, 1) };
        let a = candidate(&server, 0, 0);
        let b = standby();
        wait_open(&a).await;
        let acquired = server.lease()["spec"]["acquireTime"].clone();
        // Soon after the start: the standby has lost the race for the Lease and has not polled since.
        advance_time(SECOND / 10).await;
        server.put(None);
        for _ in 0..300 {
            assert!(!(a.gate.is_open() && b.gate.is_open()), "two lead");
            advance_time(SECOND / 10).await;
        }
        assert_eq!(server.holder(), "c0");
        assert_eq!(server.lease()["spec"]["acquireTime"], acquired, "the term goes on");
        assert!(a.gate.is_leading());
        // The leader of the deleted Lease has crashed.
        a.task.abort();
        advance_time(SECOND / 10).await;
        server.put(None);
        if leads_without_release {
            let took = wait_open(&b).await;
            assert!(took >= SECOND * 10 && took <= SECOND * 24, "{took:?}");
        } else {
            advance_time(SECOND * 30).await;
            assert!(!b.gate.is_open());
            assert_eq!(server.holder(), HAND_OVER_HOLDER_IDENTITY);
            assert_eq!(gauges(&b), [true, true], "the new Lease says that a process has led");
        }
    }
}

/// A process that starts just after a Lease was deleted does not hold it under the leader. COMMON-52.
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_leaves_a_deleted_lease_to_its_leader() {
    for step in 0..25 {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        advance_time(SECOND * 10 + Duration::from_millis(100) * step).await;
        server.put(None);
        let b = installed(&server, 1);
        advance_time(SECOND * 30).await;
        assert!(a.gate.is_leading() && !b.gate.is_open());
        assert_eq!(server.holder(), "c0");
    }
}

/// A release that does not arrive, and a server that is away while the Lease is held, change nothing. COMMON-57.
#[tokio::test(start_paused = true)]
async fn a_release_after_an_outage_makes_one_leader() {
    let server = Server::new();
    let (a, b) = (installed(&server, 0), installed(&server, 1));
    advance_time(SECOND * 20).await;
    server.state.lock().down = [true; CLIENTS];
    advance_time(SECOND * 120).await;
    assert!(!a.gate.is_open() && !b.gate.is_open());
    set_holder(&server, "");
    advance_time(SECOND * 60).await;
    assert!(!a.gate.is_open() && !b.gate.is_open(), "the release has not been seen");
    server.state.lock().down = [false; CLIENTS];
    advance_time(SECOND * 10).await;
    assert_eq!([&a, &b].iter().filter(|c| c.gate.is_open()).count(), 1);
}

/// An operator, or a tool that keeps objects as they are in Git, holds, releases and deletes at random. COMMON-45, COMMON-108.
#[tokio::test(start_paused = true)]
async fn nothing_that_is_done_to_a_lease_makes_two_writers() {
    for seed in 0..30 {
        let server = Server::new();
        let dice = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 5000 + seed);
        let mut candidates: Vec<_> = (0..3).map(|who| installed(&server, who)).collect();
        advance_time(SECOND * 20).await;
        assert!(candidates.iter().all(|c| !c.gate.is_open()), "the Lease was not released");
        for _ in 0..300 {
            advance_time(dice.jitter(Duration::from_millis(300), 2.0)).await;
            let open = candidates.iter().filter(|c| c.gate.is_open()).count();
            assert!(open <= 1, "seed {seed}: {open} gates are open");
            let who = dice.random_below(3);
            if candidates[who].task.is_finished() || dice.random_below(40) == 0 {
                candidates[who].task.abort();
                candidates[who] = installed(&server, who);
            }
            match dice.random_below(24) {
                0 => server.put(None),
                1 | 2 => set_holder(&server, HAND_OVER_HOLDER_IDENTITY),
                3..6 => set_holder(&server, ""),
                6 => server.state.lock().faults[who].push_back(Fault::AnswerLost),
                7 => {
                    let mut state = server.state.lock();
                    state.down[who] = !state.down[who];
                }
                // A tool puts back a Lease as its leader has released it.
                9 if !server.lease().is_null() => {
                    let mut lease = server.lease();
                    let time = lease["spec"]["renewTime"].clone();
                    lease["spec"]["acquireTime"] = time;
                    lease["spec"]["holderIdentity"] = json!("");
                    lease["spec"]["leaseDurationSeconds"] = json!(1);
                    server.put(Some(lease));
                }
                8 if !server.lease().is_null() => {
                    let mut lease = server.lease();
                    lease["spec"]["leaseDurationSeconds"] = json!(dice.random_below(30) as i64 - 5);
                    server.put(Some(lease));
                }
                _ => {}
            }
        }
        server.state.lock().down = [false; CLIENTS];
        server.state.lock().faults = Default::default();
        advance_time(SECOND * 60).await;
        set_holder(&server, HAND_OVER_HOLDER_IDENTITY);
        advance_time(SECOND * 20).await;
        for (who, c) in candidates.iter_mut().enumerate().filter(|(_, c)| c.task.is_finished()) {
            *c = installed(&server, who);
        }
        set_holder(&server, "");
        advance_time(SECOND * 20).await;
        assert_eq!(
            candidates.iter().filter(|c| c.gate.is_open()).count(),
            1,
            "seed {seed}: the release makes a leader"
        );
        for c in candidates {
            c.task.abort();
        }
    }
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
    assert!(a.gate.is_leading());
}
