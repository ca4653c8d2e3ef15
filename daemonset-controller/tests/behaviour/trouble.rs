//! Lost answers, refused requests, stale caches and invalid objects.

use std::{collections::BTreeSet, time::Duration};

use common::settings::{OperatorSettings, TunableValue};
use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REVISIONS, SETS, TestCluster, daemon_set, object_name, orphan_pod,
    rolling_update_spec, target_node,
};

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn lost_answers_create_nothing_twice() {
    for (verb, resource) in
        [("create", "pods"), ("create", "controllerrevisions"), ("patch", "daemonsets/status"), ("delete", "pods")]
    {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let world = TestCluster::new().await;
            let rule = Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).resource(resource).times(1);
            world.sandbox.faults().add(rule);
            world.create_object(daemon_set(json!({}))).await;
            world.wait(100).await;
            world.roll_out("img:2", json!({})).await;
            world.wait(100).await;
            let created = world.pod_writes().into_iter().filter(|done| done.starts_with('+')).count();
            assert_eq!(created, 6, "{verb} {resource} {lost:?}: {:?}", world.pod_writes());
            assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"]);
            let status = world.status().await;
            assert_eq!((&status["numberAvailable"], &status["collisionCount"]), (&json!(3), &Value::Null));
            assert_eq!(world.object_names(REVISIONS).await.len(), 2);
        }
    }
}

/// DAEMONSET-11, DAEMONSET-57, DAEMONSET-85.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_creation_or_deletion() {
    let off = |gate| OperatorSettings::new().with_feature_gate(gate, false);
    // If one of the two gates is off, syncs do not wait for the cache.
    let rounds = [
        ("none", OperatorSettings::new(), true),
        ("StaleControllerConsistencyDaemonSet", off("StaleControllerConsistencyDaemonSet"), false),
        ("AtomicFIFO", off("AtomicFIFO"), false),
    ];
    for (gate, settings, waits) in rounds {
        let world = TestCluster::with_settings(settings).await;
        world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
        world.create_object(daemon_set(json!({}))).await;
        let poke = async |world: &TestCluster| {
            for n in 0..20 {
                world.wait(1).await;
                world.merge_patch(SETS, "agent", json!({"metadata": {"labels": {"poked": n.to_string()}}})).await;
            }
        };
        poke(&world).await;
        assert_eq!((world.request_count("create", "pods"), world.pods().await.len()), (3, 3), "without {gate}");
        let metrics = world.loops.as_ref().unwrap().metrics().render_prometheus();
        let skipped = metrics.contains("daemonset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}");
        assert_eq!(skipped, waits, "without {gate}: {metrics}");
        world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
        world.wait_until_settled().await;
        world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
        world.clear_records();
        world.roll_out("img:2", json!({})).await;
        poke(&world).await;
        assert_eq!(world.request_count("delete", "pods"), 1, "without {gate}");
        assert_eq!(world.request_count("create", "pods"), 0);
        // The status is written while the cache is stale, but with the earlier observed generation.
        let before = world.get(SETS, "agent").await;
        world.change_spec(json!({"revisionHistoryLimit": 5})).await;
        let unready = json!({"status": {"numberReady": 0}});
        world.sandbox.merge(SETS, Some(NAMESPACE), "agent", Some("status"), unready).await.unwrap();
        world.wait(5).await;
        let after = world.get(SETS, "agent").await;
        assert_eq!((&before["metadata"]["generation"], &after["metadata"]["generation"]), (&json!(2), &json!(3)));
        assert_eq!(after["status"]["observedGeneration"], json!(2));
        assert_eq!(after["status"]["numberReady"], json!(3));
        world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
        world.wait_until_settled().await;
        assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"]);
    }
}

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn an_api_server_outage_during_a_rollout_causes_no_further_writes() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.clear_records();
    world.roll_out("img:2", json!({"sim/ready-after": "2"})).await;
    world.wait(3).await;
    world.sandbox.faults().go_down_for(Duration::from_secs(120));
    world.wait(600).await;
    assert_eq!(world.pod_writes(), ["-node-0", "+node-0", "-node-1", "+node-1", "-node-2", "+node-2"]);
}

