//! Tests with single nodes that send no heartbeats, report that they are not ready, recover or are replaced.

use crate::world::*;

/// Name of the Leases in the sandbox's request counters.
const LEASES: &str = "leases.coordination.k8s.io";

/// Seconds from the end of a node's heartbeats to the pass that writes its conditions: the grace period minus the age of the
/// last renewal, plus the pause between two passes and the duration of requests.
const SILENT: std::ops::RangeInclusive<u64> = 40..=57;

/// NODE-6, NODE-8, NODE-22, NODE-45, NODE-55, NODE-73.
#[tokio::test(start_paused = true)]
async fn a_silent_node_gets_conditions_and_taints_and_its_pods_leave() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.wait(20).await;
    cluster.nodes().silence("node-1").unwrap();
    let silent = until(&cluster, "node-1", 60, |node| status(node, "Ready") == "Unknown").await;
    assert!(SILENT.contains(&silent), "{silent}");
    cluster.wait(1).await;
    let node = cluster.get("nodes", "node-1").await;
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let lapsed = condition(&node, kind);
        assert_eq!(pick(&lapsed, "status reason"), json!(["Unknown", "NodeStatusUnknown"]), "{kind}");
        assert_eq!(lapsed["message"], "Kubelet stopped posting node status.");
        assert_ne!(lapsed["lastHeartbeatTime"], lapsed["lastTransitionTime"], "{kind}: the time of the report stays");
    }
    assert_eq!(
        (taints(&node, "NoSchedule"), taints(&node, "NoExecute")),
        (vec![UNREACHABLE.into()], vec![UNREACHABLE.into()])
    );
    let pod = cluster.find("pods", "p").await.unwrap();
    assert_eq!(status(&pod, "Ready"), "False");
    let of_node = cluster.events_in("default").await;
    assert!(of_node.contains(&"Normal NodeNotReady Node node-1 status is now: NodeNotReady".to_owned()), "{of_node:?}");
    assert_eq!(cluster.events_in(NAMESPACE).await, ["Warning NodeNotReady Node is not ready"]);
    cluster.wait(290).await;
    assert!(
        condition(&cluster.find("pods", "p").await.unwrap(), "DisruptionTarget").is_null(),
        "the Pod may stay five minutes"
    );
    cluster.wait(20).await;
    let pod = cluster.find("pods", "p").await.unwrap();
    assert!(!pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    assert_eq!(tainted_nodes(&cluster).await, ["node-1"], "no other node");
}

/// NODE-25, NODE-51.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_loses_its_taints_and_its_pods_stay() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    cluster.wait(100).await;
    cluster.nodes().restore("node-1").unwrap();
    let back = until(&cluster, "node-1", 60, |node| node["spec"]["taints"].is_null()).await;
    assert!(back <= 6, "{back}");
    cluster.wait(600).await;
    let pod = cluster.find("pods", "p").await.unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
    let cancelled = format!("Normal TaintManagerEviction Cancelling deletion of Pod {NAMESPACE}/p");
    assert!(cluster.events_in(NAMESPACE).await.contains(&cancelled));
}

/// Pods are not evicted while their node renews its Lease, and are evicted when it stops. The Lease on the server decides, not
/// the status of the node.
/// NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_taint_that_cannot_be_removed_evicts_no_pod_of_a_healthy_node() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    cluster.wait(290).await;
    cluster.nodes().restore("node-1").unwrap();
    let faults = cluster.sandbox.faults();
    faults.add(rule(Action::InternalError, "patch", "nodes"));
    cluster.wait(1800).await;
    let is_terminating = async || !cluster.find("pods", "p").await.unwrap()["metadata"]["deletionTimestamp"].is_null();
    assert_eq!(taints(&cluster.get("nodes", "node-1").await, "NoExecute"), [UNREACHABLE], "the taint stays");
    assert!(!is_terminating().await, "its node is alive");
    let read = cluster.count("get", LEASES);
    cluster.wait(600).await;
    assert!(cluster.count("get", LEASES) - read <= 40, "one read every 15 seconds");
    // The conditions cannot be written either, so only the missing heartbeats show that the node has failed.
    faults.add(rule(Action::InternalError, "patch", "nodes/status"));
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(40).await;
    assert!(!is_terminating().await, "the grace period has not passed");
    cluster.wait(40).await;
    assert!(is_terminating().await);
}

