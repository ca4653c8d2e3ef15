use common::{clock::Clock, meta::Annotations};

use super::*;

const START: &str = "2026-01-01T00:00:00Z";

struct World {
    clock: Clock,
    pod: Pod,
    script: Option<Box<Script>>,
    life: Life,
}

impl World {
    fn new(policy: &str, annotations: &[(&str, &str)]) -> Self {
        Self::with(serde_json::json!({"restartPolicy": policy, "containers": [{"name": "c"}]}), annotations)
    }

    fn with(spec: serde_json::Value, annotations: &[(&str, &str)]) -> Self {
        let clock = Clock::simulated(START.parse().unwrap(), 0);
        let pod: Pod =
            serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
                .unwrap();
        let script = Script::read(&Annotations::from_pairs(annotations.iter().copied()), |k, v| panic!("{k}={v}"));
        let life = Life::begin(&pod, script.as_deref(), at(&clock));
        Self { clock, pod, script, life }
    }

    fn step(&mut self) -> Option<u64> {
        let now = at(&self.clock);
        let next = self.life.advance(&self.pod, self.script.as_deref(), now);
        next.map(|next| (next - now.instant).as_secs())
    }

    async fn after(&mut self, seconds: u64) -> Option<u64> {
        self.clock.sleep(Duration::from_secs(seconds)).await;
        self.step()
    }

    fn delete(&mut self, grace: i64) {
        self.pod.metadata.deletion_timestamp = Some(self.clock.now() + SignedDuration::from_secs(grace));
    }

    fn end(&self) -> End {
        match self.life.stage {
            Stage::Ended { end, .. } => end,
            other => panic!("{other:?}"),
        }
    }
}

fn at(clock: &Clock) -> Now {
    Now { instant: clock.monotonic_now(), wall: clock.now() }
}

#[tokio::test(start_paused = true)]
async fn without_a_script_a_pod_is_ready_at_once_and_stays() {
    let mut w = World::new("Always", &[]);
    assert_eq!(w.step(), None);
    assert!(matches!(w.life.stage, Stage::Running { .. }));
    assert!(w.life.ready.value && w.life.containers_ready.value && w.life.initialized.value);
}

#[tokio::test(start_paused = true)]
async fn creating_and_getting_ready_take_the_time_they_are_given() {
    let mut w = World::new("Always", &[("sim/start-after", "5"), ("sim/ready-after", "7")]);
    assert_eq!(w.step(), Some(5));
    assert!(matches!(w.life.stage, Stage::Creating { .. }));
    assert_eq!(w.after(5).await, Some(7));
    assert!(!w.life.ready.value);
    assert_eq!(w.after(7).await, None);
    assert_eq!(w.life.ready, Flip { value: true, since: "2026-01-01T00:00:12Z".parse().unwrap() });
}

