//! What node-lifecycle-controller promises for nodes that report trouble, fall silent and come back.
//!
//! Each test has nodes of its own whose kubelets it plays, in a zone of their own. The other nodes of the cluster renew their
//! Leases.

use std::future::Future;

use testkit::scene::prelude::*;

use super::lost_node::is_leaving;

const FLAGS: &[&str] = &[
    "--node-monitor-period=500ms",
    "--node-monitor-grace-period=8s",
    "--node-startup-grace-period=10s",
    "--node-eviction-rate=10",
    "--secondary-node-eviction-rate=0.5",
    "--large-cluster-size-threshold=5",
];
/// How often the other nodes renew their Leases: several times in a grace period.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often the nodes of a test do.
const RENEWAL: Duration = Duration::from_secs(1);
/// Twice the grace period, almost: long enough to see that a node is not found silent.
const GRACES: Duration = Duration::from_secs(15);
/// The grace period of a node that has never reported, which is longer than that of others.
const STARTUP_GRACE: Duration = Duration::from_secs(10);
/// Several passes: long enough to see that nothing happens.
const PASSES: Duration = Duration::from_secs(3);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The conditions that the controller writes for a silent node.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

suite! {
    Suite::new("node_lifecycle")
        .controller(&node_lifecycle_controller::DEFINITION, FLAGS)
        .nodes(|nodes| nodes.heartbeat(Some(HEARTBEAT)))
        .at_once(24);
    SIMULATED.sample() =>
        a_silent_node_is_unknown_and_its_pods_are_not_ready pods_leave_a_node_that_is_not_ready_after_their_own_time;
    SIMULATED =>
        a_node_is_tainted_while_it_is_not_ready_or_silent a_node_that_renews_its_lease_stays_ready
        a_cordoned_node_has_a_taint_and_labels_have_copies a_node_under_pressure_is_tainted_until_it_is_not
        a_node_that_never_reports_becomes_unknown the_taints_of_others_stay
        a_pod_that_is_bound_to_a_node_that_is_not_ready_is_marked nodes_come_and_go_with_events
        a_zone_without_a_ready_node_is_tainted no_node_of_a_small_zone_is_tainted_while_most_are_not_ready
        nodes_of_a_large_zone_are_tainted_slowly_while_most_are_not_ready
        excluded_nodes_do_not_count_for_their_zone
        pods_leave_a_silent_node_and_stay_on_one_that_returns;
}

/// The name of one more node of the test.
fn nth(c: &Context, n: usize) -> String {
    format!("{}-{n}", c.namespace())
}

/// Creates a node that has reported nothing yet, in the zone of the test.
async fn register(c: &Context, node: &str, labels: Value) -> Outcome {
    let mut all = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
        "topology.kubernetes.io/zone": c.namespace()});
    for (label, value) in labels.as_object().into_iter().flatten() {
        all[label] = value.clone();
    }
    let metadata = json!({"name": node, "labels": all});
    c.create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})).await?;
    Ok(())
}

/// Reports conditions of a node, as its kubelet would.
async fn report(c: &Context, node: &str, conditions: &[(&str, &str)]) -> Outcome {
    let known = c.get(NODES, node).await?;
    let version: u64 = known["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    // Only that it differs from the last one matters.
    let time = format!("2026-01-01T00:{:02}:{:02}Z", version / 60 % 60, version % 60);
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "reason": "KubeletReports", "message": "ok", "lastHeartbeatTime": time});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    c.merge_status(NODES, node, json!({"status": {"conditions": conditions}})).await?;
    Ok(())
}

/// Creates the test's node, which is ready.
async fn node(c: &Context) -> Outcome {
    register(c, c.namespace(), json!({})).await?;
    report(c, c.namespace(), &[("Ready", "True")]).await
}

