//! Elections among versions: hand-over, probation, failure, rollback, and electors without probation.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const A: &str = "1.0.0+a";
const B: &str = "1.1.0+b";
const C: &str = "1.2.0+c";
const PROBATION: Duration = Duration::from_mins(1);
/// The time between the end of a container's process and the start of the next one.
const RESTART: Duration = Duration::from_secs(2);

fn settings_of(version: &str, identity: &str) -> ElectionSettings {
    let probation = ProbationSettings { version: version.to_owned(), probation_time: PROBATION };
    ElectionSettings {
        probation: Some(probation),
        leads_without_release: true,
        ..ElectionSettings::new("kube-system", "replicaset-controller", identity.to_owned())
    }
}

/// Starts a candidate of this version. As leader, it does not end when a standby asks for its Lease.
fn versioned(server: &Server, who: usize, version: &str) -> Candidate {
    start(server, who, 0, settings_of(version, &format!("{version}/{who}")), || true)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quality {
    /// The processes run until they are stopped.
    Good,
    /// Each process crashes after it has led for this time.
    CrashesAfterLeading(Duration),
}

/// A container that restarts its process, always of the same version. Dropping the container kills the process.
struct Container {
    current: Arc<Mutex<Arc<Candidate>>>,
    starts: Arc<AtomicUsize>,
    kubelet: JoinHandle<()>,
}

impl Container {
    fn run(server: &Server, who: usize, version: &'static str, quality: Quality) -> Self {
        let starts = Arc::new(AtomicUsize::new(0));
        let begin = {
            let (server, starts) = (server.clone(), Arc::clone(&starts));
            move || {
                let n = starts.fetch_add(1, Ordering::Relaxed);
                // No two containers share an identity, even if one replaces the other.
                let written = server.state.lock().version;
                let settings = settings_of(version, &format!("{version}/{who}/{n}/{written}"));
                Arc::new(start(&server, who, 0, settings, || true))
            }
        };
        let current = Arc::new(Mutex::new(begin()));
        let slot = Arc::clone(&current);
        let kubelet = tokio::spawn(async move {
            loop {
                let process = Arc::clone(&slot.lock());
                let crash = async {
                    process.gate.wait_until_leading().await;
                    match quality {
                        Quality::Good => std::future::pending().await,
                        Quality::CrashesAfterLeading(time) => advance_time(time).await,
                    }
                };
                tokio::select! {
                    () = crash => process.task.abort(),
                    () = process.question.clone().wait_for_request() => process.end_in_order().await,
                    () = process.ended() => {}
                }
                advance_time(RESTART).await;
                *slot.lock() = begin();
            }
        });
        Self { current, starts, kubelet }
    }

    fn now(&self) -> Arc<Candidate> {
        Arc::clone(&self.current.lock())
    }

    fn leads(&self) -> bool {
        self.now().gate.is_leading()
    }

    fn ready(&self) -> Result<(), String> {
        self.now().status.check_ready()
    }

    fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    /// Stops the container as the deletion of its Pod would: the process ends in order and releases the Lease.
    async fn delete(self) {
        self.kubelet.abort();
        self.now().end_in_order().await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kubelet.abort();
        self.now().task.abort();
    }
}

impl Candidate {
    /// Shuts the candidate down like a process that finishes a little work before it releases the Lease.
    async fn end_in_order(&self) {
        self.stop.prevent_new_leadership();
        advance_time(Duration::from_millis(50)).await;
        self.stop.release_lease();
        self.ended().await;
    }

    async fn ended(&self) {
        // No value is ever sent. The channel closes when the task ends.
        let _ = self.running.clone().changed().await;
    }
}

/// Runs until the condition is true. Returns how long that took, and how long there was no leader. Fails if two containers lead
/// at once.
async fn until(containers: &[&Container], most: Duration, condition: impl Fn() -> bool) -> (Duration, Duration) {
    step_until(containers, Duration::from_millis(5), most, condition).await
}

/// Runs for `time`. Returns how long there was no leader. Fails if two containers lead at once.
async fn watch_for(containers: &[&Container], time: Duration) -> Duration {
    let end = containers[0].now().clock.monotonic_now() + time;
    let over = || containers[0].now().clock.monotonic_now() >= end;
    step_until(containers, Duration::from_millis(100), time + SECOND, over).await.1
}

async fn step_until(
    containers: &[&Container],
    step: Duration,
    most: Duration,
    condition: impl Fn() -> bool,
) -> (Duration, Duration) {
    let (mut passed, mut without) = (Duration::ZERO, Duration::ZERO);
    while !condition() {
        let writers = containers.iter().filter(|container| container.now().gate.is_open()).count();
        assert!(writers <= 1, "{writers} may write at once");
        without += if containers.iter().any(|container| container.leads()) { Duration::ZERO } else { step };
        assert!(passed < most, "still not after {passed:?}");
        advance_time(step).await;
        passed += step;
    }
    (passed, without)
}

fn annotation(server: &Server, key: &str) -> Option<String> {
    server.lease()["metadata"]["annotations"].get(key).and_then(Value::as_str).map(str::to_owned)
}

fn said(candidate: &Candidate, what: &str) -> bool {
    candidate.said.lock().iter().any(|said| said.contains(what))
}

fn counted(candidate: &Candidate, result: &str) -> u64 {
    let line = format!("nonet_leader_probations_total{{name=\"replicaset-controller\",result=\"{result}\"}} ");
    let text = candidate.metrics.render_prometheus();
    let value = text.lines().find_map(|l| l.strip_prefix(&line)).unwrap_or_else(|| panic!("{line} is not in {text}"));
    value.parse().unwrap()
}

/// Starts a container of version A, and returns it after it has led for 21 seconds.
async fn leading_a(server: &Server) -> Container {
    let a = Container::run(server, 0, A, Quality::Good);
    until(&[&a], SECOND, || a.leads()).await;
    assert_eq!(a.ready(), Ok(()), "a leader without a predecessor has no probation");
    advance_time(SECOND * 21).await;
    a
}

/// COMMON-59, COMMON-60.
#[tokio::test(start_paused = true)]
async fn a_new_version_gets_the_lease_within_a_second_of_asking_and_is_ready_after_its_probation() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    assert_eq!(b.ready().unwrap_err(), "the Lease has not been read yet");
    step_until(&[&a, &b], Duration::from_millis(1), SECOND * 5, || server.writes(1) > 0).await;
    assert!(annotation(&server, probation::REQUESTING_STANDBY_ANNOTATION).unwrap().contains("1.1.0+b/1/0"));
    let waits = b.ready().unwrap_err();
    assert!(waits.starts_with("version 1.1.0+b has not led yet, and asks version 1.0.0+a for the Lease"), "{waits}");
    let (took, without) = until(&[&a, &b], SECOND * 5, || b.leads()).await;
    assert!(took < SECOND && without < Duration::from_millis(100), "{took:?}, of which {without:?} without a leader");
    assert_eq!(annotation(&server, probation::VERSION_ANNOTATION).as_deref(), Some(B));
    assert_eq!(annotation(&server, probation::PREDECESSORS_ANNOTATION).as_deref(), Some(A));
    assert_eq!(annotation(&server, probation::PROBATION_ANNOTATION).as_deref(), Some("1m0s"));
    assert_eq!(annotation(&server, probation::REQUESTING_STANDBY_ANNOTATION), None);
    assert_eq!(annotation(&server, probation::RESERVATION_ANNOTATION), None);
    assert!(said(&b.now(), "ProbationBegun: version 1.1.0+b leads on probation for 1m0s"));
    assert!(
        b.now().gate.wait_until_leading().await.versions_written_by_predecessor.is_some(),
        "the leader has left its written versions"
    );
    advance_time(SECOND * 12 + Duration::from_millis(500)).await;
    assert_eq!(b.ready().unwrap_err(), "on probation: leads for 12s of 1m0s");
    assert_eq!((a.starts(), a.leads(), a.ready()), (2, false, Ok(())), "the former leader stands by");
    advance_time(SECOND * 46).await;
    assert!(b.ready().is_err());
    advance_time(SECOND * 4).await;
    assert_eq!((b.ready(), a.ready()), (Ok(()), Ok(())));
    assert_eq!(annotation(&server, probation::PROBATION_ANNOTATION), None);
    assert!(said(&b.now(), "ProbationPassed"));
    assert_eq!((counted(&b.now(), "begun"), counted(&b.now(), "passed"), counted(&b.now(), "failed")), (1, 1, 0));
    assert_eq!(watch_for(&[&a, &b], SECOND * 600).await, Duration::ZERO);
    assert_eq!((a.starts(), b.starts()), (2, 1), "no standby asks for the Lease any more");
}

