//! Decisions about the end of a Job.

use serde_json::json;

use crate::{
    jobs::decide::second_status,
    world::{job, pod, sync_time_plus_seconds},
};

const BACKOFF: &str = "FailureTarget BackoffLimitExceeded: Job has reached the specified backoff limit";
const DEADLINE: &str = "FailureTarget DeadlineExceeded: Job was active longer than specified deadline";
const MET: &str = "SuccessCriteriaMet SuccessPolicy: Matched rules at index 0";
const REACHED: &str = "SuccessCriteriaMet CompletionsReached: Reached expected number of succeeded pods";

/// JOB-49.
#[test]
fn a_job_fails_beyond_its_backoff_limit() {
    for (limit, failed, fails) in
        [(0, 0, false), (0, 1, true), (2, 2, false), (2, 3, true), (6, 6, false), (6, 7, true)]
    {
        let pods = (0..failed).map(|n| pod(&format!("p{n}")).failed());
        let world = job("j").completions(Some(9), 9).spec_field("backoffLimit", limit).with_pods(pods);
        assert_eq!(world.job_end_text().as_deref(), fails.then_some(BACKOFF), "{limit} {failed}");
    }
}

/// JOB-49.
#[test]
fn restarts_count_with_restart_policy_on_failure() {
    for (limit, restarts, fails) in
        [(0, 0, false), (0, 1, true), (2, 1, false), (2, 2, true), (6, 5, false), (6, 6, true)]
    {
        let pods = if restarts == 0 { vec![pod("a")] } else { vec![pod("a").container_restarts(restarts)] };
        let template = |policy: &str| json!({"metadata": {"labels": {"job": "j"}}, "spec": {"restartPolicy": policy, "containers": []}});
        let job = job("j").completions(Some(9), 9).spec_field("backoffLimit", limit);
        let restarting = job.clone().spec_field("template", template("OnFailure")).with_pods(pods.clone());
        assert_eq!(restarting.job_end_text().as_deref(), fails.then_some(BACKOFF), "{limit} {restarts}");
        assert_eq!(job.spec_field("template", template("Never")).with_pods(pods).job_end_text(), None);
    }
}

/// JOB-42, JOB-49.
#[test]
fn counted_and_uncounted_failures_add_up() {
    let world = |ledger: &[&str], counted: i32| {
        job("j")
            .completions(Some(9), 9)
            .spec_field("backoffLimit", 2)
            .status_field("failed", counted)
            .status_field("uncountedTerminatedPods", json!({ "failed": ledger }))
            .with_pods([pod("a").failed(), pod("b").failed(), pod("gone").failed().without_finalizer()])
    };
    assert_eq!(world(&[], 0).job_end_text(), None, "a Pod without the finalizer was counted, or never will be");
    assert_eq!(world(&["a"], 0).job_end_text(), None, "a listed Pod is not counted twice");
    assert_eq!(world(&["x"], 0).job_end_text().as_deref(), Some(BACKOFF), "a listed and deleted Pod counts");
    assert_eq!(world(&[], 1).job_end_text().as_deref(), Some(BACKOFF));
    assert_eq!(world(&[], 1).with_removed_finalizers(&["a"]).job_end_text(), None, "a Pod untracked here does not");
}

/// JOB-50.
#[test]
fn a_job_fails_after_its_active_deadline() {
    let with = |deadline: i64| job("j").spec_field("activeDeadlineSeconds", deadline);
    assert_eq!(with(60).with_pods([]).job_end_text().as_deref(), Some(DEADLINE));
    assert_eq!(with(61).with_pods([]).job_end_text(), None);
    assert_eq!(with(60).spec_field("suspend", true).with_pods([]).job_end_text(), None);
    assert_eq!(with(60).status_field("startTime", json!(null)).with_pods([]).job_end_text(), None);
    assert_eq!(with(0).status_field("startTime", json!(null)).with_pods([]).job_end_text().as_deref(), Some(DEADLINE));
    let running = with(60).with_pods([pod("a")]);
    assert_eq!(
        (running.describe_scaling().as_str(), running.counted_pod_names_losing_finalizer().len()),
        ("fail a", 1)
    );
    assert_eq!(running.first_status().uncounted_terminated_pods.failed.len(), 1, "a running Pod has failed");
    let ends = "Failed (DeadlineExceeded) once 1 terminating Pods have finished";
    assert_eq!(with(60).with_pods([pod("a").deleting()]).explain().waiting, [ends]);
}

