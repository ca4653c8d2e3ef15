//! Decisions about the number of Pods to create, and about the choice of Pods to delete.

use std::time::Duration;

use common::pod_creation_pauses::{PauseReason, PodCreationPause};
use serde_json::json;

use crate::world::{SyncFixture, job, pod};

fn running(count: usize) -> impl Iterator<Item = crate::world::PodBuilder> {
    (0..count).map(|n| pod(&format!("run-{n}")))
}

fn terminating_pods(count: usize) -> impl Iterator<Item = crate::world::PodBuilder> {
    // These Pods have no finalizer, because they were counted before. Only the number of Pods matters.
    (0..count).map(|n| pod(&format!("go-{n}")).deleting().without_finalizer())
}

fn world(completions: Option<u32>, parallelism: u32, succeeded: i32, active: usize, terminating: usize) -> SyncFixture {
    job("j")
        .completions(completions, parallelism)
        .status_field("succeeded", succeeded)
        .with_pods(running(active).chain(terminating_pods(terminating)))
}

/// JOB-15, JOB-16, JOB-19.
#[test]
fn pods_are_created_and_deleted_up_to_the_wanted_number() {
    for (completions, parallelism, succeeded, active, terminating, want) in [
        (None, 3, 0, 2, 0, "create 1"),
        (None, 3, 1, 2, 0, "nothing"),
        (Some(5), 3, 4, 3, 0, "delete run-0 run-1"),
        (Some(5), 3, 2, 1, 1, "create 2"),
        (Some(5), 0, 0, 2, 0, "delete run-0 run-1"),
        (Some(5), 3, 6, 0, 0, "nothing"),
        (Some(20), 20, 0, 0, 0, "create 20"),
        (Some(2), 20, 0, 0, 0, "create 2"),
        (Some(2000), 2000, 0, 0, 0, "create 500"),
    ] {
        let world = world(completions, parallelism, succeeded, active, terminating);
        assert_eq!(world.describe_scaling(), want, "{completions:?} {parallelism} {succeeded} {active} {terminating}");
    }
}

/// JOB-84, JOB-94.
#[test]
fn a_pause_holds_back_creations_only_and_is_explained() {
    for (reason, in_pause, why, requeue_after) in [
        (PauseReason::NamespaceTerminating, "paused: NamespaceTerminating", "the namespace is terminating", None),
        (
            PauseReason::PodsChangedByAdmission,
            "paused: PodsChangedByAdmission",
            "admission changes them so that they do not belong to their owner, the next attempt is in 8s",
            Some(Duration::from_millis(7500)),
        ),
    ] {
        let pause = PodCreationPause { reason, remaining: Duration::from_millis(7500) };
        for (active, expected) in [(0, in_pause), (3, "nothing"), (5, "delete run-0 run-1")] {
            let mut world = world(Some(9), 3, 0, active, 0);
            world.pod_creation_pause = Some(pause);
            assert_eq!(world.describe_scaling(), expected, "{active} Pods");
            assert_eq!(world.plan().requeue_after, requeue_after.filter(|_| active == 0));
            let line = format!("no Pods are created: {why}");
            assert_eq!(world.explain().waiting.contains(&line), active == 0, "{:?}", world.explain().waiting);
        }
    }
}

/// JOB-17.
#[test]
fn terminating_pods_are_replaced_after_they_finish_if_the_policy_says_so() {
    for (field, value) in [("podReplacementPolicy", json!("Failed")), ("podFailurePolicy", json!({"rules": []}))] {
        let mut world = world(Some(5), 3, 2, 1, 1);
        world.job = world.job.spec_field(field, value);
        assert_eq!(world.describe_scaling(), "create 1", "{field}");
    }
}

/// JOB-19.
#[test]
fn one_sync_deletes_a_limited_number_of_pods() {
    let world = world(Some(9), 2, 0, 7, 0).with_decision_settings(|limits| limits.max_pods_per_sync = 3);
    assert_eq!(world.describe_scaling(), "delete run-0 run-1 run-2");
}

/// JOB-20.
#[test]
fn the_least_useful_pod_is_deleted_first() {
    let pods = [
        pod("ready").created_at(-100),
        pod("younger").created_at(-50),
        pod("unready").unready(),
        pod("pending").phase("Pending").unready(),
        pod("nowhere").without_node(),
    ];
    for (parallelism, want) in [
        (4, "delete nowhere"),
        (3, "delete nowhere pending"),
        (2, "delete nowhere pending unready"),
        (1, "delete nowhere pending unready younger"),
    ] {
        let world = job("j").completions(Some(9), parallelism).with_pods(pods.clone());
        assert_eq!(world.describe_scaling(), want);
    }
}

/// JOB-27.
#[test]
fn the_lowest_missing_indexes_are_created() {
    let pods = [pod("a").index(2), pod("b").index(5).deleting().without_finalizer()];
    let indexed = |replacement: &str| {
        job("j")
            .indexed(8, 4)
            .spec_field("podReplacementPolicy", replacement)
            .status_field("completedIndexes", "0,1,4")
            .status_field("succeeded", 3)
    };
    assert_eq!(indexed("TerminatingOrFailed").with_pods(pods.clone()).describe_scaling(), "create 3 5 6");
    // With the policy `Failed`, the terminating Pod is not replaced yet, so two Pods are created instead of three.
    assert_eq!(indexed("Failed").with_pods(pods.clone()).describe_scaling(), "create 3 6");
    assert_eq!(indexed("Failed").spec_field("parallelism", 5).with_pods(pods).describe_scaling(), "create 3 6 7");
}