/// Creates a Pod on the test's node that is ready.
async fn pod(c: &Context, name: &str, tolerations: Value) -> Outcome {
    c.create(PODS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": c.namespace(), "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}}))
        .await?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    c.merge_status(PODS, name, ready).await?;
    Ok(())
}

/// The keys of a node's taints of an effect.
async fn taints_of(c: &Context, node: &str, effect: &str) -> Vec<String> {
    let node = c.get(NODES, node).await.unwrap_or_default();
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let of = all.iter().filter(|taint| taint["effect"] == effect);
    of.filter_map(|taint| taint["key"].as_str().map(str::to_owned)).collect()
}

async fn taints(c: &Context, effect: &str) -> Vec<String> {
    taints_of(c, c.namespace(), effect).await
}

/// Waits until the test's node has taints of both effects with these keys only.
async fn until_taints(c: &Context, keys: &[&str]) -> Outcome {
    c.until(&format!("the taints {keys:?}"), async || {
        let both = [taints(c, "NoSchedule").await, taints(c, "NoExecute").await];
        both.iter().all(|found| found == keys).then_some(())
    })
    .await
}

/// Waits until the test's node has `NoSchedule` taints with these keys only.
async fn until_no_schedule(c: &Context, keys: &[&str]) -> Outcome {
    c.until(&format!("the taints {keys:?}"), async || (taints(c, "NoSchedule").await == keys).then_some(())).await
}

/// Waits as [`until_taints`] does; until then the node must have a `NoExecute` taint at every moment.
async fn until_changed(c: &Context, key: &str) -> Outcome {
    let is_free = std::cell::Cell::new(false);
    c.until(key, async || {
        let [schedule, execute] = [taints(c, "NoSchedule").await, taints(c, "NoExecute").await];
        is_free.set(is_free.get() || execute.is_empty());
        (is_free.get() || (schedule == [key] && execute == [key])).then_some(())
    })
    .await?;
    c.check(!is_free.get(), "it has a NoExecute taint all along").await
}

async fn until_marked(c: &Context, pod: &str) -> Outcome {
    c.until("the Pod to be marked", async || {
        let pod = c.get(PODS, pod).await.ok()?;
        condition(&pod, "Ready").filter(|ready| ready["status"] == "False").map(drop)
    })
    .await?;
    let event = "Warning NodeNotReady Node is not ready".to_owned();
    c.until("an Event", async || c.events_of("Pod", pod).await.ok()?.contains(&event).then_some(())).await
}

async fn renew(c: &Context, node: &str) -> Outcome {
    let time = c.clock().now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({"renewTime": time});
    let patched =
        c.client().patch(LEASES, "kube-node-lease", node, "", PatchKind::Merge, &json!({ "spec": spec })).await;
    if patched.is_err_and(|refused| refused.code == 404) {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": node, "namespace": "kube-node-lease"}, "spec": spec});
        c.client().create(LEASES, "kube-node-lease", &lease).await?;
    }
    Ok(())
}

/// Does something while these nodes renew their Leases.
async fn while_renewed(c: &Context, nodes: &[String], body: impl Future<Output = Outcome>) -> Outcome {
    let renewals = async {
        loop {
            for node in nodes {
                if let Err(failure) = renew(c, node).await {
                    return failure;
                }
            }
            c.sleep(RENEWAL).await;
        }
    };
    tokio::select! {
        done = body => done,
        failure = renewals => Err(failure),
    }
}

/// Does something while the test's node renews its Lease.
async fn while_alive(c: &Context, body: impl Future<Output = Outcome>) -> Outcome {
    while_renewed(c, &[c.namespace().to_owned()], body).await
}