/// COMMON-60, COMMON-61.
#[tokio::test(start_paused = true)]
async fn a_version_that_crashes_on_probation_is_replaced_by_the_old_version_for_good() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::CrashesAfterLeading(SECOND * 20));
    until(&[&a, &b], SECOND * 10, || b.leads()).await;
    advance_time(SECOND * 10).await;
    assert_eq!((b.starts(), a.ready()), (1, Ok(())));
    until(&[&a, &b], SECOND * 20, || !b.leads()).await;
    let (took, _) = until(&[&a, &b], SECOND * 30, || a.leads()).await;
    assert!(took >= SECOND * 7 && took <= SECOND * 16, "{took:?}");
    assert_eq!(annotation(&server, probation::FAILED_VERSIONS_ANNOTATION).as_deref(), Some(B));
    assert_eq!(annotation(&server, probation::VERSION_ANNOTATION).as_deref(), Some(A));
    assert_eq!(annotation(&server, probation::PREDECESSORS_ANNOTATION), None);
    assert_eq!(annotation(&server, probation::PROBATION_ANNOTATION), None);
    assert_eq!(a.ready(), Ok(()), "a proven version has no probation");
    assert!(said(&a.now(), "ProbationFailed: version 1.1.0+b has failed its probation; version 1.0.0+a leads"));
    assert_eq!(counted(&a.now(), "failed"), 1);
    let without = watch_for(&[&a, &b], SECOND * 1800).await;
    assert_eq!((without, b.starts()), (Duration::ZERO, 2), "it neither leads nor crashes again");
    assert_eq!(
        b.ready().unwrap_err(),
        "version 1.1.0+b has failed its probation and stands by as the last resort; to let it try again: kubectl annotate lease -n kube-system replicaset-controller nonet/failed-"
    );
    // The effect of the `kubectl annotate` command in the message.
    {
        let mut state = server.state.lock();
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.lease.as_mut().unwrap();
        lease["metadata"]["annotations"].as_object_mut().unwrap().remove(probation::FAILED_VERSIONS_ANNOTATION);
        lease["metadata"]["resourceVersion"] = json!(version);
    }
    until(&[&a, &b], SECOND * 10, || b.leads()).await;
}

