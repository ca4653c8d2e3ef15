//! Decisions about counting finished Pods, and about the order of writes to the status and the finalizers.

use serde_json::json;

use crate::world::{job, pod};

fn named(list: &[common::meta::Uid]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// JOB-40.
#[test]
fn finished_pods_are_listed_before_their_finalizers_are_removed() {
    let world = job("j").completions(Some(5), 5).with_pods([
        pod("a").succeeded(),
        pod("b").failed(),
        pod("c"),
        pod("d").deleting(),
        pod("e").succeeded().without_finalizer(),
    ]);
    let status = world.first_status();
    assert_eq!(named(&status.uncounted_terminated_pods.succeeded), ["a"]);
    assert_eq!(named(&status.uncounted_terminated_pods.failed), ["b", "d"]);
    assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "b", "d"]);
    assert_eq!((status.succeeded, status.failed), (0, 0), "nothing is counted while the finalizer is there");
}

/// JOB-40.
#[test]
fn listed_pods_are_counted_once_their_finalizers_are_removed() {
    let world = job("j")
        .completions(Some(9), 1)
        .status_field("succeeded", 1)
        .status_field("uncountedTerminatedPods", json!({"succeeded": ["a", "b", "x"], "failed": ["c", "d"]}))
        .with_pods([
            pod("a").succeeded(),
            pod("b").succeeded().without_finalizer(),
            pod("c").failed(),
            pod("d").failed(),
        ])
        .with_removed_finalizers(&["d"]);
    let status = world.first_status();
    assert_eq!((status.succeeded, status.failed), (3, 1));
    assert_eq!(
        (named(&status.uncounted_terminated_pods.succeeded), named(&status.uncounted_terminated_pods.failed)),
        (vec!["a".into()], vec!["c".into()])
    );
    assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "c"], "retried");
}

/// JOB-43.
#[test]
fn a_terminating_pod_counts_as_failed_unless_only_failed_pods_are_replaced() {
    let going = || [pod("a").deleting()];
    assert_eq!(named(&job("j").with_pods(going()).first_status().uncounted_terminated_pods.failed), ["a"]);
    let patient = job("j").spec_field("podReplacementPolicy", "Failed").with_pods(going());
    assert!(
        patient.first_status().uncounted_terminated_pods.is_empty()
            && patient.counted_pod_names_losing_finalizer().is_empty()
    );
    assert_eq!(patient.first_status().terminating, Some(1));
}

/// JOB-75.
#[test]
fn a_pod_counted_as_failed_never_counts_as_succeeded() {
    let ledger = json!({"failed": ["a"]});
    let world =
        job("j").status_field("uncountedTerminatedPods", ledger.clone()).with_pods([pod("a").deleting().succeeded()]);
    assert_eq!(world.job_end_text(), None);
    assert!(world.first_status().uncounted_terminated_pods.succeeded.is_empty());
    let indexed = job("j").indexed(1, 1).status_field("uncountedTerminatedPods", ledger);
    let world = indexed.with_pods([pod("a").index(0).deleting().succeeded()]);
    assert_eq!((&*world.first_status().completed_indexes, world.job_end_text()), ("", None));
}

/// JOB-29, JOB-40.
#[test]
fn succeeded_indexes_are_listed_permanently() {
    let world =
        job("j").indexed(8, 8).status_field("completedIndexes", "0,1").status_field("succeeded", 2).with_pods([
            pod("a").index(3).succeeded(),
            pod("b").index(2).succeeded(),
            pod("c").index(1).succeeded(),
            pod("d").index(8).succeeded(),
            pod("e").index("x").succeeded(),
            pod("f").index(5).failed(),
            pod("g").index(9).failed(),
        ]);
    let status = world.first_status();
    assert_eq!((&*status.completed_indexes, status.succeeded, status.failed_indexes), ("0-3", 4, None));
    assert!(status.uncounted_terminated_pods.succeeded.is_empty());
    assert_eq!(named(&status.uncounted_terminated_pods.failed), ["f"]);
    assert_eq!(
        world.counted_pod_names_losing_finalizer(),
        ["e", "c", "b", "a", "f", "d", "g"],
        "by index, and invalid indexes are not counted"
    );
}

