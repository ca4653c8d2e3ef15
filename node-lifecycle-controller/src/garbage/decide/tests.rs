use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    garbage::PodGarbageCollector,
    world::{self, garbage_snapshot as empty, node_with_conditions_and_taints, text_set},
};

fn pod(name: &str, hours: i64, mut fields: Value) -> Arc<CachedPod> {
    let created = Timestamp::from_second(1_800_000_000 - 3600 * hours).unwrap();
    fields["metadata"]["creationTimestamp"] = json!(created.to_string());
    world::pod(name, &fields)
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}})
}

fn names(victims: &[PodRemoval]) -> Vec<String> {
    victims.iter().map(|victim| victim.pod.meta.name.to_string()).collect()
}

fn ended() -> Vec<Arc<CachedPod>> {
    let over = || json!({"status": {"phase": "Succeeded"}});
    let evicted = |phase: &str| json!({"status": {"phase": phase, "reason": "Evicted"}});
    vec![
        pod("d", 2, over()),
        pod("a", 5, over()),
        pod("c", 1, evicted("Failed")),
        pod("b", 5, over()),
        pod("e", 1, evicted("Succeeded")),
    ]
}

/// Returns the snapshot of a pass with these finished Pods and this threshold, and no other Pods to remove.
fn with_ended(mut pods: Vec<Arc<CachedPod>>, threshold: i64) -> Snapshot {
    let ended_count = pods.len();
    pods.sort_by(compare_removal_order);
    pods.truncate(excess_finished_pod_count(ended_count, threshold));
    let limits = PodGcSettings { finished_pod_threshold: threshold, ..empty().settings };
    Snapshot { finished_pods_to_remove: pods, finished_pod_count: ended_count, settings: limits, ..empty() }
}

/// Returns the lines with requests that `/debug/explain` shows for a plan.
fn actions(plan: &Plan) -> Vec<String> {
    let forecast =
        common::io::forecast_sync(Timestamp::UNIX_EPOCH, async |io| PodGarbageCollector::act(&empty(), plan, io).await);
    forecast.request_account.map(|account| account.describe_writes()).unwrap_or_default()
}

/// NODE-65.
#[test]
fn the_oldest_of_too_many_ended_pods_are_removed_after_the_evicted_ones() {
    for (threshold, removed) in [
        (4, &["c"][..]),
        (3, &["c", "a"]),
        (2, &["c", "a", "b"]),
        (1, &["c", "a", "b", "d"]),
        (5, &[]),
        (6, &[]),
        (0, &[]),
        (-1, &[]),
        (i64::MIN, &[]),
        (i64::MAX, &[]),
    ] {
        let plan = decide(&with_ended(ended(), threshold));
        assert_eq!(names(&plan.finished_pod_removals), removed, "{threshold}");
        assert!(plan.finished_pod_removals.iter().all(|victim| victim.reason == RemovalReason::Terminated));
        assert_eq!(!actions(&plan).is_empty(), !removed.is_empty());
    }
}

/// NODE-65.
#[test]
fn pods_of_the_same_age_and_name_are_removed_in_the_order_of_their_namespaces() {
    let over = || json!({"status": {"phase": "Succeeded"}});
    let mut other = over();
    other["metadata"] = json!({"namespace": "bazaar"});
    let pods = vec![pod("a", 1, over()), pod("a", 1, other)];
    let plan = decide(&with_ended(pods, 1));
    assert_eq!(plan.finished_pod_removals[0].pod.meta.namespace.as_str(), "bazaar");
}

/// NODE-65.
#[test]
fn only_pending_running_and_unknown_pods_have_not_ended() {
    for (phase, expected) in
        [("Pending", false), ("Running", false), ("Unknown", false), ("", true), ("Succeeded", true), ("Failed", true)]
    {
        assert_eq!(pod("p", 1, json!({"status": {"phase": phase}})).is_finished(), expected, "{phase:?}");
    }
}

/// NODE-66.
#[test]
fn terminating_pods_are_removed_from_nodes_that_are_out_of_service() {
    let taint = "node.kubernetes.io/out-of-service";
    for (ready, taint, removed) in
        [("Unknown", taint, true), ("False", taint, true), ("True", taint, false), ("Unknown", "other", false)]
    {
        let pods = vec![pod("a", 1, terminating())];
        let node = node_with_conditions_and_taints(&[("Ready", ready)], &[(taint, "NoExecute")], false);
        let plan = decide(&Snapshot { terminating_pods_of_out_of_service_nodes: vec![(node, pods)], ..empty() });
        assert_eq!(plan.out_of_service_pod_removals.len(), usize::from(removed), "{ready} {taint}");
        assert_eq!(!actions(&plan).is_empty(), removed);
    }
}