/// DAEMONSET-65.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_become_available_is_not_deleted_on_a_stale_cache() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let pod = world.pod_on("node-2").await;
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T08:00:00Z"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), ready("False")).await.unwrap();
    world.wait(1).await;
    // In the stale cache the Pod is not available, so that its deletion seems to make no further Pod unavailable.
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), ready("True")).await.unwrap();
    world.clear_records();
    world.change_spec(rolling_update_spec(json!(1), json!(0))).await;
    world.roll_out("img:2", json!({"sim/never-ready": "true"})).await;
    world.wait(3).await;
    assert!(!world.pod_writes().contains(&"-node-2".to_owned()), "{:?}", world.pod_writes());
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait(60).await;
    let deleted = world.pod_writes().into_iter().filter(|done| done.starts_with('-')).count();
    assert_eq!(deleted, 1, "only one node is without an available Pod: {:?}", world.pod_writes());
}

/// DAEMONSET-24, DAEMONSET-72.
#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_growing_delays() {
    let settings = OperatorSettings::new()
        .with_tunable("daemonset-failed-pod-backoff", TunableValue::Duration(Duration::from_secs(10)))
        .with_tunable("daemonset-failed-pod-backoff-max", TunableValue::Duration(Duration::from_secs(40)));
    for (strategy, settings) in [
        (rolling_update_spec(json!(1), json!(0)), settings.clone()),
        (rolling_update_spec(json!(0), json!(1)), settings),
    ] {
        let world = TestCluster::with_settings(settings).await;
        let mut object = daemon_set(strategy);
        object["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail-reason": "OutOfcpu"});
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-1"});
        world.create_object(object).await;
        world.wait(200).await;
        let written = world.own_writes();
        let is_request = |w: &sandbox::Write| w.before().unwrap()["metadata"]["deletionTimestamp"].is_null();
        let deleted: Vec<_> =
            written.iter().filter(|w| w.resource == "pods" && w.verb == "delete" && is_request(w)).collect();
        let pauses: Vec<i64> = deleted.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 40, 40, 40], "{:?}", world.pod_writes());
        let created = written.iter().filter(|w| w.resource == "pods" && w.verb == "create").count();
        assert_eq!(created, deleted.len() + 1, "{:?}", world.pod_writes());
        let pod = object_name(&written.iter().find(|w| w.resource == "pods").unwrap().after().unwrap()).to_owned();
        let event =
            format!("Warning FailedDaemonPod Found failed daemon pod shop/{pod} on node node-1, will try to kill it");
        assert!(world.has_event(&event).await, "{:#?}", world.events().await);
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains("or a failed Pod may be deleted, in "), "{waiting}");
    }
}

/// DAEMONSET-26.
#[tokio::test(start_paused = true)]
async fn a_succeeded_pod_is_replaced_without_delay() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.clear_records();
    let pod = world.pod_on("node-1").await;
    let status = json!({"status": {"phase": "Succeeded"}});
    world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), status).await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["-node-1", "+node-1"]);
    let found = format!("shop/{} on node node-1, will try to delete it", object_name(&pod));
    assert!(world.has_event(&format!("Normal SucceededDaemonPod Found succeeded daemon pod {found}")).await);
}

/// DAEMONSET-30, DAEMONSET-59, DAEMONSET-60, DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn refused_pods_are_reported_and_tried_again_one_at_a_time() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("create").resource("pods"));
    world.create_object(daemon_set(json!({}))).await;
    world.wait(20).await;
    assert!(world.has_event("Warning FailedCreate Error creating: ").await, "{:?}", world.events().await);
    let tries = world.request_count("create", "pods");
    assert!((5..=14).contains(&tries), "it backs off: {tries}");
    let status = world.status().await;
    assert_eq!((&status["desiredNumberScheduled"], &status["observedGeneration"]), (&json!(3), &json!(1)));
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert_eq!(world.status().await["numberReady"], json!(3));
}