/// COMMON-59.
#[tokio::test(start_paused = true)]
async fn a_new_version_gets_the_lease_although_old_standbys_wait() {
    for seed in 0..4 {
        let server = Server::new();
        let a = leading_a(&server).await;
        let standbys = [2, 3].map(|who| Container::run(&server, who, A, Quality::Good));
        advance_time(SECOND * 10 + Duration::from_millis(137) * seed).await;
        let b = Container::run(&server, 1, B, Quality::Good);
        let all = [&a, &standbys[0], &standbys[1], &b];
        until(&all, SECOND * 10, || b.leads()).await;
        let transitions = server.lease()["spec"]["leaseTransitions"].clone();
        assert_eq!(transitions, 1, "the Lease went from the leader to the new version directly");
        watch_for(&all, PROBATION * 2).await;
        assert!(b.leads() && all.iter().all(|container| container.ready() == Ok(())));
    }
}

/// COMMON-64.
#[tokio::test(start_paused = true)]
async fn a_reserved_lease_that_is_not_taken_goes_to_another_candidate_after_five_seconds() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let standby = Container::run(&server, 2, A, Quality::Good);
    advance_time(SECOND * 5).await;
    let b = versioned(&server, 1, B);
    until(&[&a, &standby], SECOND * 10, || server.writes(1) > 0).await;
    b.task.abort();
    until(&[&a, &standby], SECOND * 2, || server.holder().is_empty()).await;
    let (took, _) = until(&[&a, &standby], SECOND * 12, || a.leads() || standby.leads()).await;
    assert!(took >= SECOND * 5 && took <= SECOND * 5 + Duration::from_millis(200), "{took:?}");
    assert_eq!(
        annotation(&server, probation::FAILED_VERSIONS_ANNOTATION).as_deref(),
        Some(B),
        "it did not take the Lease that was reserved for it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_always_crashes_leads_once() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let standby = Container::run(&server, 2, A, Quality::Good);
    let b = Container::run(&server, 1, B, Quality::CrashesAfterLeading(Duration::ZERO));
    let without = watch_for(&[&a, &standby, &b], SECOND * 1800).await;
    assert!(without < SECOND * 25, "{without:?}");
    assert_eq!((b.starts(), server.lease()["spec"]["leaseTransitions"].clone()), (2, json!(2)));
    assert!(a.ready().is_ok() && standby.ready().is_ok() && b.ready().is_err());
}