/// NODE-23, NODE-24, NODE-46, NODE-83.
#[tokio::test(start_paused = true)]
async fn a_node_that_reports_not_ready_is_tainted_by_the_next_pass_and_its_pods_are_not_marked() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.wait(10).await;
    cluster.nodes().set_condition("node-1", "Ready", false).unwrap();
    cluster.nodes().set_condition("node-1", "MemoryPressure", true).unwrap();
    cluster.wait(1).await;
    let node = cluster.get("nodes", "node-1").await;
    assert_eq!(taints(&node, "NoSchedule").len(), 2, "{node}");
    let tainted = until(&cluster, "node-1", 10, |node| taints(node, "NoExecute") == [NOT_READY]).await;
    assert!(tainted <= 5, "{tainted}");
    assert_eq!(status(&cluster.find("pods", "p").await.unwrap(), "Ready"), "True");
    assert!(!cluster.events_in("default").await.iter().any(|event| event.contains("NodeNotReady")));
    // When the node also stops its heartbeats, one write replaces the taint `not-ready` by `unreachable`.
    cluster.nodes().silence("node-1").unwrap();
    let since = cluster.clock.now();
    until(&cluster, "node-1", 90, |node| taints(node, "NoExecute") == [UNREACHABLE]).await;
    let both = |(_, node): &(i64, Value)| taints(node, "NoExecute").len() == 2;
    assert!(!node_writes(&cluster, "node-1", since).iter().any(both));
}

/// NODE-6, NODE-9, NODE-22.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_reports_gets_its_conditions_after_the_startup_grace_period() {
    let cluster = live_world(live_cluster(3)).await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}})).await;
    cluster.wait(1).await;
    assert!(
        taints(&cluster.get("nodes", "new").await, "NoSchedule").is_empty(),
        "the taint that admission added is removed"
    );
    let silent = until(&cluster, "new", 90, |node| status(node, "Ready") == "Unknown").await;
    assert!((58..=72).contains(&silent), "{silent}");
    let node = cluster.get("nodes", "new").await;
    let ready = condition(&node, "Ready");
    assert_eq!(pick(&ready, "reason message"), json!(["NodeStatusNeverUpdated", "Kubelet never posted node status."]));
    assert_eq!(ready["lastHeartbeatTime"], node["metadata"]["creationTimestamp"]);
    assert!(!cluster.events_in("default").await.iter().any(|event| event.contains("NodeNotReady")));
}

/// NODE-73.
#[tokio::test(start_paused = true)]
async fn additions_and_removals_of_nodes_are_reported_as_events() {
    let cluster = live_world(live_cluster(1)).await;
    cluster.nodes().remove("node-0").unwrap();
    cluster.wait(10).await;
    assert_eq!(
        cluster.events_in("default").await,
        [
            "Normal RegisteredNode Node node-0 event: Registered Node node-0 in Controller",
            "Normal RemovingNode Node node-0 event: Removing Node node-0 from Controller"
        ]
    );
}

/// NODE-22, NODE-29.
#[tokio::test(start_paused = true)]
async fn copied_labels_and_the_taint_of_cordoned_nodes_are_kept_up_to_date() {
    let cluster = live_world(live_cluster(3)).await;
    let stale = json!({"beta.kubernetes.io/os": "windows", "beta.kubernetes.io/arch": null});
    cluster.label("nodes", "node-0", stale).await;
    cluster.change(json!({"unschedulable": true})).await;
    cluster.wait(1).await;
    let node = cluster.subject().await;
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/os"], "linux");
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/arch"], "amd64");
    assert_eq!(taints(&node, "NoSchedule"), ["node.kubernetes.io/unschedulable"]);
    cluster.change(json!({"unschedulable": null})).await;
    cluster.wait(1).await;
    assert!(cluster.subject().await["spec"]["taints"].is_null());
}

