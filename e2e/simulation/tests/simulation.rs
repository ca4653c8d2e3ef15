//! The simulation, as far as a test has time for it: every scenario, every kind of fault, every safeguard.
//!
//! `cargo run --release -p simulation -- --all` makes all of the runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use simulation::{
    explore::{self, Baselines, Report, Task},
    judge,
    neighbour::{self, NEIGHBOURS},
    outcome::{Outcome, Violation},
    plan, regressions, reproduce,
    safeguard::Safeguard,
    scenario::Scenario,
    scenarios,
};

/// As many as the machine that runs the tests has at least.
const THREADS: usize = 2;

fn task(scenario: &str, perturbation: &str, seed: u64) -> Task {
    let (suite, scenario) = scenarios::find(scenario).unwrap();
    Task { suite, scenario: scenario.name, perturbation: perturbation.parse().unwrap(), seed }
}

/// What went wrong, each with the line that makes it again.
fn told(report: Report) -> Vec<String> {
    let one = |failure: explore::Failure| {
        let Violation { oracle, what, .. } = &failure.violation;
        format!("{oracle}: {what}\n  {}", reproduce(&failure.task))
    };
    report.failures.into_iter().map(one).collect()
}

/// The unperturbed runs of all tests.
static BASELINES: Baselines = Baselines::new();

/// Makes these runs and the unperturbed ones with which they are compared, and says what went wrong.
fn make(tasks: Vec<Task>) -> Report {
    let unperturbed = |task: &Task| Task::unperturbed(task.suite, task.scenario, task.seed);
    let unperturbed: BTreeMap<String, Task> =
        tasks.iter().map(unperturbed).map(|task| (reproduce(&task), task)).collect();
    let runs: Vec<Task> = unperturbed.into_values().chain(tasks).collect();
    let report = Mutex::new(Report::default());
    explore::make(&runs, &BASELINES, None, THREADS, &report, &()).unwrap();
    report.into_inner()
}