/// COMMON-61.
#[tokio::test(start_paused = true)]
async fn a_failed_version_leads_when_it_is_alone() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::CrashesAfterLeading(SECOND * 5));
    until(&[&a, &b], SECOND * 60, || annotation(&server, probation::FAILED_VERSIONS_ANNOTATION).is_some() && a.leads())
        .await;
    // The candidate of version B waits because its version has failed, and leads because there is no other candidate.
    drop(a);
    let (took, _) = until(&[&b], SECOND * 60, || b.leads()).await;
    assert!(took >= SECOND * 40 && took <= SECOND * 50, "{took:?}");
    assert!(b.ready().unwrap_err().starts_with("on probation"));
    until(&[&b], SECOND * 10, || !b.leads()).await;
    let (took, _) = until(&[&b], SECOND * 60, || b.leads()).await;
    assert!(took >= SECOND * 40 && took <= SECOND * 55, "{took:?}");
    drop(b);
    // A replica of version B that does not crash proves the version.
    let good = Container::run(&server, 3, B, Quality::Good);
    until(&[&good], SECOND * 60, || good.leads()).await;
    watch_for(&[&good], PROBATION + SECOND * 3).await;
    assert_eq!((good.ready(), annotation(&server, probation::FAILED_VERSIONS_ANNOTATION)), (Ok(()), None));
    let another = Container::run(&server, 2, B, Quality::Good);
    advance_time(SECOND).await;
    assert_eq!(another.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn another_replica_of_a_version_on_probation_is_not_ready_either() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = [1, 2].map(|who| Container::run(&server, who, B, Quality::Good));
    let all = [&a, &b[0], &b[1]];
    until(&all, SECOND * 10, || b[0].leads() || b[1].leads()).await;
    advance_time(SECOND * 5).await;
    let (leader, standby) = if b[0].leads() { (&b[0], &b[1]) } else { (&b[1], &b[0]) };
    assert_eq!(standby.ready().unwrap_err(), "version 1.1.0+b leads on probation in another replica");
    watch_for(&all, PROBATION).await;
    assert_eq!((leader.leads(), leader.ready(), standby.ready()), (true, Ok(()), Ok(())));
}