#[tokio::test(start_paused = true)]
async fn a_probe_can_fail_for_a_while() {
    let mut w = World::new("Always", &[("sim/unready-after", "10"), ("sim/unready-for", "20")]);
    assert_eq!(w.step(), Some(10));
    assert!(w.life.ready.value);
    assert_eq!(w.after(10).await, Some(20));
    assert!(!w.life.ready.value);
    assert_eq!(w.after(20).await, None);
    assert!(w.life.ready.value);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_never_restarted_ends_by_its_exit_code() {
    for (code, end) in [("0", End::Succeeded), ("42", End::Failed)] {
        let mut w = World::new("Never", &[("sim/exit", code), ("sim/after", "3")]);
        assert_eq!(w.step(), Some(3));
        assert_eq!(w.after(3).await, None);
        assert_eq!(w.end(), end);
        assert!(!w.life.ready.value);
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_container_fails_the_pod() {
    let spec = serde_json::json!({"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]});
    let mut w = World::with(spec, &[("sim/exit", "0"), ("sim/exit-container-b", "9")]);
    w.step();
    assert_eq!(w.end(), End::Failed);
    let Stage::Ended { run: Some(run), .. } = w.life.stage else { panic!() };
    let script = w.script.as_deref();
    assert_eq!((run.code("a", script), run.code("b", script)), (0, 9));
}

#[tokio::test(start_paused = true)]
async fn restarts_come_at_once_and_then_after_a_growing_back_off() {
    let mut w = World::new("Always", &[("sim/exit", "1"), ("sim/after", "1")]);
    assert_eq!(w.step(), Some(1));
    assert_eq!(w.after(1).await, Some(1), "the first restart is immediate");
    assert_eq!(w.life.restarts, 1);
    assert_eq!(w.after(1).await, Some(10));
    assert!(matches!(w.life.stage, Stage::BackOff { .. }));
    assert_eq!(w.after(10).await, Some(1));
    assert_eq!(w.life.restarts, 2);
    assert_eq!(w.after(1).await, Some(20));
}

#[tokio::test(start_paused = true)]
async fn a_pod_restarted_on_failure_succeeds_in_the_end() {
    let mut w = World::new("OnFailure", &[("sim/exit", "1"), ("sim/exit-times", "2"), ("sim/restart-after", "4")]);
    assert_eq!(w.step(), Some(4));
    assert_eq!(w.after(4).await, Some(4));
    assert_eq!(w.after(4).await, None);
    assert_eq!(w.life.restarts, 2);
    assert!(w.life.ready.value);
    let mut w = World::new("OnFailure", &[("sim/exit", "0")]);
    w.step();
    assert_eq!(w.end(), End::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_node_may_reject_or_evict_a_pod() {
    let mut w = World::new("Always", &[("sim/fail-reason", "OutOfcpu")]);
    w.step();
    assert_eq!(w.life.stage, Stage::Ended { run: None, end: End::Scripted });
    let mut w = World::new("Always", &[("sim/fail-reason", "Evicted"), ("sim/after", "5")]);
    assert_eq!(w.step(), Some(5));
    w.after(5).await;
    assert_eq!(w.end(), End::Scripted);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_pod_that_starts_runs_or_waits_for_a_restart() {
    let spec =
        serde_json::json!({"restartPolicy": "OnFailure", "activeDeadlineSeconds": 30, "containers": [{"name": "c"}]});
    for (script, first_step) in [
        (&[("sim/start-after", "60")][..], 30),
        (&[], 30),
        (&[("sim/exit", "1"), ("sim/after", "1"), ("sim/restart-after", "60")], 1),
    ] {
        let mut w = World::with(spec.clone(), script);
        assert_eq!(w.step(), Some(first_step), "{script:?}");
        w.after(30).await;
        assert_eq!(w.end(), End::DeadlineExceeded, "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_ends_the_containers_after_what_they_need_within_the_grace_period() {
    let mut w = World::new("Always", &[("sim/terminate-after", "10"), ("sim/exit-on-term", "0")]);
    w.step();
    w.delete(30);
    assert_eq!(w.step(), Some(10));
    assert!(w.life.ready.value, "a Pod stays ready while it ends");
    w.after(10).await;
    assert_eq!(w.end(), End::Succeeded);

    let mut w = World::new("Always", &[("sim/terminate-after", "600")]);
    w.step();
    w.delete(30);
    assert_eq!(w.step(), Some(30));
    w.after(30).await;
    let Stage::Ended { run: Some(run), end: End::Failed } = w.life.stage else { panic!() };
    assert_eq!(run.ending, Ending::Code(EXIT_SIGKILL));
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_before_it_started_never_starts() {
    let mut w = World::new("Always", &[("sim/start-after", "60")]);
    w.step();
    w.delete(30);
    w.step();
    assert_eq!(w.life.stage, Stage::Ended { run: None, end: End::Failed });
}

#[tokio::test(start_paused = true)]
async fn a_readiness_gate_holds_ready_back_until_its_condition_is_true() {
    let spec = serde_json::json!({"containers": [{"name": "c"}], "readinessGates": [{"conditionType": "lb"}]});
    let mut w = World::with(spec, &[]);
    w.step();
    assert!(w.life.containers_ready.value && !w.life.ready.value);
    w.pod.status =
        serde_json::from_value(serde_json::json!({"conditions": [{"type": "lb", "status": "True"}]})).unwrap();
    w.after(3).await;
    assert_eq!(w.life.ready, Flip { value: true, since: "2026-01-01T00:00:03Z".parse().unwrap() });
}

#[tokio::test(start_paused = true)]
async fn a_power_failure_restarts_what_may_be_restarted() {
    let mut w = World::new("Always", &[]);
    w.step();
    w.life.lose(&w.pod, None, at(&w.clock));
    w.step();
    assert_eq!(w.life.restarts, 1);
    assert!(w.life.ready.value);
    let mut w = World::new("Never", &[]);
    w.step();
    w.life.lose(&w.pod, None, at(&w.clock));
    assert_eq!(w.end(), End::Failed);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_kubelet_reported_counts_as_lived() {
    let mut w = World::new("Always", &[("sim/ready-after", "100")]);
    w.clock.sleep(Duration::from_secs(1000)).await;
    let status = serde_json::json!({"phase": "Running", "startTime": "2026-01-01T00:10:00Z", "containerStatuses":
        [{"restartCount": 2, "state": {"running": {"startedAt": "2026-01-01T00:10:01Z"}}}]});
    w.pod.status = serde_json::from_value(status).unwrap();
    w.life = Life::begin(&w.pod, w.script.as_deref(), at(&w.clock));
    assert_eq!(w.step(), None);
    assert_eq!(w.life.restarts, 2);
    assert_eq!(w.life.ready, Flip { value: true, since: "2026-01-01T00:11:41Z".parse().unwrap() });
}