/// DAEMONSET-59, DAEMONSET-60.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_the_status_is_written() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("delete").resource("pods"));
    world.roll_out("img:2", json!({})).await;
    world.wait(20).await;
    assert!(world.has_event("Warning FailedDelete Error deleting: ").await);
    assert_eq!(world.status().await["observedGeneration"], json!(2));
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-76.
#[tokio::test(start_paused = true)]
async fn only_one_pod_is_sent_to_a_terminating_namespace() {
    let world = TestCluster::new().await;
    world.change_node("node-0", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    // The finalizer keeps the DaemonSet while its namespace is terminating.
    let mut set = daemon_set(json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}));
    set["metadata"]["finalizers"] = json!(["example.com/keep"]);
    world.create_object(set).await;
    world.wait_until_settled().await;
    // The held watches hide the deletions of the DaemonSet and of its revision from the controller.
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "daemonsets");
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "controllerrevisions");
    world.clear_records();
    world.sandbox.delete("namespaces", None, NAMESPACE).await.unwrap();
    for node in ["node-1", "node-2"] {
        world.change_node(node, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
        world.wait(20).await;
    }
    assert_eq!(world.request_count("create", "pods"), 1);
    let waiting = world.explain()["waiting"].to_string();
    assert!(waiting.contains("no Pods are created: the namespace is terminating"), "{waiting}");
}

/// DAEMONSET-20, DAEMONSET-23.
#[tokio::test(start_paused = true)]
async fn a_second_pod_on_a_node_is_deleted_and_pods_of_other_owners_are_not_changed() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.wait(5).await;
    let mut twin = world.pod_on("node-1").await;
    twin["apiVersion"] = json!("v1");
    twin["kind"] = json!("Pod");
    twin["metadata"] = json!({"name": "twin", "namespace": NAMESPACE, "labels": twin["metadata"]["labels"],
        "ownerReferences": twin["metadata"]["ownerReferences"]});
    twin.as_object_mut().unwrap().remove("status");
    let mut foreign = twin.clone();
    foreign["metadata"]["name"] = json!("foreign");
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("11111111-1111-1111-1111-111111111111");
    world.clear_records();
    world.create_object(foreign).await;
    world.create_object(twin).await;
    world.wait_until_settled().await;
    let names = world.object_names("pods").await;
    assert!(names.contains(&"foreign".to_owned()) && !names.contains(&"twin".to_owned()), "{names:?}");
    assert_eq!(world.pod_writes(), ["-node-1"]);
}

/// DAEMONSET-18, DAEMONSET-19.
#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_pods_that_are_no_longer_selected_are_released() {
    let world = TestCluster::new().await;
    world.create_object(orphan_pod("stray", "node-1")).await;
    world.create_object(daemon_set(json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.wait_until_settled().await;
    let mut done = world.pod_writes();
    done.sort();
    assert_eq!(done, ["+node-0", "+node-2", "~node-1"]);
    let owners = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owners(&world.get("pods", "stray").await), "agent");
    world.clear_records();
    world.merge_patch("pods", "stray", json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["~node-1", "+node-1"]);
    assert_eq!(owners(&world.get("pods", "stray").await), Value::Null);
}

/// DAEMONSET-27.
#[tokio::test(start_paused = true)]
async fn an_unscheduled_pod_is_deleted_with_its_node() {
    let world = TestCluster::new().await;
    let host = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}});
    world.sandbox.create(host).await.unwrap();
    let ready = json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}});
    world.change_node("ghost", ready).await;
    let mut object = daemon_set(json!({}));
    // The named scheduler does not exist, so the Pod is never bound.
    object["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
    world.create_object(object).await;
    world.wait_until_settled().await;
    assert!(world.pod_writes().contains(&"+ghost".to_owned()), "{:?}", world.pod_writes());
    world.clear_records();
    world.sandbox.delete("nodes", None, "ghost").await.unwrap();
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["-ghost"]);
    assert_eq!(world.status().await["desiredNumberScheduled"], json!(3));
}