/// JOB-31.
#[test]
fn a_job_with_fewer_completions_drops_indexes() {
    let shrunk =
        job("j").indexed(3, 3).status_field("completedIndexes", "0,2-4").status_field("succeeded", 4).with_pods([]);
    let status = shrunk.first_status();
    assert_eq!((&*status.completed_indexes, status.succeeded), ("0,2", 2));
    assert_eq!(shrunk.describe_scaling(), "create 1");
}

/// JOB-75.
#[test]
fn a_counted_pod_does_not_complete_its_index() {
    // The Pod was counted as failed while it was terminating, and then succeeded. The cache still shows its finalizer.
    let pods = [pod("a").index(0).deleting().succeeded()];
    let world = job("j").indexed(2, 2).status_field("failed", 1).with_pods(pods).with_removed_finalizers(&["a"]);
    assert_eq!((&*world.first_status().completed_indexes, world.counted_pod_names_losing_finalizer().len()), ("", 0));
}

/// JOB-44.
#[test]
fn no_pod_is_lost_when_one_status_cannot_list_all() {
    let going = (0..5).map(|n| pod(&format!("go-{n}")).deleting());
    let mut world = job("j")
        .with_pods(going.chain([pod("ok").succeeded()]))
        .with_decision_settings(|limits| limits.max_uncounted_pods = 3);
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.extend(world.job_end_text());
        let released = world.counted_pod_names_losing_finalizer();
        let mut status = world.first_status();
        assert!(status.uncounted_terminated_pods.len() <= 3);
        world.pods = world
            .pods
            .into_iter()
            .map(|p| if released.contains(&p.name()) { p.without_finalizer() } else { p })
            .collect();
        let left = world
            .pods
            .iter()
            .filter(|pod| pod.build().has_tracking_finalizer)
            .map(|pod| pod.build().meta().uid.clone());
        crate::jobs::decide::second_status::count_listed_pods_without_finalizer(&mut status, &left.collect());
        world.job.0["status"] = serde_json::to_value(&status).unwrap();
    }
    let status = world.first_status();
    assert_eq!((status.failed, status.succeeded, status.uncounted_terminated_pods.len()), (5, 1, 0));
    assert!(
        world.counted_pod_names_losing_finalizer().is_empty()
            && !ends.is_empty()
            && ends.iter().all(|end| *end == ends[0]),
        "{ends:?}"
    );
}

/// JOB-77.
#[test]
fn a_full_list_does_not_delay_the_pods_in_it() {
    let pods = (0..9).map(|n| pod(&format!("p{n}")).succeeded());
    let full = json!({"succeeded": ["p1", "p4", "p8"]});
    let world = job("j").completions(Some(9), 9).status_field("uncountedTerminatedPods", full).with_pods(pods);
    let plan = world.with_decision_settings(|limits| limits.max_uncounted_pods = 3).plan();
    let released: Vec<_> = plan
        .first_status_write
        .pod_positions_to_remove_finalizer_from
        .iter()
        .map(|at| plan.pod_summary.pods[*at].pod.meta().name.to_string())
        .collect();
    assert_eq!(
        (released, plan.first_status_write.is_uid_list_full),
        (vec!["p1".into(), "p4".into(), "p8".into()], true)
    );
    let pods = (0..3).map(|n| pod(&format!("p{n}")).succeeded());
    let exactly =
        job("j").completions(Some(3), 3).with_pods(pods).with_decision_settings(|limits| limits.max_uncounted_pods = 3);
    assert!(!exactly.plan().first_status_write.is_uid_list_full, "no Pod has to wait");
}