/// COMMON-62.
#[tokio::test(start_paused = true)]
async fn a_roll_back_needs_no_probation() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    until(&[&a, &b], SECOND * 100, || b.leads() && b.ready().is_ok()).await;
    a.delete().await;
    let b2 = Container::run(&server, 2, B, Quality::Good);
    advance_time(SECOND * 30).await;
    assert_eq!(b2.ready(), Ok(()));
    // Replicas of the old version start one after the other, and replicas of the new version stop.
    let a = Container::run(&server, 0, A, Quality::Good);
    advance_time(SECOND).await;
    assert_eq!(a.ready(), Ok(()));
    watch_for(&[&a, &b, &b2], SECOND * 60).await;
    assert!(b.leads(), "an old version does not ask");
    b.delete().await;
    until(&[&a, &b2], SECOND, || a.leads() || b2.leads()).await;
    watch_for(&[&a, &b2], SECOND * 30).await;
    b2.delete().await;
    until(&[&a], SECOND, || a.leads()).await;
    assert_eq!((a.ready(), a.starts()), (Ok(()), 1));
    assert_eq!(annotation(&server, probation::FAILED_VERSIONS_ANNOTATION), None);
    assert_eq!(annotation(&server, probation::PREDECESSORS_ANNOTATION).as_deref(), Some(B));
}

/// COMMON-62.
#[tokio::test(start_paused = true)]
async fn a_roll_back_in_the_middle_of_a_probation_is_no_failure() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    until(&[&a, &b], SECOND * 10, || b.leads()).await;
    advance_time(SECOND * 20).await;
    b.delete().await;
    let (took, _) = until(&[&a], SECOND * 2, || a.leads()).await;
    assert!(took < SECOND, "{took:?}");
    assert_eq!((a.ready(), annotation(&server, probation::FAILED_VERSIONS_ANNOTATION)), (Ok(()), None));
    let b = Container::run(&server, 1, B, Quality::Good);
    until(&[&a, &b], SECOND * 10, || b.leads()).await;
}

/// COMMON-63.
#[tokio::test(start_paused = true)]
async fn no_standby_asks_a_leader_on_probation_for_its_lease() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    until(&[&a, &b], SECOND * 10, || b.leads()).await;
    let c = Container::run(&server, 2, C, Quality::Good);
    watch_for(&[&a, &b, &c], SECOND * 50).await;
    assert_eq!((b.leads(), server.writes(2)), (true, 0));
    let waits = c.ready().unwrap_err();
    assert!(waits.ends_with("waits until version 1.1.0+b has passed its probation"), "{waits}");
    until(&[&a, &b, &c], SECOND * 20, || c.leads()).await;
    assert_eq!(annotation(&server, probation::PREDECESSORS_ANNOTATION).as_deref(), Some("1.1.0+b,1.0.0+a"));
    watch_for(&[&a, &b, &c], SECOND * 600).await;
    assert!(c.leads() && [&a, &b, &c].iter().all(|each| each.ready() == Ok(())));
}