/// NODE-23, NODE-24, NODE-25, NODE-46, NODE-83.
async fn a_node_is_tainted_while_it_is_not_ready_or_silent(c: Context) -> Outcome {
    node(&c).await?;
    while_alive(&c, async {
        until_taints(&c, &[]).await?;
        for (ready, keys) in [("False", &[NOT_READY][..]), ("True", &[]), ("False", &[NOT_READY])] {
            report(&c, c.namespace(), &[("Ready", ready)]).await?;
            until_taints(&c, keys).await?;
        }
        has_no_event(&c, "NodeNotReady").await
    })
    .await?;
    until_changed(&c, UNREACHABLE).await?;
    while_alive(&c, async {
        report(&c, c.namespace(), &[("Ready", "False")]).await?;
        until_changed(&c, NOT_READY).await
    })
    .await
}

/// NODE-6, NODE-8, NODE-22, NODE-45.
async fn a_silent_node_is_unknown_and_its_pods_are_not_ready(c: Context) -> Outcome {
    register(&c, c.namespace(), json!({})).await?;
    let reported = CONDITIONS.map(|kind| (kind, if kind == "Ready" { "True" } else { "False" }));
    report(&c, c.namespace(), &[&reported[..], &[("NetworkUnavailable", "False")]].concat()).await?;
    let before = c.get(NODES, c.namespace()).await?;
    pod(&c, "p", json!([])).await?;
    until_taints(&c, &[UNREACHABLE]).await?;
    let node = c.get(NODES, c.namespace()).await?;
    for kind in CONDITIONS {
        let [then, now] = [&before, &node].map(|node| condition(node, kind).cloned().unwrap_or_default());
        let expected = ["Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."];
        let found = ["status", "reason", "message"].map(|field| now[field].as_str().unwrap_or_default());
        c.check(found == expected, &format!("{kind} says that its kubelet is silent: {now}")).await?;
        c.check(now["lastHeartbeatTime"] == then["lastHeartbeatTime"], "the time of the last report stays").await?;
    }
    let [then, now] = [&before, &node].map(|node| condition(node, "NetworkUnavailable").cloned());
    c.check(then == now, "nothing is said of its network").await?;
    until_marked(&c, "p").await?;
    report(&c, c.namespace(), &[("Ready", "True")]).await?;
    until_taints(&c, &[]).await
}

async fn a_node_that_renews_its_lease_stays_ready(c: Context) -> Outcome {
    node(&c).await?;
    while_alive(&c, async {
        c.stays("it is ready", GRACES, async || {
            let node = c.get(NODES, c.namespace()).await.unwrap_or_default();
            condition(&node, "Ready").is_some_and(|ready| ready["status"] == "True")
        })
        .await
    })
    .await
}

/// NODE-22, NODE-29.
async fn a_cordoned_node_has_a_taint_and_labels_have_copies(c: Context) -> Outcome {
    node(&c).await?;
    c.merge(NODES, c.namespace(), json!({"spec": {"unschedulable": true}})).await?;
    until_no_schedule(&c, &["node.kubernetes.io/unschedulable"]).await?;
    let until_copied = async || {
        c.until("the labels", async || {
            let node = c.get(NODES, c.namespace()).await.ok()?;
            let labels = &node["metadata"]["labels"];
            (labels["beta.kubernetes.io/os"] == "linux" && labels["beta.kubernetes.io/arch"] == "arm64").then_some(())
        })
        .await
    };
    until_copied().await?;
    c.merge(NODES, c.namespace(), json!({"metadata": {"labels": {"beta.kubernetes.io/arch": "other"}}})).await?;
    until_copied().await?;
    c.merge(NODES, c.namespace(), json!({"spec": {"unschedulable": null}})).await?;
    until_no_schedule(&c, &[]).await
}