/// NODE-27.
#[tokio::test(start_paused = true)]
async fn taints_that_others_write_at_the_same_time_stay() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    // Because of the latency, another client can change the node between the read and the write of each change.
    let slow = rule(Action::Latency(Duration::from_millis(300)), "patch", "nodes");
    cluster.fault(slow);
    until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    for n in 0..4 {
        let mut all = cluster.get("nodes", "node-1").await["spec"]["taints"].as_array().cloned().unwrap_or_default();
        all.push(json!({"key": format!("example.com/{n}"), "effect": "NoExecute"}));
        cluster.patch("nodes", "node-1", json!({"spec": {"taints": all}})).await;
        cluster.wait(0.25).await;
    }
    cluster.wait(60).await;
    let mut keys = taints(&cluster.get("nodes", "node-1").await, "NoExecute");
    keys.sort();
    assert_eq!(keys, ["example.com/0", "example.com/1", "example.com/2", "example.com/3", UNREACHABLE]);
}

/// NODE-7.
#[tokio::test(start_paused = true)]
async fn a_node_re_created_under_its_name_has_its_own_grace_period() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(45).await;
    cluster.delete("nodes", "node-1").await;
    let again = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.create(again).await;
    cluster.wait(40).await;
    assert_eq!(status(&cluster.get("nodes", "node-1").await, "Ready"), "True");
    until(&cluster, "node-1", 30, |node| status(node, "Ready") == "Unknown").await;
}

/// NODE-47.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_to_a_lost_node_is_marked() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    let late = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    cluster.create(late).await;
    cluster.patch_pod_status("late", ready_condition("True")).await;
    cluster.wait(1).await;
    assert_eq!(status(&cluster.find("pods", "late").await.unwrap(), "Ready"), "True", "the Pod is not bound to a node");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late", "namespace": NAMESPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/late/binding");
    cluster.sandbox.send(Method::POST, &path, "application/json", Some(&binding)).await.unwrap();
    cluster.wait(1).await;
    let late = cluster.find("pods", "late").await.unwrap();
    assert_eq!((&late["spec"]["nodeName"], status(&late, "Ready")), (&json!("node-1"), "False"));
    assert_eq!(cluster.events_in(NAMESPACE).await, ["Warning NodeNotReady Node is not ready"]);
}

/// NODE-47.
#[tokio::test(start_paused = true)]
async fn a_pod_created_on_a_lost_node_has_the_condition_of_its_kubelet() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| status(node, "Ready") == "Unknown").await;
    create_pod(&cluster, "late", "node-1", json!(null)).await;
    cluster.wait(1).await;
    assert_eq!(
        status(&cluster.find("pods", "late").await.unwrap(), "Ready"),
        "none",
        "the Pod never reported that it was ready"
    );
    cluster.patch_pod_status("late", ready_condition("True")).await;
    cluster.wait(1).await;
    assert_eq!(
        status(&cluster.find("pods", "late").await.unwrap(), "Ready"),
        "True",
        "the condition of the kubelet stays"
    );
}

/// NODE-2.
#[tokio::test(start_paused = true)]
async fn nodes_that_renew_their_leases_cost_no_request() {
    let cluster = live_world(live_cluster(100)).await;
    cluster.wait(60).await;
    let counted = || cluster.count_all();
    let watches = || {
        ["pods", "nodes", "leases.coordination.k8s.io"]
            .map(|resource| cluster.count("watch", resource))
            .iter()
            .sum::<u64>()
    };
    let (before, watched) = (counted(), watches());
    cluster.wait(3600).await;
    assert_eq!(counted() - before, watches() - watched, "only watches that were opened again");
    assert_eq!(unknown_count(&cluster).await, 0);
}