/// COMMON-59.
#[tokio::test(start_paused = true)]
async fn a_standby_does_not_ask_before_its_caches_are_full() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let warm = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_warm = Arc::clone(&warm);
    let b = start(&server, 1, 0, settings_of(B, "b"), move || is_warm.load(Ordering::Relaxed));
    watch_for(&[&a], SECOND * 60).await;
    assert_eq!((annotation(&server, probation::REQUESTING_STANDBY_ANNOTATION), a.leads()), (None, true));
    warm.store(true, Ordering::Relaxed);
    assert!(wait_open(&b).await < SECOND * 6);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_handed_over_without_the_right_to_watch() {
    let server = Server::new();
    server.state.lock().watch_forbidden = true;
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    until(&[&a, &b], SECOND * 5, || server.writes(1) > 0).await;
    let (took, _) = until(&[&a, &b], SECOND * 10, || b.leads()).await;
    assert!(took < SECOND * 8, "the next renewal and the next poll: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_for_the_lease_counts_although_its_answer_is_lost() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::Good);
    // The first two requests are the read of the Lease and the watch. The third one asks for the Lease.
    let before = server.state.lock().requests;
    while server.state.lock().requests < before + 2 {
        advance_time(Duration::from_millis(1)).await;
    }
    server.state.lock().faults[1].push_back(Fault::AnswerLost);
    until(&[&a, &b], SECOND, || server.writes(1) > 0).await;
    assert!(server.state.lock().faults[1].is_empty());
    until(&[&a, &b], SECOND * 15, || b.leads()).await;
    watch_for(&[&a, &b], PROBATION + SECOND * 3).await;
    assert!(b.leads() && b.ready().is_ok());
}

/// An elector like client-go's: takes an available or expired Lease, renews it, and writes its metadata back unchanged.
struct ClientGo {
    task: JoinHandle<()>,
    leads: Arc<std::sync::atomic::AtomicBool>,
    release: Arc<tokio::sync::Notify>,
}

impl ClientGo {
    fn run(server: &Server, who: usize) -> Self {
        let api = {
            let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), 77);
            let (always, open) = gate::closed_write_gate(clock.clone());
            always.open_without_deadline();
            std::mem::forget(always);
            Api::new(server.client(who), clock, open, "client-go")
        };
        let leads = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let release = Arc::new(tokio::sync::Notify::new());
        let (is_leading, wish) = (Arc::clone(&leads), Arc::clone(&release));
        let task = tokio::spawn(async move {
            let target = || RequestTarget::object(LEASES, "kube-system", "replicaset-controller");
            let mut observed: Option<(Value, Instant)> = None;
            loop {
                let now = api.clock().monotonic_now();
                let lease: Value = serde_json::from_slice(&api.get(target()).await.unwrap()).unwrap();
                if observed.as_ref().is_none_or(|(spec, _)| *spec != lease["spec"]) {
                    observed = Some((lease["spec"].clone(), now));
                }
                let since = observed.as_ref().unwrap().1;
                let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
                let has_run_out = now >= since + SECOND * 15;
                let mut written = lease.clone();
                let time = json!(format!("{:.6}", api.clock().now()));
                written["spec"]["renewTime"] = time.clone();
                if holder != "client-go" && (holder.is_empty() || has_run_out) {
                    let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap() + 1;
                    written["spec"] = json!({"holderIdentity": "client-go", "leaseDurationSeconds": 15,
                        "acquireTime": time, "renewTime": time, "leaseTransitions": transitions});
                } else if holder != "client-go" {
                    is_leading.store(false, Ordering::Relaxed);
                    advance_time(SECOND * 2).await;
                    continue;
                }
                let written = api.replace(target(), &written).await;
                is_leading.store(written.is_ok(), Ordering::Relaxed);
                tokio::select! {
                    () = advance_time(SECOND * 2) => {}
                    () = wish.notified() => {
                        is_leading.store(false, Ordering::Relaxed);
                        let mut lease: Value = serde_json::from_slice(&api.get(target()).await.unwrap()).unwrap();
                        lease["spec"]["holderIdentity"] = json!("");
                        lease["spec"]["leaseDurationSeconds"] = json!(1);
                        lease["spec"]["acquireTime"] = lease["spec"]["renewTime"].clone();
                        api.replace(target(), &lease).await.unwrap();
                        return;
                    }
                }
            }
        });
        Self { task, leads, release }
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }
}