/// NODE-22.
async fn a_node_under_pressure_is_tainted_until_it_is_not(c: Context) -> Outcome {
    let pairs = [
        ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ];
    node(&c).await?;
    while_alive(&c, async {
        for (kind, key) in pairs {
            report(&c, c.namespace(), &[("Ready", "True"), (kind, "True")]).await?;
            until_no_schedule(&c, &[key]).await?;
            report(&c, c.namespace(), &[("Ready", "True"), (kind, "False")]).await?;
        }
        until_taints(&c, &[]).await?;
        report(&c, c.namespace(), &pairs.map(|(kind, _)| (kind, "True"))).await?;
        c.until("all taints", async || {
            let found = taints(&c, "NoSchedule").await;
            (found.len() == pairs.len() && pairs.iter().all(|(_, key)| found.iter().any(|k| k == key))).then_some(())
        })
        .await?;
        c.check(taints(&c, "NoExecute").await.is_empty(), "Pods may stay").await?;
        report(&c, c.namespace(), &pairs.map(|(kind, _)| (kind, "Unknown"))).await?;
        until_taints(&c, &[]).await
    })
    .await
}

/// NODE-6, NODE-9, NODE-22.
async fn a_node_that_never_reports_becomes_unknown(c: Context) -> Outcome {
    let since = c.clock().monotonic_now();
    register(&c, c.namespace(), json!({})).await?;
    until_taints(&c, &[UNREACHABLE]).await?;
    let waited = c.clock().monotonic_now() - since;
    c.check(waited >= STARTUP_GRACE, &format!("it has its own grace period, and not only {waited:?}")).await?;
    let node = c.get(NODES, c.namespace()).await?;
    for kind in CONDITIONS {
        let found = condition(&node, kind).cloned().unwrap_or_default();
        let is_said =
            found["reason"] == "NodeStatusNeverUpdated" && found["message"] == "Kubelet never posted node status.";
        c.check(is_said && found["status"] == "Unknown", &format!("{kind}: {found}")).await?;
        let created = &node["metadata"]["creationTimestamp"];
        c.check(&found["lastHeartbeatTime"] == created, "its last heartbeat is its creation").await?;
    }
    has_no_event(&c, "NodeNotReady").await
}

/// NODE-27.
async fn the_taints_of_others_stay(c: Context) -> Outcome {
    node(&c).await?;
    while_alive(&c, async {
        until_taints(&c, &[]).await?;
        let foreign = [("nonet.io/a", "NoSchedule"), ("nonet.io/b", "NoExecute"), ("nonet.io/b", "PreferNoSchedule")]
            .map(|(key, effect)| json!({"key": key, "value": "mine", "effect": effect}));
        c.merge(NODES, c.namespace(), json!({"spec": {"taints": foreign}})).await?;
        for (ready, expected) in [("False", 5), ("True", 3), ("False", 5), ("True", 3)] {
            report(&c, c.namespace(), &[("Ready", ready)]).await?;
            let found = c
                .until("the taints", async || {
                    let node = c.get(NODES, c.namespace()).await.ok()?;
                    let found = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                    (found.len() == expected).then_some(found)
                })
                .await?;
            c.check(foreign.iter().all(|taint| found.contains(taint)), "the others' taints are as they were").await?;
        }
        Ok(())
    })
    .await
}

/// NODE-46, NODE-47.
async fn a_pod_that_is_bound_to_a_node_that_is_not_ready_is_marked(c: Context) -> Outcome {
    node(&c).await?;
    while_alive(&c, async {
        pod(&c, "before", json!([])).await?;
        report(&c, c.namespace(), &[("Ready", "False")]).await?;
        until_taints(&c, &[NOT_READY]).await?;
        // Its status is written by the time it is bound, as when a Pod is moved together with its status.
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let homeless = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "after"},
            "spec": {"schedulerName": "nonet-test", "containers": [{"name": "c", "image": "img:1"}]}});
        c.create(PODS, homeless).await?;
        c.merge_status(PODS, "after", json!({ "status": ready })).await?;
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "after"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": c.namespace()}});
        let path = PODS.path(c.namespace(), "after", "binding");
        c.client().send("POST", &path, "application/json", Some(&binding)).await?;
        until_marked(&c, "after").await?;
        let before = c.get(PODS, "before").await?;
        let ready = condition(&before, "Ready").cloned().unwrap_or_default();
        c.check(ready["status"] == "True", "the kubelet says what becomes of Pods that were there before").await
    })
    .await
}