/// JOB-28.
#[test]
fn pods_with_wrong_indexes_are_always_deleted() {
    let pods = [
        pod("good").index(0),
        pod("twin-old").index(1).created_at(-500),
        pod("twin-new").index(1).created_at(-50),
        pod("beyond").index(3),
        pod("liar").index("one"),
        pod("blank"),
    ];
    let world = job("j").indexed(3, 3).with_pods(pods.clone());
    assert_eq!(world.describe_scaling(), "delete beyond liar blank twin-new");
    let fewer = job("j").indexed(3, 1).with_pods(pods);
    assert_eq!(fewer.describe_scaling(), "delete beyond liar blank twin-new twin-old");
}

/// JOB-37.
#[test]
fn the_next_pod_waits_after_failures() {
    for (failures, last, want) in [
        (3, -25, "wait 15s for 2"),
        (1, -10, "create 2"),
        (1, -9, "wait 1s for 2"),
        (8, -1, "wait 599s for 2"),
        (0, -1, "create 2"),
    ] {
        let world = job("j").completions(Some(2), 2).with_pods([]).with_failure_record(failures, last);
        assert_eq!(world.describe_scaling(), want, "{failures} {last}");
    }
    let soon = job("j")
        .completions(Some(2), 2)
        .with_pods([])
        .with_failure_record(1, -9)
        .with_decision_settings(|l| l.sync_batch_period *= 3);
    assert_eq!(soon.describe_scaling(), "wait 3s for 2");
}

/// JOB-71.
#[test]
fn active_pods_are_reported_while_a_replacement_waits() {
    let world = job("j").completions(Some(3), 3).with_pods([pod("a"), pod("b")]).with_failure_record(1, -2);
    assert_eq!(world.describe_scaling(), "wait 8s for 1");
    let status = world.first_status();
    assert_eq!((status.active, status.ready), (2, Some(2)));
}

/// JOB-6, JOB-22.
#[test]
fn no_pod_is_created_or_deleted_when_it_is_not_allowed() {
    let missing = || job("j").completions(Some(3), 3).with_pods([pod("a")]);
    assert_eq!(missing().with_pending_writes().describe_scaling(), "not allowed: 2 deleted pods");
    let mut deleting = missing();
    deleting.job = deleting.job.deleting();
    assert_eq!(deleting.describe_scaling(), "deleting");
    for (job, want) in [
        (job("j").spec_field("managedBy", "example.com/x"), "nothing"),
        (job("j").spec_field("completionMode", "Fibonacci"), "nothing"),
        (job("j").condition("Complete", "True", "", ""), "nothing"),
        (job("j").spec_field("selector", json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]})), "nothing"),
    ] {
        let world = job.clone().with_pods([pod("a").failed()]);
        let shown = world.explain();
        assert!(
            crate::jobs::decide::decide(&world.snapshot()).sync_plan.is_err() && shown.actions.is_empty(),
            "{job:?}"
        );
        assert_eq!(job.with_pods([]).describe_scaling(), want);
    }
}

/// JOB-56, JOB-90.
#[test]
fn a_suspended_job_runs_no_pods_and_reports_it() {
    let suspended =
        job("j").completions(Some(3), 3).spec_field("suspend", true).with_pods([pod("a"), pod("b").unready()]);
    assert_eq!(suspended.describe_scaling(), "suspend a b");
    let status = suspended.first_status();
    assert_eq!((status.active, status.ready, status.terminating), (0, Some(0), Some(2)));
    assert_eq!(status.start_time, None);
    let condition = &status.conditions[0];
    assert_eq!(
        (&*condition.kind, &*condition.status, &*condition.reason, &*condition.message),
        ("Suspended", "True", "JobSuspended", "Job suspended")
    );
    assert!(condition.last_probe_time.is_some() && condition.last_probe_time == condition.last_transition_time);
    assert!(suspended.counted_pod_names_losing_finalizer().is_empty(), "deleted Pods are not counted");
    let kept = suspended.with_decision_settings(|limits| limits.clears_start_time_on_suspend = false);
    assert!(kept.first_status().start_time.is_some());
}

/// JOB-57.
#[test]
fn a_suspended_job_is_suspended_once() {
    let suspended = job("j").spec_field("suspend", true).status_field("startTime", json!(null)).condition(
        "Suspended",
        "True",
        "JobSuspended",
        "Job suspended",
    );
    let plan = suspended.with_pods([]).plan();
    assert!(plan.first_status_write.suspension_change.is_none() && !plan.first_status_write.is_status_changed);
}

/// JOB-56, JOB-57.
#[test]
fn a_resumed_job_starts_again() {
    let resumed = job("j")
        .completions(Some(3), 2)
        .status_field("startTime", json!(null))
        .condition("Suspended", "True", "JobSuspended", "Job suspended")
        .with_pods([]);
    assert_eq!(resumed.describe_scaling(), "create 2");
    let status = resumed.first_status();
    assert_eq!(status.start_time, Some(crate::world::sync_time_plus_seconds(0)));
    assert_eq!((&*status.conditions[0].status, &*status.conditions[0].reason), ("False", "JobResumed"));
    let never = job("j").status_field("startTime", json!(null)).with_pods([]).first_status();
    assert!(never.conditions.is_empty() && never.start_time.is_some());
}

/// JOB-57.
#[test]
fn a_job_that_may_not_be_scaled_now_is_neither_suspended_nor_resumed() {
    let suspended = job("j").spec_field("suspend", true).with_pods([pod("a")]).with_pending_writes();
    assert!(suspended.plan().first_status_write.suspension_change.is_none());
    let mut deleting = job("j").spec_field("suspend", true).with_pods([pod("a")]);
    deleting.job = deleting.job.deleting();
    assert!(deleting.plan().first_status_write.suspension_change.is_none());
}