/// DAEMONSET-63.
#[tokio::test(start_paused = true)]
async fn many_events_of_one_node_decide_only_that_node() {
    let world = TestCluster::new().await;
    for _ in 0..40 {
        world.nodes.add();
    }
    world.nodes.ready().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    let pod = world.pod_on("node-7").await;
    let decided = world.decided_nodes();
    for n in 0..5 {
        let status =
            json!({"status": {"conditions": [{"type": "Ready", "status": if n % 2 == 0 { "False" } else { "True" }}]}});
        world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), status).await.unwrap();
        world.wait(5).await;
    }
    assert_eq!(world.decided_nodes() - decided, 5);
    let nodes: BTreeSet<String> = world.pods().await.iter().map(target_node).collect();
    assert_eq!(nodes.len(), 43);
}

/// DAEMONSET-68.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_holds_back_only_one_node() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").times(1));
    world.create_object(daemon_set(json!({}))).await;
    world.wait(5).await;
    assert_eq!(world.pod_writes(), ["+node-1", "+node-2"]);
    let explained = world.explain().to_string();
    assert!(explained.contains("node node-0: a request to create a Pod was not answered"), "{explained}");
    world.wait(70).await;
    assert_eq!(world.pod_writes(), ["+node-1", "+node-2", "+node-0"]);
}

/// DAEMONSET-68.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_during_a_rollout_holds_back_only_one_node() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(rolling_update_spec(json!(2), json!(0)))).await;
    world.wait_until_settled().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").times(1));
    world.roll_out("img:2", json!({})).await;
    world.wait(20).await;
    assert_eq!(world.images().await, ["node-1 img:2", "node-2 img:2"]);
    world.wait(70).await;
    assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"]);
}

/// DAEMONSET-68.
#[tokio::test(start_paused = true)]
async fn pods_are_deleted_after_lost_answers_to_creations() {
    let world = TestCluster::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").skip(1));
    world.create_object(daemon_set(json!({}))).await;
    world.wait(5).await;
    assert_eq!(world.pod_writes(), ["+node-0"]);
    world.merge_patch(SETS, "agent", json!({"spec": {"template": {"spec": {"nodeSelector": {"on": "none"}}}}})).await;
    world.wait(5).await;
    assert_eq!(world.pod_writes(), ["+node-0", "-node-0"]);
}

/// DAEMONSET-70.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_does_not_delay_other_nodes() {
    let world = TestCluster::new().await;
    let refuse = |verb: &str| {
        let rule = Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb(verb).resource("pods").times(1);
        world.sandbox.faults().add(rule);
    };
    refuse("create");
    world.create_object(daemon_set(json!({}))).await;
    world.wait(60).await;
    assert_eq!(world.pod_writes(), ["+node-1", "+node-2", "+node-0"]);
    world.clear_records();
    refuse("delete");
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(world.pod_writes(), ["-node-1", "+node-1", "-node-2", "+node-2", "-node-0", "+node-0"]);
}

/// DAEMONSET-25.
#[tokio::test(start_paused = true)]
async fn a_new_generation_ends_the_back_off_of_failed_pods() {
    let world = TestCluster::new().await;
    let mut failing = daemon_set(json!({}));
    failing["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail-reason": "OutOfcpu"});
    world.create_object(failing).await;
    // The delays of 1, 2, 4, ..., 128 seconds have passed, and the next delay lasts until second 511.
    world.wait(300).await;
    world.clear_records();
    world.wait(60).await;
    assert!(world.pod_writes().is_empty(), "{:?}", world.pod_writes());
    // The changed field does not affect Pods.
    world.change_spec(json!({"revisionHistoryLimit": 5})).await;
    world.wait(1).await;
    let deleted: Vec<_> = world.pod_writes().into_iter().filter(|done| done.starts_with('-')).collect();
    assert!(["-node-0", "-node-1", "-node-2"].iter().all(|node| deleted.iter().any(|one| one == node)), "{deleted:?}");
}

/// Delays each request of this verb and resource by ten milliseconds. Without it, endless retries would take no virtual time.
fn delay_requests(world: &TestCluster, verb: &str, resource: &str) {
    let rule = Rule::new(Action::Latency(Duration::from_millis(10)))
        .identity(CONTROLLER_IDENTITY)
        .verb(verb)
        .resource(resource);
    world.sandbox.faults().add(rule);
}

/// DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn deleted_orphans_are_adopted_with_growing_delays() {
    let world = TestCluster::new().await;
    delay_requests(&world, "patch", "pods");
    world.create_object(orphan_pod("stray", "node-1")).await;
    world.wait(1).await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    world.sandbox.delete("pods", Some(NAMESPACE), "stray").await.unwrap();
    world.wait(1).await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait(10).await;
    let tries = world.request_count("patch", "pods");
    assert!((1..=14).contains(&tries), "it backs off: {tries}");
}

/// DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_deleted_again_with_growing_delays() {
    let world =
        TestCluster::with_settings(OperatorSettings::new().with_tunable("burst-replicas", TunableValue::Count(1)))
            .await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    delay_requests(&world, "delete", "pods");
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    for pod in world.object_names("pods").await {
        world.sandbox.delete("pods", Some(NAMESPACE), &pod).await.unwrap();
    }
    world.wait(1).await;
    world.clear_records();
    world.change_spec(json!({"template": {"spec": {"nodeSelector": {"on": "none"}}}})).await;
    world.wait(10).await;
    let tries = world.request_count("delete", "pods");
    assert!((1..=14).contains(&tries), "it backs off: {tries}");
}

/// DAEMONSET-66.
#[tokio::test(start_paused = true)]
async fn after_a_conflict_a_status_waits_for_the_newer_set() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "daemonsets");
    world.merge_patch(SETS, "agent", json!({"metadata": {"labels": {"poked": "1"}}})).await;
    world.clear_records();
    let pod = world.pod_on("node-1").await;
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), unready).await.unwrap();
    world.wait(4).await;
    assert_eq!(world.request_count("patch", "daemonsets.apps/status"), 1);
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "daemonsets");
    world.wait(2).await;
    assert_eq!(world.status().await["numberReady"], json!(2));
}

/// DAEMONSET-8.
#[tokio::test(start_paused = true)]
async fn a_late_event_of_the_own_revision_continues_a_rollout() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "controllerrevisions", Duration::from_millis(400));
    world.clear_records();
    world.roll_out("img:2", json!({})).await;
    world.wait(1).await;
    assert!(world.pod_writes().starts_with(&["-node-0".to_owned(), "+node-0".to_owned()]), "{:?}", world.pod_writes());
    let metrics = world.loops.as_ref().unwrap().metrics().render_prometheus();
    assert!(!metrics.contains("resource=\"controllerrevisions\"} 1"), "upstream counts Pods and DaemonSets only");
}

/// DAEMONSET-64.
#[tokio::test(start_paused = true)]
async fn a_huge_affinity_is_compared_with_a_few_nodes_at_a_time() {
    let world = TestCluster::new().await;
    for _ in 0..40 {
        world.nodes.add();
    }
    world.nodes.ready().await;
    let values: Vec<String> = (0..60_000).map(|n| format!("z{n}")).collect();
    let expressions = json!([{"key": "zone", "operator": "NotIn", "values": values}]);
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let steps = async |world: &TestCluster| {
        let metrics = world.loops.as_ref().unwrap().metrics().render_prometheus();
        let line = metrics.lines().find(|line| line.starts_with("workqueue_retries_total{name=\"daemonset\"}"));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    world.create_object(daemon_set(json!({"template": {"spec": {"affinity": affinity}}}))).await;
    world.wait_until_settled().await;
    assert_eq!(world.status().await["numberReady"], json!(43));
    let first = steps(&world).await;
    assert!(first >= 10, "43 nodes in steps of 4: {first}");
    // Neither a new image nor a change of a Pod repeats the comparisons with the affinity.
    world.change_spec(rolling_update_spec(json!(43), json!(0))).await;
    world.roll_out("img:2", json!({})).await;
    world.wait_until_settled().await;
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(43));
    let further = steps(&world).await - first;
    assert!(further < 10, "only waits for own writes: {further}");
}