/// NODE-67, NODE-68.
#[test]
fn pods_of_missing_nodes_and_unscheduled_terminating_pods_are_removed() {
    let (missing, origin) = (text_set(&["gone", "fresh"]), empty().now);
    let quarantine = NodeQuarantine::default().quarantine_after_pass(&text_set(&["gone"]), [].iter(), origin);
    let now = origin + Duration::from_secs(40);
    let pods_of_due = BTreeMap::from([(Text::new("gone"), vec![pod("a", 1, json!({}))])]);
    let unscheduled = vec![pod("c", 1, terminating())];
    let plan = decide(&Snapshot {
        terminating_pods_without_node: unscheduled,
        names_of_missing_nodes: missing,
        pods_of_nodes_after_quarantine: pods_of_due,
        quarantine,
        now,
        ..empty()
    });
    assert_eq!((plan.orphaned_pod_removals.len(), &*plan.orphaned_pod_removals[0].node_name), (1, "gone"));
    assert_eq!(names(&plan.orphaned_pod_removals[0].pod_removals), ["a"]);
    assert_eq!(names(&plan.unscheduled_pod_removals), ["c"]);
    assert_eq!(plan.names_of_quarantined_nodes, ["fresh"]);
    assert_eq!(plan.requeue_after(), Some(Duration::from_secs(20)));
    let waiting = plan.wait_reasons();
    assert!(waiting[0].contains("fresh") && waiting[0].ends_with("after 40s"));
    let deletions = actions(&plan).into_iter().filter(|action| action.starts_with("delete"));
    assert_eq!(deletions.count(), 2);
    let period = plan.settings.quarantine_period;
    assert_eq!(
        plan.quarantine.node_names_after_quarantine(&text_set(&["gone"]), now, period).count(),
        0,
        "the quarantine of the node restarts"
    );
}

/// NODE-72.
#[test]
fn a_pass_that_handles_only_some_due_nodes_is_followed_at_once() {
    let origin = empty().now;
    let missing = text_set(&["a", "b"]);
    let quarantine = NodeQuarantine::default().quarantine_after_pass(&missing, [].iter(), origin);
    let now = origin + Duration::from_secs(40);
    let pods_of_due = BTreeMap::from([(Text::new("a"), Vec::new())]);
    let plan = decide(&Snapshot {
        names_of_missing_nodes: missing.clone(),
        pods_of_nodes_after_quarantine: pods_of_due,
        quarantine,
        now,
        ..empty()
    });
    assert_eq!(plan.requeue_after(), Some(PAUSE_AFTER_PARTIAL_PASS));
    let due: Vec<&Text> =
        plan.quarantine.node_names_after_quarantine(&missing, now, plan.settings.quarantine_period).collect();
    assert_eq!(due, [&Text::new("b")]);
}

/// NODE-71, NODE-90.
#[test]
fn a_reason_applies_only_to_the_live_state_of_the_same_pod() {
    let judged = pod("p", 1, json!({"spec": {"nodeName": "n"}}));
    let live = |change: Value| pod("p", 1, change);
    let on_node = || live(json!({"spec": {"nodeName": "n"}}));
    let mut terminating_there = terminating();
    terminating_there["spec"] = json!({"nodeName": "n"});
    let ended = || live(json!({"status": {"phase": "Failed"}}));
    let running = || live(json!({"status": {"phase": "Running"}}));
    for (reason, live, expected) in [
        (RemovalReason::Orphaned, on_node(), true),
        (RemovalReason::Orphaned, running(), false),
        (RemovalReason::OutOfService, live(terminating_there.clone()), true),
        (RemovalReason::OutOfService, on_node(), false),
        (RemovalReason::Unscheduled, live(terminating()), false),
        (RemovalReason::Unscheduled, live(terminating_there), true),
        (RemovalReason::Terminated, ended(), true),
        (RemovalReason::Terminated, running(), false),
    ] {
        assert_eq!(reason.still_applies(&judged, &live), expected, "{reason:?} {live:?}");
        let mut another = CachedPod::clone(&live);
        another.meta.uid = common::meta::Uid::new("another");
        assert!(!reason.still_applies(&judged, &another), "{reason:?}");
    }
}

#[test]
fn an_explanation_lists_a_few_pods_and_counts_the_rest() {
    let unscheduled: Vec<_> = (0..12).map(|n| pod(&format!("p{n}"), 1, terminating())).collect();
    let plan = decide(&Snapshot { terminating_pods_without_node: unscheduled, ..empty() });
    let actions = actions(&plan);
    assert_eq!((actions.len(), actions[10].as_str()), (11, "... and 14 more"));
    assert_eq!(actions[0], "set the phase Failed of Pod p0: it is terminating and has no node (namespace shop)");
}

/// NODE-92.
#[test]
fn a_pod_that_only_finalizers_keep_causes_no_request() {
    let held = |grace: i64, phase: &str| {
        let deleted = json!({"deletionTimestamp": "2026-11-21T09:00:00Z", "deletionGracePeriodSeconds": grace});
        pod("p", 1, json!({"metadata": deleted, "status": {"phase": phase}}))
    };
    let snapshot = |pod: Arc<CachedPod>| Snapshot {
        terminating_pods_without_node: vec![Arc::clone(&pod)],
        terminating_pods_of_out_of_service_nodes: vec![(
            node_with_conditions_and_taints(&[("Ready", "Unknown")], &[("out-of-service", "NoExecute")], false),
            vec![Arc::clone(&pod)],
        )],
        pods_of_nodes_after_quarantine: [(Text::new("gone"), vec![pod])].into(),
        ..empty()
    };
    for (grace, phase, requests) in
        [(0, "Failed", 0), (0, "Succeeded", 0), (0, "Running", 2), (30, "Failed", 1), (30, "Running", 2)]
    {
        // Equal requests share a line.
        let actions = actions(&decide(&snapshot(held(grace, phase))));
        assert_eq!(actions.len(), requests, "{grace} {phase}: {actions:?}");
    }
}