/// A node that renews its Lease is alive even if it does not report its status. Its condition `Unknown` and its taint, which
/// this program wrote, evict no Pod.
/// NODE-11, NODE-59, NODE-87.
#[tokio::test(start_paused = true)]
async fn a_node_that_renews_its_lease_and_reports_nothing_keeps_its_pods() {
    let cluster = live_world(live_cluster(6)).await;
    create_pod(&cluster, "p", "node-1", json!(null)).await;
    cluster.nodes().silence("node-1").unwrap();
    until(&cluster, "node-1", 90, |node| !taints(node, "NoExecute").is_empty()).await;
    cluster.wait(200).await;
    cluster.nodes().renew_only("node-1").unwrap();
    // A new Pod on the node is not evicted either.
    cluster.wait(60).await;
    let untolerant = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": NAMESPACE},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "img:1"}], "tolerations": [
            {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]}});
    cluster.create(untolerant).await;
    cluster.wait(900).await;
    let node = cluster.get("nodes", "node-1").await;
    assert_eq!((status(&node, "Ready"), taints(&node, "NoExecute")), ("Unknown", vec![UNREACHABLE.to_owned()]));
    let is_terminating =
        async |pod| !cluster.find("pods", pod).await.unwrap()["metadata"]["deletionTimestamp"].is_null();
    assert!(!is_terminating("p").await && !is_terminating("new").await, "its node is alive");
    let read = cluster.count("get", "nodes") + cluster.count("get", LEASES) + cluster.count("get", "pods");
    cluster.wait(600).await;
    let more = cluster.count("get", "nodes") + cluster.count("get", LEASES) + cluster.count("get", "pods") - read;
    assert!(more <= 2 * 2 * 41, "{more} reads: a node and its Lease, once for both Pods or twice, every 15 seconds");
    cluster.nodes().silence("node-1").unwrap();
    cluster.wait(40).await;
    assert!(!is_terminating("p").await, "the grace period has not passed");
    cluster.wait(30).await;
    assert!(is_terminating("p").await && is_terminating("new").await);
}

/// The write of the conditions takes effect but its answer is lost: the Event and the taint follow as usual.
/// NODE-14.
#[tokio::test(start_paused = true)]
async fn an_unanswered_write_of_conditions_delays_neither_the_event_nor_the_taint() {
    let cluster = live_world(live_cluster(6)).await;
    cluster.wait(10).await;
    let lost = rule(Action::CutAfter, "patch", "nodes/status");
    cluster.fault(lost.times(1));
    cluster.nodes().silence("node-1").unwrap();
    let tainted = until(&cluster, "node-1", 120, |node| !taints(node, "NoExecute").is_empty()).await;
    assert!(tainted <= 62, "{tainted}");
    cluster.wait(6).await;
    let events = cluster.events_in("default").await;
    let not_ready: Vec<_> = events.iter().filter(|event| event.contains("NodeNotReady")).collect();
    assert_eq!(not_ready, ["Normal NodeNotReady Node node-1 status is now: NodeNotReady"]);
}

/// The documentation of the crate names each queue of upstream for which this program has no metrics.
/// NODE-75.
#[tokio::test(start_paused = true)]
async fn upstreams_queues_are_served_or_documented() {
    let cluster = live_world(live_cluster(1)).await;
    let (metrics, documentation) = (cluster.metrics(), include_str!("../../src/lib.rs"));
    let is_served = |queue: &str| metrics.contains(&format!("workqueue_adds_total{{name=\"{queue}\"}}"));
    let upstream = [
        "node_lifecycle_controller",
        "node_lifecycle_controller_pods",
        "noexec_taint_node",
        "noexec_taint_pod",
        "orphaned_pods_nodes",
    ];
    let missing: Vec<&str> = upstream.into_iter().filter(|queue| !is_served(queue)).collect();
    assert_eq!(missing, ["noexec_taint_node", "orphaned_pods_nodes"]);
    for queue in missing.into_iter().chain(["pod_garbage_collector", "node_lifecycle_controller_rounds"]) {
        assert!(documentation.contains(&format!("`{queue}`")), "{queue}");
    }
}