/// JOB-44.
#[test]
fn one_status_lists_a_limited_number_of_pods() {
    let pods = (0..7).map(|n| pod(&format!("p{n}")).succeeded());
    let world =
        job("j").completions(Some(9), 9).with_pods(pods).with_decision_settings(|limits| limits.max_uncounted_pods = 3);
    let plan = world.plan();
    assert!(plan.first_status_write.is_uid_list_full);
    assert_eq!(named(&plan.first_status_write.status.uncounted_terminated_pods.succeeded), ["p0", "p1", "p2"]);
    assert_eq!(world.counted_pod_names_losing_finalizer().len(), 3);
    let pods = (0..7).map(|n| pod(&format!("p{n}")).index(n).succeeded());
    let indexed = job("j").indexed(9, 9).with_pods(pods).with_decision_settings(|limits| limits.max_uncounted_pods = 3);
    assert_eq!(
        (&*indexed.first_status().completed_indexes, indexed.counted_pod_names_losing_finalizer().len()),
        ("0-6", 3)
    );
}

/// JOB-38, JOB-47.
#[test]
fn ignored_failures_do_not_count_but_delay() {
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}}]});
    let job = job("j").completions(Some(3), 3).spec_field("podFailurePolicy", policy).spec_field("backoffLimit", 1);
    let pods = [
        pod("a").failed_with_exit_code_at(9, -1).condition("DisruptionTarget"),
        pod("b").failed_with_exit_code_at(3, -2),
    ];
    let world = job.with_pods(pods);
    let plan = world.plan();
    assert_eq!(
        (
            plan.pod_summary.failed_pod_count,
            plan.pod_summary.failure_record.failure_count_since_success,
            world.job_end_text()
        ),
        (1, 2, None)
    );
    assert_eq!(named(&plan.first_status_write.status.uncounted_terminated_pods.failed), ["b"]);
    assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "b"]);
    let actions: Vec<_> =
        plan.first_status_write.pod_counts_by_policy_action.iter().map(|(action, n)| (action.as_str(), *n)).collect();
    assert_eq!(actions, [("Ignore", 1), ("Count", 1)]);
    assert_eq!(world.describe_scaling(), "wait 19s for 3");
}

/// JOB-14.
#[test]
fn a_terminating_job_removes_the_finalizers_of_its_pods() {
    let mut world = job("j").completions(Some(5), 5).with_pods([pod("a"), pod("b").succeeded(), pod("c").failed()]);
    world.job = world.job.deleting();
    assert_eq!(world.counted_pod_names_losing_finalizer(), ["a", "b", "c"]);
    let status = world.first_status();
    assert_eq!(
        (named(&status.uncounted_terminated_pods.succeeded), named(&status.uncounted_terminated_pods.failed)),
        (vec!["b".into()], vec!["c".into()])
    );
}

/// JOB-58.
#[test]
fn the_first_status_is_always_written_and_a_settled_one_never() {
    let fresh = job("j")
        .status_field("ready", json!(null))
        .status_field("terminating", json!(null))
        .status_field("startTime", json!(null));
    let postponed = fresh.with_pods([]).with_failure_record(1, 0);
    assert!(postponed.plan().first_status_write.is_status_changed);
    let settled = job("j").status_field("active", 1).status_field("ready", 1).with_pods([pod("a")]);
    assert!(!settled.plan().first_status_write.is_status_changed);
    assert!(settled.explain().actions.is_empty());
}

/// JOB-11.
#[test]
fn an_adopted_pod_counts_at_once() {
    let world = job("j")
        .completions(Some(2), 2)
        .with_pods([pod("a").orphan().succeeded(), pod("b").orphan().labels(json!({}))]);
    let plan = world.plan();
    assert_eq!(world.snapshot().pod_claims.to_adopt.len(), 1);
    assert_eq!(named(&plan.first_status_write.status.uncounted_terminated_pods.succeeded), ["a"]);
    let world = job("j").with_pods([pod("a").labels(json!({}))]);
    assert_eq!((world.snapshot().pod_claims.to_release.len(), world.plan().pod_summary.pods.len()), (1, 0));
}