/// JOB-52.
#[test]
fn a_decided_end_stays_decided() {
    let failing = job("j").condition("FailureTarget", "True", "DeadlineExceeded", "late");
    let world = failing.completions(Some(1), 1).with_pods([pod("a").succeeded()]);
    assert_eq!(world.job_end_text().as_deref(), Some("FailureTarget DeadlineExceeded: late"));
    assert_eq!(world.first_status().conditions.len(), 1);
    let met = job("j").condition("SuccessCriteriaMet", "True", "SuccessPolicy", "m").spec_field("backoffLimit", 0);
    assert_eq!(
        met.with_pods([pod("a").failed()]).job_end_text().as_deref(),
        Some("SuccessCriteriaMet SuccessPolicy: m")
    );
    let undecided = job("j").condition("FailureTarget", "False", "X", "x");
    assert_eq!(undecided.with_pods([pod("a")]).job_end_text(), None);
}

/// JOB-52.
#[test]
fn a_failure_policy_takes_precedence_over_other_rules() {
    let rules = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let job = job("j").spec_field("podFailurePolicy", rules).spec_field("backoffLimit", 0).completions(Some(5), 5);
    let failed = job.clone().with_pods([
        pod("a").failed_with_exit_code_at(1, -9),
        pod("b").failed_with_exit_code_at(42, -9).without_finalizer(),
    ]);
    let message = "Container c for pod shop/b failed with exit code 42 matching FailJob rule at index 0";
    assert_eq!(failed.job_end_text(), Some(format!("FailureTarget PodFailurePolicy: {message}")));
    assert_eq!(
        failed.plan().first_status_write.pod_counts_by_policy_action.len(),
        0,
        "the Pod with the code was counted before"
    );
    let going = job.with_pods([pod("a").deleting()]);
    assert_eq!(going.job_end_text(), None, "a terminating Pod has not failed before it finishes");
}

/// JOB-51.
#[test]
fn a_job_completes_when_enough_pods_have_succeeded_and_none_is_active() {
    for (completions, succeeded, active, want) in [
        (Some(3), 3, 0, true),
        (Some(3), 2, 0, false),
        (Some(0), 0, 0, true),
        (None, 1, 0, true),
        (None, 1, 1, false),
        (None, 0, 0, false),
    ] {
        let pods = (0..active).map(|n| pod(&format!("p{n}")));
        let world = job("j")
            .completions(completions, 2)
            .status_field("succeeded", succeeded)
            .with_pods(pods)
            .with_pending_writes();
        assert_eq!(world.job_end_text().as_deref(), want.then_some(REACHED), "{completions:?} {succeeded} {active}");
    }
    let surplus = job("j").completions(Some(3), 2).status_field("succeeded", 3).with_pods([pod("a")]);
    assert_eq!((surplus.describe_scaling().as_str(), surplus.job_end_text().as_deref()), ("delete a", Some(REACHED)));
}

#[test]
fn a_suspended_job_that_wants_no_pods_completes() {
    let world = job("j")
        .completions(Some(0), 1)
        .spec_field("suspend", true)
        .status_field("startTime", json!(null))
        .with_pods([]);
    assert_eq!(world.job_end_text().as_deref(), Some(REACHED));
    let (job, mut status) = (world.job.build_job(), world.first_status());
    let end = world.plan().first_status_write.job_end_to_write.unwrap();
    assert!(second_status::add_end_to_status(&job, &mut status, &end, 0, sync_time_plus_seconds(0)));
    assert_eq!((status.start_time, status.completion_time), (None, Some(sync_time_plus_seconds(0))));
}

/// JOB-55.
#[test]
fn a_job_does_not_end_while_pods_are_active() {
    let over = job("j").spec_field("activeDeadlineSeconds", 5).with_pods([pod("a"), pod("b").failed()]);
    assert_eq!(over.clone().with_pending_writes().job_end_text(), None);
    let plan = over.plan();
    let first_status_write = crate::jobs::decide::first_status::decide_first_status(
        &over.snapshot(),
        &plan.pod_summary,
        &plan.scaling_decision,
        &crate::jobs::plan::PodWrites::default(),
        sync_time_plus_seconds(0),
    );
    assert_eq!(
        (
            first_status_write.job_end_to_write,
            first_status_write.status.active,
            plan.scaling_decision.adjusts_pod_count()
        ),
        (None, 1, false)
    );
}