impl Drop for ClientGo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// COMMON-63.
#[tokio::test(start_paused = true)]
async fn a_client_go_leader_is_not_asked_for_its_lease_and_outdated_annotations_are_ignored() {
    let server = Server::new();
    let a = leading_a(&server).await;
    a.delete().await;
    let foreign = ClientGo::run(&server, 4);
    advance_time(SECOND).await;
    assert!(foreign.leads());
    assert_eq!(
        annotation(&server, probation::VERSION_ANNOTATION).as_deref(),
        Some(A),
        "unknown annotations stay in place"
    );
    let b = Container::run(&server, 1, B, Quality::Good);
    watch_for(&[&b], SECOND * 120).await;
    assert_eq!((foreign.leads(), b.leads(), b.ready(), server.writes(1)), (true, false, Ok(()), 0));
    foreign.release.notify_one();
    until(&[&b], SECOND, || b.leads()).await;
    assert_eq!(
        (b.ready(), annotation(&server, probation::PREDECESSORS_ANNOTATION)),
        (Ok(()), None),
        "there is no proven predecessor"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_go_elector_and_a_hand_over_do_not_disturb_each_other() {
    let server = Server::new();
    let a = leading_a(&server).await;
    let b = Container::run(&server, 1, B, Quality::CrashesAfterLeading(SECOND * 10));
    let foreign = ClientGo::run(&server, 4);
    let mut were = [false; 3];
    for _ in 0..12_000 {
        advance_time(Duration::from_millis(50)).await;
        let lead = [a.leads(), b.leads(), foreign.leads()];
        // The client-go elector notices the loss of its Lease only at its next attempt, as it does among electors of its kind.
        assert!(!(lead[0] && lead[1]), "two versions lead at once");
        assert!(!(foreign.leads() && (lead[0] || lead[1])), "two electors lead at once");
        for (was, is) in were.iter_mut().zip(lead) {
            *was |= is;
        }
    }
    assert!(were[0] && (were[1] || were[2]), "{were:?}");
    assert!(a.leads() || b.leads() || foreign.leads());
}

/// With random crashes and losses, at most one container leads at a time, and a working version leads in the end.
#[tokio::test(start_paused = true)]
async fn every_mix_of_versions_and_faults_ends_with_exactly_one_leader() {
    for seed in 0..12 {
        let server = Server::new();
        let dice = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 5000 + seed);
        let bad = Quality::CrashesAfterLeading(SECOND * (1 + dice.random_below(55) as u32));
        let mut containers = vec![
            Container::run(&server, 0, A, Quality::Good),
            Container::run(&server, 1, if seed % 3 == 0 { A } else { B }, Quality::Good),
            Container::run(&server, 2, C, bad),
        ];
        for _ in 0..1500 {
            advance_time(dice.jitter(Duration::from_millis(150), 2.0)).await;
            let open = containers.iter().filter(|c| c.leads()).count();
            assert!(open <= 1, "seed {seed}: {open} gates are open");
            let who = dice.random_below(3);
            if dice.random_below(300) == 0 {
                let version = [A, B, C][dice.random_below(3)];
                containers.remove(who);
                containers.insert(who, Container::run(&server, who, version, Quality::Good));
            }
            let mut state = server.state.lock();
            match dice.random_below(30) {
                0 => state.faults[who].push_back(Fault::Refused),
                1 | 2 => state.faults[who].push_back(Fault::AnswerLost),
                3 => state.down[who] = !state.down[who],
                _ => {}
            }
        }
        server.state.lock().down = [false; CLIENTS];
        server.state.lock().faults = Default::default();
        advance_time(SECOND * 300).await;
        let good = Container::run(&server, 3, A, Quality::Good);
        containers.push(good);
        let all: Vec<_> = containers.iter().collect();
        watch_for(&all, SECOND * 600).await;
        let without = watch_for(&all, SECOND * 600).await;
        let lease = server.lease();
        assert_eq!(without, Duration::ZERO, "seed {seed}: {}", lease["metadata"]["annotations"]);
        assert_eq!(annotation(&server, probation::PROBATION_ANNOTATION), None, "seed {seed}: the leader is proven");
    }
}