/// Makes these runs and the unperturbed ones with which they are compared. None may go wrong.
fn assert_well(tasks: Vec<Task>) {
    let failures = told(make(tasks));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_scenario_gets_there_whatever_goes_wrong() {
    let report = Mutex::new(Report::default());
    explore::unperturbed(&explore::scenarios(None), 1, &BASELINES, THREADS, &report, &()).unwrap();
    let failures = told(report.into_inner());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let mut tasks = Vec::new();
    for suite in scenarios::SUITES {
        let baseline = |scenario: &Scenario| BASELINES.of(&Task::unperturbed(suite, scenario.name, 1)).unwrap();
        let of_suite: Vec<Arc<Outcome>> = (suite.scenarios)().iter().map(baseline).collect();
        let of_suite: Vec<&Outcome> = of_suite.iter().map(Arc::as_ref).collect();
        let few = plan::few(suite, &of_suite);
        for outcome in &of_suite {
            let met = |form: &String| few.iter().any(|(_, p)| plan::form(p) == *form);
            let missing: Vec<String> = plan::at(suite, outcome, 1).iter().map(plan::form).filter(|f| !met(f)).collect();
            assert!(missing.is_empty(), "{}: never met: {missing:?}", suite.name);
        }
        tasks.extend(few.into_iter().map(|(scenario, perturbation)| Task { suite, scenario, perturbation, seed: 1 }));
    }
    assert_well(tasks);
}

#[test]
fn what_once_went_wrong_does_not_again() {
    assert_well(regressions::all().unwrap());
}

/// Why a line of a known violation has to go: its run is well, or goes wrong in another way.
fn settled(known: &regressions::Known) -> Option<String> {
    let report = make(vec![known.task.clone()]);
    let found: Vec<&str> = report.failures.iter().map(|failure| failure.violation.oracle).collect();
    let oracle = known.oracle.as_str();
    (!found.contains(&oracle)).then(|| format!("{oracle} is not violated, but {found:?}: {}", reproduce(&known.task)))
}

#[test]
fn what_is_known_to_go_wrong_still_does() {
    let settled: Vec<String> = regressions::known().unwrap().iter().filter_map(settled).collect();
    assert!(settled.is_empty(), "no longer known violations:\n{}", settled.join("\n"));
}

#[test]
fn a_known_violation_whose_run_is_well_is_noticed() {
    let known = regressions::Known { task: task("replicaset/scale", "none", 1), oracle: "rests".to_owned() };
    assert!(settled(&known).is_some());
}

#[test]
fn one_seed_gives_one_run() {
    let run = |scenario: &str, perturbation: &str, seed| {
        explore::one(&task(scenario, perturbation, seed), None).unwrap().hash
    };
    for suite in scenarios::SUITES {
        // The baseline was made on another thread, and often between other runs.
        let scenario = format!("{}/{}", suite.name, (suite.scenarios)()[0].name);
        let baseline = BASELINES.of(&task(&scenario, "none", 1)).unwrap().hash;
        assert_eq!(run(&scenario, "none", 1), baseline, "{scenario}");
    }
    for (scenario, perturbation) in [
        ("deployment/rollout-surge", "none"),
        ("replicaset/scale", "hold:replicaset-controller/pods@9+30s,failover@20"),
        ("job/indexed", "crash:after-effect@7"),
    ] {
        let hash = run(scenario, perturbation, 7);
        assert_eq!(run(scenario, perturbation, 7), hash, "{scenario} {perturbation}");
        assert_ne!(run(scenario, perturbation, 8), hash, "{scenario} {perturbation}: another seed is another run");
    }
}

/// How many seeds are tried for a run that shows what a safeguard is for. A seed decides about timing, so does every change of a
/// controller, and only some timings show it.
const SEEDS: u64 = 16;

/// Without a safeguard, that oracle is violated in one of a few runs. In the same run with the safeguard, nothing is violated.
fn assert_noticed(scenario: &str, perturbation: &str, without: Safeguard, oracle: &str) {
    let mut found = Vec::new();
    for seed in 1..=SEEDS {
        let task = task(scenario, perturbation, seed);
        let violation = explore::one(&task, Some(without)).unwrap().violation;
        let violated = violation.map(|violation| violation.oracle);
        if violated == Some(oracle) {
            let with = match &*task.perturbation.0 {
                [] => BASELINES.of(&task).unwrap().violation.clone(),
                _ => explore::one(&task, None).unwrap().violation,
            };
            return assert_eq!(with, None, "{}", reproduce(&task));
        }
        found.push(violated);
    }
    panic!("{scenario} {perturbation} without {without:?}: {oracle} in none of {found:?}");
}

#[test]
fn hostile_neighbours_delay_nobody() {
    let mut tasks = Vec::new();
    for (row, (suite, scenario)) in explore::scenarios(Some("neighbour")).into_iter().enumerate() {
        // Each neighbour beside some scenarios, and each scenario beside some neighbours.
        for (_, neighbour) in NEIGHBOURS.iter().enumerate().filter(|(column, _)| (row + column).is_multiple_of(3)) {
            let perturbation = format!("neighbour:{}@step1", neighbour.name);
            tasks.push(task(&format!("{}/{}", suite.name, scenario.name), &perturbation, 1));
        }
    }
    assert_well(tasks);
}

#[test]
fn hostile_neighbours_keep_the_controllers_busy() {
    // Objects that the controllers ignored would prove nothing. Each number is about half of what the controllers write.
    for (name, least) in
        [("refused", 150), ("unready", 6), ("cronjobs", 200), ("addresses", 100), ("daemons", 150), ("strays", 25)]
    {
        let outcome = explore::one(&task("neighbour/job", &format!("neighbour:{name}@step1"), 1), None).unwrap();
        assert!(outcome.beside >= least, "{name}: {} writes", outcome.beside);
    }
    let crowd = explore::one(&task("neighbour/job", "neighbour:crowd@step1", 1), None).unwrap();
    assert!(crowd.beside >= 10 * neighbour::CROWD as u64, "crowd: {} writes", crowd.beside);
}

#[test]
fn who_is_delayed_beside_a_neighbour_is_noticed() {
    let run = |scenario: &str, perturbation: &str| explore::one(&task(scenario, perturbation, 1), None).unwrap();
    for (scenario, suffers) in [
        // The ReplicaSet controller does not see the Deployment's new ReplicaSet for thirty seconds.
        ("neighbour/rollout", "hold:replicaset-controller/replicasets@step2+30s"),
        // Every Pod of the StatefulSet is refused for most of a minute.
        ("neighbour/scale", "reject:403@2+45s"),
        // The controller that leads hangs for a minute.
        ("neighbour/job", "paused-leader@2+1m0s"),
        ("neighbour/cronjob", "hold:cronjob-controller/cronjobs@step1+30s"),
    ] {
        let alone = BASELINES.of(&task(scenario, "none", 1)).unwrap();
        let beside = run(scenario, "neighbour:unready@step1");
        assert_eq!(judge::delay(&alone, &beside), None, "{scenario}");
        let delayed = run(scenario, &format!("neighbour:unready@step1,{suffers}"));
        let oracle = judge::delay(&alone, &delayed).map(|violation| violation.oracle);
        assert_eq!(oracle, Some("neighbours-do-not-delay"), "{scenario} {suffers}");
    }
}

#[test]
fn who_hides_a_write_from_its_account_is_noticed() {
    let scenarios = [
        "replicaset/scale",
        "deployment/rollout-surge",
        "statefulset/ordered",
        "daemonset/rollout-unavailable",
        "job/indexed",
        "cronjob/one-run",
        "node-health/outage",
        "endpointslice/pods-come-and-go",
        "gc/chain-background",
    ];
    for scenario in scenarios {
        assert_noticed(scenario, "none", Safeguard::Account, "accounts-are-complete");
    }
    // The collector and the loops that judge nodes create nothing.
    for scenario in [
        "replicaset/scale",
        "deployment/rollout-surge",
        "statefulset/ordered",
        "daemonset/rollout-unavailable",
        "job/indexed",
        "cronjob/one-run",
        "endpointslice/pods-come-and-go",
    ] {
        assert_noticed(scenario, "none", Safeguard::Creation, "accounts-are-complete");
    }
}

#[test]
fn who_does_not_wait_for_its_own_writes_creates_too_many_pods() {
    assert_noticed(
        "replicaset/scale",
        "hold:replicaset-controller/pods@4+30s",
        Safeguard::Consistency,
        "creates-only-what-is-missing",
    );
    assert_noticed("job/indexed", "hold:job-controller/pods@2+30s", Safeguard::Consistency, "creates-what-is-wanted");
    // Its gate decides about statuses only: Pods wait for the cache in either position.
    for scenario in ["daemonset/rollout-unavailable", "daemonset-stale/rollout-unavailable"] {
        assert_noticed(scenario, "hold:daemonset-controller/pods@3+30s", Safeguard::Consistency, "nodes-get-one-pod");
    }
}

#[test]
fn who_believes_its_cache_before_it_adopts_adopts_for_the_dead() {
    let held = "hold:replicaset-controller/replicasets@step3+30s";
    assert_noticed("replicaset/orphaning", held, Safeguard::Recheck, "only-the-living-adopt");
    let held = "hold:deployment-controller/deployments@step3+30s";
    assert_noticed("deployment/orphaning", held, Safeguard::Recheck, "others-are-untouched");
    let held = "hold:statefulset-controller/statefulsets@step3+30s";
    assert_noticed("statefulset/set-orphaning", held, Safeguard::Recheck, "only-living-sets-adopt");
    let held = "hold:daemonset-controller/daemonsets@step3+30s";
    assert_noticed("daemonset/orphaning", held, Safeguard::Recheck, "only-living-daemon-sets-adopt");
}

#[test]
fn who_believes_its_cache_of_nodes_evicts_pods_whose_taint_is_gone() {
    let held = "hold:node-lifecycle-controller/nodes@step5+30s";
    assert_noticed("node-lifecycle/untainted-in-time", held, Safeguard::Recheck, "evictions-have-a-taint");
}

#[test]
fn who_believes_its_cache_of_leases_judges_nodes_that_renew_them() {
    let held = "hold:node-lifecycle-controller/leases@step1+2m0s";
    assert_noticed("node-health/late-heartbeats", held, Safeguard::Recheck, "living-nodes-are-not-judged");
}

#[test]
fn who_does_not_know_that_it_was_blind_judges_every_node_when_the_server_is_back() {
    assert_noticed("node-health/outage", "none", Safeguard::Blindness, "living-nodes-are-not-judged");
}

#[test]
fn who_does_not_ask_whether_it_leads_carries_an_old_plan_on() {
    // Of a ReplicaSet, the Pods that both leaders make are seen first.
    let paused = "paused-leader@7+1m";
    assert_noticed("replicaset/scale", paused, Safeguard::Leadership, "creates-only-what-is-missing");
    for (scenario, paused) in [
        ("deployment/rollout-surge", "paused-leader@30+1m"),
        ("statefulset/ordered", "paused-leader@12+1m"),
        ("daemonset/rollout-unavailable", "paused-leader@16+1m"),
    ] {
        assert_noticed(scenario, paused, Safeguard::Leadership, "only-leaders-write");
    }
}

#[test]
fn who_does_not_wait_for_what_its_predecessor_wrote_writes_it_again() {
    // Seen only if the write that the standby does not see arrives before the leader is deposed.
    let stale = "stale-standby@25+30s";
    assert_noticed("replicaset/quota", stale, Safeguard::Succession, "creates-only-what-is-missing");
}

#[test]
fn who_names_no_uid_deletes_a_stranger() {
    assert_noticed("replicaset/adoption-and-release", "recreate@12+30s", Safeguard::Uid, "deletes-only-its-own");
}

#[test]
fn who_names_no_version_deletes_what_has_another_owner_by_now() {
    // The collector hears of the end of an owner, and not of the other one that its dependent has got meanwhile.
    let held = "hold:gc-controller/configmaps@step9+10s,hold:gc-controller/secrets@step9+30s,\
        hold:gc-controller/pods@step9+1m0s,interfere:keep@step9";
    assert_noticed("gc/chain-background", held, Safeguard::Version, "owners-keep-the-owned");
}

#[test]
fn who_names_no_version_deletes_a_pod_that_its_user_has_taken_away() {
    // Deletions are refused for a while, in which a user takes one of the Pods; the controller does not hear of that.
    let taken = "hold:statefulset-controller/pods@13+2m0s,reject:403@13+45s,interfere:take-pod@13";
    assert_noticed("statefulset/parallel", taken, Safeguard::Version, "pods-of-others-stay");
    // Seen only if the Pod that was taken is one of the two that may go.
    let taken = "hold:daemonset-controller/pods@11+2m0s,reject:403@11+45s,interfere:take-pod@11";
    assert_noticed("daemonset/rollout-half", taken, Safeguard::Version, "pods-of-other-controllers-stay");
}

#[test]
fn who_names_no_version_removes_finalizers_of_pods_that_have_succeeded_meanwhile() {
    let held = "hold:job-controller/pods@step2+30s";
    for scenario in ["job/suspended-after-success", "job-stale/suspended-after-success"] {
        assert_noticed(scenario, held, Safeguard::Version, "finalizers-go-last");
    }
}

#[test]
fn who_names_no_version_deletes_pods_that_were_taken_out_meanwhile() {
    let unseen = "interfere:relabel-pod@10,hold:replicaset-controller/pods@10+30s";
    assert_noticed("replicaset/failing-pods", unseen, Safeguard::Version, "deletes-only-its-own");
}

#[test]
fn who_names_no_version_deletes_a_replica_set_that_its_user_has_taken_out() {
    // The deletion is refused for a while, in which a user takes a ReplicaSet out by its label; the controller does not hear of
    // that. Seen only if it is the one that goes.
    let taken = "hold:deployment-controller/replicasets@67+2m,reject:403@67+8s,interfere:relabel-set@67";
    assert_noticed("deployment/history", taken, Safeguard::Version, "only-the-finished-are-deleted");
}

#[test]
fn who_names_no_version_replaces_a_job_that_has_ended_meanwhile() {
    // The controller does not hear of the end of a Job before the next run takes its place.
    let held = "hold:cronjob-controller/jobs@5+26m";
    assert_noticed("cronjob-autumn/overlap-interval", held, Safeguard::Version, "keeps-the-history");
}

#[test]
fn who_names_no_version_writes_slices_that_another_manager_has_got() {
    // The watch is held from the write at which the slice is taken, so that the next write is made on an old view.
    let taken = "hold:endpointslice-controller/endpointslices@68+30s,interfere:take-slice@68";
    assert_noticed("endpointslice/pods-come-and-go", taken, Safeguard::Version, "foreign-slices-stay");
}

#[test]
fn who_names_no_version_evicts_a_pod_that_tolerates_the_taint_by_now() {
    // The server sends the deletion away for two seconds, in which a user lets a Pod stay. What was read before is no longer
    // true.
    let tolerated = "error:429@4,interfere:tolerate@4";
    assert_noticed("node-lifecycle/tolerations", tolerated, Safeguard::Version, "evictions-have-a-taint");
}

#[test]
fn who_names_a_job_by_chance_starts_a_run_twice() {
    // The first write is the Job of the run, and the process crashes before it is recorded.
    assert_noticed("cronjob/one-run", "crash:after-effect@1", Safeguard::Name, "a-run-is-started-once");
}

/// A controller that does what it must not, played by hand: what each oracle of CronJobs says of it.
mod cronjobs {
    use std::time::Duration;

    use common::clock::Clock;
    use sandbox::Sandbox;
    use serde_json::{Value, json};
    use simulation::{
        scenario::Suite,
        scenarios,
        world::{Logged, World},
    };

    const CONTROLLER: &str = "cronjob-controller#1";

    struct Play {
        sandbox: Sandbox,
        clock: Clock,
        suite: &'static Suite,
    }

    impl Play {
        async fn new(spec: Value) -> Self {
            let clock = Clock::simulated("2026-11-21T09:47:00Z".parse().unwrap(), 1);
            let sandbox = Sandbox::builder().clock(clock.clone()).build();
            let mut cron = json!({"apiVersion": "batch/v1", "kind": "CronJob",
                "metadata": {"name": "tick", "namespace": "default"}, "spec": {"schedule": "50,55 9 21 11 *",
                "timeZone": "Etc/UTC", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "img:1"}]}}}}}});
            for (key, value) in spec.as_object().unwrap() {
                cron["spec"][key] = value.clone();
            }
            sandbox.create(cron).await.unwrap();
            Self { sandbox, clock, suite: scenarios::find("cronjob/one-run").unwrap().0 }
        }

        async fn wait(&self, seconds: u64) {
            self.clock.sleep(Duration::from_secs(seconds)).await;
        }

        async fn send(&self, method: &str, path: &str, body: Value) {
            let patch = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let request = http::Request::builder()
                .method(method)
                .uri(format!("/apis/batch/v1/namespaces/default/{path}"))
                .header("content-type", patch)
                .body(body.to_string().into_bytes())
                .unwrap();
            self.sandbox.client(CONTROLLER).request::<Value>(request).await.unwrap();
        }

        /// Creates the Job of a run, under a name of its own.
        async fn create(&self, name: &str, scheduled: &str) {
            let cron = self.sandbox.get("cronjobs.batch", Some("default"), "tick").await.unwrap();
            let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
                "uid": cron["metadata"]["uid"], "controller": true});
            let annotations = json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": scheduled});
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": cron["spec"]["jobTemplate"]["spec"],
                "metadata": {"name": name, "annotations": annotations, "ownerReferences": [owner]}});
            self.send("POST", "jobs", job).await;
        }

        async fn record(&self, status: Value) {
            self.send("PATCH", "cronjobs/tick/status", json!({ "status": status })).await;
        }

        /// Every oracle that objects.
        fn objections(&self) -> Vec<&'static str> {
            let base = self.clock.monotonic_now();
            let writes = self.sandbox.writes().all();
            let first = writes[0].at;
            let mut world = World::new(base, Duration::from_secs(2), Duration::ZERO);
            let mut objections = Vec::new();
            for write in writes {
                let passed = Duration::try_from(write.at.duration_since(first)).unwrap();
                let logged = Logged { at: base.checked_add(passed).unwrap(), write };
                world.apply(logged.clone());
                let broken = self.suite.invariants.iter().copied().flatten();
                objections
                    .extend(broken.filter(|oracle| (oracle.check)(&world, &logged).is_err()).map(|oracle| oracle.name));
            }
            let broken = self.suite.promises.iter().copied().flatten();
            objections.extend(broken.filter(|oracle| (oracle.check)(&world).is_err()).map(|oracle| oracle.name));
            objections
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_is_dead_misses_runs() {
        let play = Play::new(json!({})).await;
        assert_eq!(play.objections(), ["each-firing-has-its-run"]);
        assert_eq!(Play::new(json!({"suspend": true})).await.objections(), Vec::<&str>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_starts_both_runs_and_records_the_last_is_fine() {
        let play = Play::new(json!({})).await;
        play.wait(180).await;
        play.create("tick-29920910", "2026-11-21T09:50:00Z").await;
        play.wait(300).await;
        play.create("tick-29920915", "2026-11-21T09:55:00Z").await;
        let jobs = play.sandbox.list("jobs.batch", Some("default")).await.unwrap();
        let active: Vec<Value> = jobs.iter().map(|job| json!({"uid": job["metadata"]["uid"]})).collect();
        play.record(json!({"active": active, "lastScheduleTime": "2026-11-21T09:55:00Z"})).await;
        assert_eq!(play.objections(), Vec::<&str>::new());
        play.record(json!({"active": [active[0], active[0]], "lastScheduleTime": "2026-11-21T09:50:00Z"})).await;
        assert_eq!(play.objections(), ["schedules-go-forward", "records-only-its-own", "records-are-the-truth"]);
    }

    #[tokio::test(start_paused = true)]
    async fn runs_of_no_firing_or_before_their_time_or_too_late_or_unwanted_are_noticed() {
        for (spec, wait, scheduled, oracle) in [
            (json!({}), 180, "2026-11-21T09:49:00Z", "starts-only-what-is-due"),
            (json!({}), 100, "2026-11-21T09:50:00Z", "starts-only-what-is-due"),
            (json!({"startingDeadlineSeconds": 60}), 300, "2026-11-21T09:50:00Z", "starts-only-what-is-due"),
            (json!({"schedule": "@every 3m"}), 200, "2026-11-21T09:50:01Z", "starts-only-what-is-due"),
            (json!({"suspend": true}), 180, "2026-11-21T09:50:00Z", "starts-only-what-is-wanted"),
        ] {
            let play = Play::new(spec.clone()).await;
            play.wait(wait).await;
            play.create("tick-1", scheduled).await;
            let objections = play.objections();
            assert!(objections.contains(&oracle), "{spec} {scheduled}: {objections:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn runs_started_twice_or_side_by_side_and_deleted_jobs_are_noticed() {
        let play = Play::new(json!({"concurrencyPolicy": "Forbid"})).await;
        play.wait(180).await;
        play.create("tick-29920910", "2026-11-21T09:50:00Z").await;
        play.create("tick-again", "2026-11-21T09:50:00Z").await;
        play.wait(300).await;
        play.create("tick-29920915", "2026-11-21T09:55:00Z").await;
        play.send("DELETE", "jobs/tick-again", json!({"propagationPolicy": "Background"})).await;
        play.send("PATCH", "cronjobs/tick", json!({"spec": {"suspend": true}})).await;
        let objections = play.objections();
        for oracle in ["a-run-is-started-once", "one-at-a-time", "deletes-only-what-ended", "wishes-are-the-users"] {
            assert!(objections.contains(&oracle), "{oracle}: {objections:?}");
        }
    }
}