/// The Events about the test's node.
async fn node_events(c: &Context) -> Option<Vec<String>> {
    let selector = format!("fieldSelector=involvedObject.kind%3DNode%2CinvolvedObject.name%3D{}", c.namespace());
    let events = c.client().list(EVENTS, "default", &selector).await.ok()?;
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    Some(events.iter().map(|e| [text(e, "type"), text(e, "reason"), text(e, "message")].join(" ")).collect())
}

async fn until_event(c: &Context, reason: &str, what: &str) -> Outcome {
    let expected = format!("Normal {reason} Node {} {what}", c.namespace());
    c.until(&expected, async || node_events(c).await?.contains(&expected).then_some(())).await
}

async fn has_no_event(c: &Context, reason: &str) -> Outcome {
    let events = node_events(c).await.unwrap_or_default();
    c.check(!events.iter().any(|event| event.contains(reason)), &format!("no Event {reason}: {events:?}")).await
}

/// NODE-73.
async fn nodes_come_and_go_with_events(c: Context) -> Outcome {
    node(&c).await?;
    let name = c.namespace();
    until_event(&c, "RegisteredNode", &format!("event: Registered Node {name} in Controller")).await?;
    until_event(&c, "NodeNotReady", "status is now: NodeNotReady").await?;
    c.delete(NODES, name, "Background").await?;
    until_event(&c, "RemovingNode", &format!("event: Removing Node {name} from Controller")).await?;
    let events = node_events(&c).await.unwrap_or_default();
    c.check(events.len() == 3, &format!("no other Events: {events:?}")).await
}

/// Creates this many nodes in the zone of the test. None has reported yet: for their zone they count as not ready.
async fn zone(c: &Context, count: usize, labels: Value) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = (0..count).map(|n| nth(c, n)).collect();
    for name in &names {
        register(c, name, labels.clone()).await?;
    }
    Ok(names)
}

async fn report_all(c: &Context, nodes: &[String], ready: &str) -> Outcome {
    let ready = [("Ready", ready)];
    for node in nodes {
        report(c, node, &ready).await?;
    }
    Ok(())
}

/// How many of these nodes have a taint of the controller.
async fn count_tainted(c: &Context, nodes: &[String], effect: &str) -> usize {
    let mut count = 0;
    for node in nodes {
        count += usize::from(taints_of(c, node, effect).await.iter().any(|key| key == NOT_READY));
    }
    count
}

async fn until_count(c: &Context, nodes: &[String], effect: &str) -> Outcome {
    let what = format!("{} nodes with the taint {effect}", nodes.len());
    c.until(&what, async || (count_tainted(c, nodes, effect).await == nodes.len()).then_some(())).await
}

async fn a_zone_without_a_ready_node_is_tainted(c: Context) -> Outcome {
    let nodes = zone(&c, 3, json!({})).await?;
    while_renewed(&c, &nodes, async {
        report_all(&c, &nodes, "False").await?;
        until_count(&c, &nodes, "NoExecute").await
    })
    .await
}

async fn no_node_of_a_small_zone_is_tainted_while_most_are_not_ready(c: Context) -> Outcome {
    let nodes = zone(&c, 4, json!({})).await?;
    while_renewed(&c, &nodes, async {
        report(&c, &nodes[0], &[("Ready", "True")]).await?;
        // A pass sees three nodes of four that are not ready.
        c.sleep(PASSES).await;
        report_all(&c, &nodes[1..], "False").await?;
        until_count(&c, &nodes[1..], "NoSchedule").await?;
        c.stays("no Pod has to leave", PASSES, async || count_tainted(&c, &nodes, "NoExecute").await == 0).await?;
        report(&c, &nodes[1], &[("Ready", "True")]).await?;
        until_count(&c, &nodes[2..], "NoExecute").await?;
        c.check(count_tainted(&c, &nodes[..2], "NoExecute").await == 0, "those that are ready have no taint").await
    })
    .await
}