/// JOB-48, JOB-54.
#[test]
fn success_policies_end_a_job_and_do_not_count_pods_that_still_run() {
    let policy = json!({"rules": [{"succeededIndexes": "0-1"}]});
    let job = job("j").indexed(3, 3).spec_field("successPolicy", policy);
    let pods = [pod("a").index(0).succeeded(), pod("b").index(1).succeeded(), pod("c").index(2)];
    let world = job.clone().with_pods(pods.clone());
    assert_eq!(world.job_end_text().as_deref(), Some(MET));
    assert_eq!(
        (world.describe_scaling().as_str(), world.counted_pod_names_losing_finalizer()),
        ("delete uncounted c", vec!["a".to_owned(), "b".to_owned()])
    );
    let status = world.first_status();
    assert_eq!(
        (&*status.completed_indexes, status.succeeded, status.uncounted_terminated_pods.failed.len()),
        ("0,1", 2, 0)
    );
    let stale = world.with_stale_cache();
    assert_eq!(
        (stale.describe_scaling().as_str(), stale.job_end_text()),
        ("not allowed: 2 deleted pods", None),
        "it may have failed"
    );
    let [a, b, _] = pods;
    let failed = job.with_pods([a, b, pod("c").index(2).failed()]).first_status();
    assert_eq!(failed.uncounted_terminated_pods.failed.len(), 1);
}

/// JOB-76.
#[test]
fn a_pod_untracked_before_a_crash_has_not_failed() {
    let policy = json!({"rules": [{"succeededIndexes": "0-1"}]});
    let pods = [
        pod("a").index(0).succeeded(),
        pod("b").index(1).succeeded(),
        pod("c").index(2).deleting().without_finalizer(),
        pod("d").index(3).without_finalizer(),
    ];
    for limits in [json!({"backoffLimit": 0}), json!({"backoffLimitPerIndex": 0})] {
        let mut job = job("j").indexed(4, 4).spec_field("successPolicy", policy.clone());
        for (field, value) in limits.as_object().unwrap() {
            job = job.spec_field(field, value.clone());
        }
        let world = job.with_pods(pods.clone());
        assert_eq!(
            (world.job_end_text().as_deref(), world.describe_scaling().as_str()),
            (Some(MET), "delete uncounted d"),
            "{limits}"
        );
        let status = world.first_status();
        assert_eq!((status.uncounted_terminated_pods.failed.len(), status.terminating), (0, Some(2)), "{limits}");
        assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "b"]);
    }
}

#[test]
fn a_terminating_pod_has_failed_however_the_job_ends() {
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    let job = job("j").indexed(3, 3).spec_field("successPolicy", policy);
    let pods = [pod("a").index(0).succeeded(), pod("b").index(1).deleting()];
    let world = job.clone().with_pods(pods.clone());
    assert_eq!(
        (world.job_end_text().as_deref(), world.first_status().uncounted_terminated_pods.failed.len()),
        (Some(MET), 1)
    );
    let patient = job.clone().spec_field("podReplacementPolicy", "Failed").with_pods(pods.clone());
    assert_eq!(
        (patient.job_end_text().as_deref(), patient.first_status().uncounted_terminated_pods.failed.len()),
        (Some(MET), 0)
    );
    assert_eq!(
        job.clone().spec_field("backoffLimit", 0).with_pods(pods.clone()).job_end_text().as_deref(),
        Some(BACKOFF)
    );
    let limited = job.spec_field("backoffLimitPerIndex", 0).with_pods(pods);
    assert_eq!(limited.first_status().failed_indexes.as_deref(), Some("1"));

    let going = || [pod("a").index(0).deleting(), pod("b").index(1).deleting()];
    let late = || crate::world::job("j").indexed(2, 2).spec_field("activeDeadlineSeconds", 5);
    assert_eq!(late().with_pods(going()).job_end_text().as_deref(), Some(DEADLINE));
    let both = late().spec_field("backoffLimit", 0).with_pods(going());
    assert_eq!(
        (both.job_end_text().as_deref(), both.first_status().uncounted_terminated_pods.failed.len()),
        (Some(BACKOFF), 2)
    );
}