/// DAEMONSET-69.
#[tokio::test(start_paused = true)]
async fn a_steady_supply_of_orphans_does_not_prevent_the_management_of_a_set() {
    let world = TestCluster::new().await;
    // With slow patches, new orphans appear while others are being adopted.
    let slow = Rule::new(Action::Latency(Duration::from_millis(200)))
        .identity(CONTROLLER_IDENTITY)
        .verb("patch")
        .resource("pods");
    world.sandbox.faults().add(slow);
    world.create_object(orphan_pod("stray", "node-0")).await;
    world.create_object(daemon_set(json!({}))).await;
    for n in 0..300 {
        world.create_object(orphan_pod(&format!("stray-{n}"), "node-0")).await;
        world.clock.sleep(Duration::from_millis(50)).await;
    }
    let done = world.pod_writes();
    assert!(done.contains(&"+node-1".to_owned()) && done.contains(&"+node-2".to_owned()), "{done:?}");
    assert!(!done.contains(&"+node-0".to_owned()), "node-0 gets its Pod by adoption");
    assert_eq!(world.status().await["observedGeneration"], json!(1));
    world.wait_until_settled().await;
    assert_eq!(world.images().await, ["node-0 img:1", "node-1 img:1", "node-2 img:1"]);
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_adopted_does_not_delay_other_nodes() {
    let world = TestCluster::new().await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
    world.create_object(orphan_pod("stray", "node-0")).await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait(60).await;
    assert_eq!(world.pod_writes(), ["+node-1", "+node-2"]);
    assert_eq!(world.status().await["numberReady"], json!(2));
    assert!(
        (3..=8).contains(&world.request_count("patch", "pods")),
        "it backs off: {}",
        world.request_count("patch", "pods")
    );
    assert!(world.has_event("Warning FailedUpdate Error: cannot adopt Pod stray").await, "{:?}", world.events().await);
    let waiting = world.explain()["waiting"].to_string();
    assert!(waiting.contains("Pod stray stays as it is: the server refused to change it"), "{waiting}");
    world.clear_records();
    world.change_spec(rolling_update_spec(json!(2), json!(0))).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(world.pod_writes(), ["-node-1", "+node-1", "-node-2", "+node-2"]);
    world.sandbox.faults().clear();
    world.wait(900).await;
    assert_eq!(
        world.images().await,
        ["node-0 img:2", "node-1 img:2", "node-2 img:2"],
        "the orphan is adopted and replaced"
    );
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn orphans_that_cannot_be_adopted_take_no_place_of_nodes_that_need_a_pod() {
    // The server refuses the adoptions in two ways. A sync may create one Pod, for `node-2`, which has no orphan.
    for refusal in [Action::Invalid, Action::InternalError] {
        let world =
            TestCluster::with_settings(OperatorSettings::new().with_tunable("burst-replicas", TunableValue::Count(1)))
                .await;
        world
            .sandbox
            .faults()
            .add(Rule::new(refusal.clone()).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
        world.create_object(orphan_pod("stray-0", "node-0")).await;
        world.create_object(orphan_pod("stray-1", "node-1")).await;
        world.create_object(daemon_set(json!({}))).await;
        world.wait(60).await;
        assert_eq!(world.pod_writes(), ["+node-2"], "{refusal:?}");
        assert_eq!(world.status().await["numberReady"], json!(1));
    }
}

/// DAEMONSET-65.
#[tokio::test(start_paused = true)]
async fn a_pod_that_another_client_writes_all_the_time_is_deleted() {
    for change in [
        json!({"template": {"spec": {"nodeSelector": {"on": "none"}}}}),
        json!({"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}),
    ] {
        let world = TestCluster::new().await;
        world.create_object(daemon_set(json!({}))).await;
        world.wait_until_settled().await;
        let pod = world.pod_on("node-1").await;
        // Because of the delay, the cache never shows the newest version of the Pod.
        world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "pods", Duration::from_millis(200));
        world.change_spec(change).await;
        for n in 0..600 {
            let patch = json!({"metadata": {"annotations": {"seen": n.to_string()}}});
            if world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), None, patch).await.is_err() {
                break;
            }
            world.clock.sleep(Duration::from_millis(50)).await;
        }
        assert!(!world.object_names("pods").await.contains(&object_name(&pod).to_owned()), "{:?}", world.pod_writes());
        assert!(!world.has_event("Warning FailedDelete").await);
    }
}

/// DAEMONSET-30.
#[tokio::test(start_paused = true)]
async fn only_a_few_large_pods_are_in_flight() {
    let world = TestCluster::new().await;
    for _ in 0..27 {
        world.nodes.add();
    }
    world.nodes.ready().await;
    let slow = Rule::new(Action::Latency(Duration::from_secs(10)))
        .identity(CONTROLLER_IDENTITY)
        .verb("create")
        .resource("pods");
    world.sandbox.faults().add(slow);
    world.clear_records();
    let container = json!({"name": "c", "image": "img:1", "args": ["x".repeat(1 << 20)]});
    world.create_object(daemon_set(json!({"template": {"spec": {"containers": [container]}}}))).await;
    let mut asked = Vec::new();
    world.wait(1).await;
    for _ in 0..8 {
        asked.push(world.request_count("create", "pods"));
        world.wait(10).await;
    }
    let batches: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(batches, [2, 4, 7, 7, 7, 2, 0], "at most seven bodies of a megabyte: {asked:?}");
}

/// DAEMONSET-70.
#[tokio::test(start_paused = true)]
async fn a_new_generation_begins_with_the_first_node() {
    let world = TestCluster::new().await;
    let refuse = Rule::new(Action::Invalid).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").times(1);
    world.sandbox.faults().add(refuse);
    world.create_object(daemon_set(json!({}))).await;
    world.wait(60).await;
    assert_eq!(world.pod_writes(), ["+node-1", "+node-2", "+node-0"]);
    world.change_spec(json!({"template": {"spec": {"nodeSelector": {"on": "none"}}}})).await;
    world.wait_until_settled().await;
    assert!(world.pods().await.is_empty());
    world.clear_records();
    world.change_spec(json!({"template": {"spec": {"nodeSelector": null}}})).await;
    world.wait_until_settled().await;
    assert_eq!(world.pod_writes(), ["+node-0", "+node-1", "+node-2"]);
}

/// DAEMONSET-24.
#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_reported_before_its_replacement_is_created() {
    let world = TestCluster::new().await;
    world.create_object(daemon_set(rolling_update_spec(json!(0), json!(1)))).await;
    world.wait_until_settled().await;
    world.clear_records();
    let pod = world.pod_on("node-1").await;
    let failed = json!({"status": {"phase": "Failed", "conditions": null}});
    world.sandbox.merge("pods", Some(NAMESPACE), object_name(&pod), Some("status"), failed).await.unwrap();
    world.wait_until_settled().await;
    let events = world.sandbox.writes().all().into_iter().filter(|write| write.resource == "events");
    let reasons: Vec<String> = events.filter_map(|event| Some(event.after()?["reason"].as_str()?.to_owned())).collect();
    assert_eq!(reasons, ["FailedDaemonPod", "SuccessfulCreate", "SuccessfulDelete"]);
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_release_of_a_pod_does_not_hold_up_the_set() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let world = TestCluster::new().await;
        world.create_object(daemon_set(json!({}))).await;
        world.wait_until_settled().await;
        let stray = object_name(&world.pod_on("node-0").await).to_owned();
        world
            .sandbox
            .faults()
            .add(Rule::new(refusal.clone()).identity(CONTROLLER_IDENTITY).verb("patch").resource("pods"));
        world.merge_patch("pods", &stray, json!({"metadata": {"labels": {"app": "mine"}}})).await;
        world.wait(4).await;
        assert_eq!(world.pod_writes()[3..], ["+node-0"], "{refusal:?}");
        assert_eq!(world.status().await["numberReady"], json!(3));
        let event = format!("Warning FailedUpdate Error: cannot release Pod {stray}");
        assert!(world.has_event(&event).await, "{:?}", world.events().await);
        let waiting = world.explain()["waiting"].to_string();
        assert!(waiting.contains(&format!("Pod {stray} stays as it is: the server refused to change it")), "{waiting}");
        world.roll_out("img:2", json!({})).await;
        world.wait(300).await;
        assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
        let tries = world.request_count("patch", "pods");
        assert!((3..=8).contains(&tries), "it is retried with growing delays: {tries}");
        world.sandbox.faults().clear();
        world.wait(400).await;
        assert_eq!(world.get("pods", &stray).await["metadata"]["ownerReferences"], Value::Null);
    }
}