async fn nodes_of_a_large_zone_are_tainted_slowly_while_most_are_not_ready(c: Context) -> Outcome {
    let nodes = zone(&c, 6, json!({})).await?;
    while_renewed(&c, &nodes, async {
        report_all(&c, &nodes[..2], "True").await?;
        c.sleep(PASSES).await;
        let since = c.clock().monotonic_now();
        report_all(&c, &nodes[2..], "False").await?;
        until_count(&c, &nodes[2..], "NoExecute").await?;
        // One node every two seconds; a token may have been left.
        let took = c.clock().monotonic_now() - since;
        c.check(took >= Duration::from_secs(4), &format!("four nodes take longer than {took:?}")).await
    })
    .await
}

/// NODE-36.
async fn excluded_nodes_do_not_count_for_their_zone(c: Context) -> Outcome {
    let counted = zone(&c, 2, json!({})).await?;
    let others: Vec<String> = (2..4).map(|n| nth(&c, n)).collect();
    for node in &others {
        register(&c, node, json!({"node.kubernetes.io/exclude-disruption": ""})).await?;
    }
    let all = [&counted[..], &others[..]].concat();
    while_renewed(&c, &all, async {
        report(&c, &counted[0], &[("Ready", "True")]).await?;
        c.sleep(PASSES).await;
        // Three of four are not ready, of which one counts.
        report_all(&c, &all[1..], "False").await?;
        until_count(&c, &all[1..], "NoExecute").await
    })
    .await
}

async fn until_terminating(c: &Context, pod: &str) -> Outcome {
    c.until(&format!("Pod {pod} to leave"), async || is_leaving(c, pod).await.then_some(())).await
}

fn tolerates(key: &str, seconds: i64) -> Value {
    json!([{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

/// NODE-48.
async fn pods_leave_a_node_that_is_not_ready_after_their_own_time(c: Context) -> Outcome {
    node(&c).await?;
    while_alive(&c, async {
        pod(&c, "at-once", tolerates(NOT_READY, 0)).await?;
        pod(&c, "later", tolerates(NOT_READY, 200)).await?;
        pod(&c, "default", json!([])).await?;
        report(&c, c.namespace(), &[("Ready", "False")]).await?;
        until_taints(&c, &[NOT_READY]).await?;
        until_terminating(&c, "at-once").await?;
        for (name, seconds) in [("later", 200), ("default", 300)] {
            let pod = c.get(PODS, name).await?;
            let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
            let is_tolerated = tolerations.iter().any(|t| t["key"] == NOT_READY && t["tolerationSeconds"] == seconds);
            c.check(is_tolerated, &format!("{name} tolerates it for {seconds} s")).await?;
            c.check(!is_leaving(&c, name).await, &format!("{name} stays")).await?;
        }
        Ok(())
    })
    .await
}

/// NODE-25, NODE-51.
async fn pods_leave_a_silent_node_and_stay_on_one_that_returns(c: Context) -> Outcome {
    node(&c).await?;
    pod(&c, "at-once", tolerates(UNREACHABLE, 0)).await?;
    pod(&c, "later", tolerates(UNREACHABLE, 120)).await?;
    until_terminating(&c, "at-once").await?;
    while_alive(&c, async {
        report(&c, c.namespace(), &[("Ready", "True")]).await?;
        until_taints(&c, &[]).await?;
        let event = format!("Normal TaintManagerEviction Cancelling deletion of Pod {}/later", c.namespace());
        c.until(&event, async || c.events_of("Pod", "later").await.ok()?.contains(&event).then_some(())).await?;
        c.check(!is_leaving(&c, "later").await, "the other Pod stays").await
    })
    .await
}