/// JOB-53.
#[test]
fn the_end_is_written_once_all_pods_are_counted_and_none_is_terminating() {
    let world = job("j").with_pods([pod("a").succeeded()]);
    let (job, end, mut status) =
        (world.job.build_job(), world.plan().first_status_write.job_end_to_write.unwrap(), world.first_status());
    assert!(
        !second_status::add_end_to_status(&job, &mut status.clone(), &end, 0, sync_time_plus_seconds(9)),
        "a Pod is not counted yet"
    );
    assert!(second_status::count_listed_pods_without_finalizer(&mut status, &common::map::HashSet::default()));
    assert!(
        !second_status::add_end_to_status(&job, &mut status.clone(), &end, 1, sync_time_plus_seconds(9)),
        "a Pod is still terminating"
    );
    assert!(second_status::add_end_to_status(&job, &mut status, &end, 0, sync_time_plus_seconds(9)));
    let kinds: Vec<&str> = status.conditions.iter().map(|c| &*c.kind).collect();
    assert_eq!(kinds, ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(
        (status.succeeded, status.completion_time, status.uncounted_terminated_pods.len()),
        (1, Some(sync_time_plus_seconds(9)), 0)
    );
}

/// JOB-74.
#[test]
fn no_end_is_before_its_start() {
    let world =
        job("j").status_field("startTime", sync_time_plus_seconds(500).to_string()).with_pods([pod("a").succeeded()]);
    let (job, end, mut status) =
        (world.job.build_job(), world.plan().first_status_write.job_end_to_write.unwrap(), world.first_status());
    second_status::count_listed_pods_without_finalizer(&mut status, &common::map::HashSet::default());
    assert!(second_status::add_end_to_status(&job, &mut status, &end, 0, sync_time_plus_seconds(0)));
    assert_eq!(status.completion_time, Some(sync_time_plus_seconds(500)));
}

/// JOB-73.
#[test]
fn a_job_that_fails_while_suspended_gets_the_start_time_that_servers_require() {
    let suspended =
        job("j").spec_field("suspend", true).spec_field("backoffLimit", 0).status_field("startTime", json!(null));
    let world = suspended.with_pods([pod("a").failed()]);
    let (job, end, mut status) =
        (world.job.build_job(), world.plan().first_status_write.job_end_to_write.unwrap(), world.first_status());
    assert_eq!(status.start_time, None);
    second_status::count_listed_pods_without_finalizer(&mut status, &common::map::HashSet::default());
    assert!(second_status::add_end_to_status(&job, &mut status, &end, 0, sync_time_plus_seconds(7)));
    assert_eq!((status.start_time, status.completion_time), (Some(sync_time_plus_seconds(7)), None));
}

/// JOB-14, JOB-81.
#[test]
fn a_terminating_job_removes_the_finalizer_of_every_pod_it_controls() {
    let other = || json!({"job": "other"});
    let pods = || {
        [
            pod("mine"),
            pod("changed").labels(other()),
            pod("done").labels(other()).succeeded(),
            pod("plain").labels(other()).without_finalizer(),
            pod("sent").labels(other()),
            pod("orphan").orphan().labels(other()),
        ]
    };
    let world = |job: crate::world::JobBuilder| job.with_pods(pods()).with_removed_finalizers(&["sent"]);
    let lives = world(job("j").completions(Some(9), 9));
    assert_eq!(lives.uncounted_pod_names_losing_finalizer(), [""; 0], "a Job that stays releases them");
    let snapshot = lives.snapshot();
    let released: Vec<&str> = snapshot.pod_claims.to_release.iter().map(|pod| &*pod.meta().name).collect();
    assert_eq!(released, ["changed", "done", "plain", "sent"]);
    let deleted = || job("j").completions(Some(9), 9).deleting();
    let dies = world(deleted());
    assert_eq!(
        (dies.uncounted_pod_names_losing_finalizer(), dies.counted_pod_names_losing_finalizer()),
        (vec!["changed".into(), "done".into()], vec!["mine".to_owned()])
    );
    assert!(
        dies.first_status().uncounted_terminated_pods.is_empty() && dies.snapshot().pod_claims.to_release.is_empty(),
        "they are not counted"
    );
    let unknown = world(deleted().spec_field("completionMode", "Odd"));
    assert_eq!(
        unknown.uncounted_pod_names_losing_finalizer(),
        ["changed", "done", "mine"],
        "no controller counts them"
    );
    let broken = world(deleted().spec_field("selector", json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]})));
    assert_eq!(broken.uncounted_pod_names_losing_finalizer(), ["mine", "changed", "done"]);
    for job in [deleted().spec_field("managedBy", "example.com/queue"), deleted().condition("Failed", "True", "R", "m")]
    {
        assert_eq!(
            world(job).uncounted_pod_names_losing_finalizer(),
            [""; 0],
            "another loop or controller handles them"
        );
    }
}
