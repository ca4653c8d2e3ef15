//! Lost answers, refused requests, stale caches and invalid objects.

use crate::world::*;

/// DAEMONSET-11, DAEMONSET-57, DAEMONSET-85.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_second_creation_or_deletion() {
    // If one of the two gates is off, syncs do not wait for the cache.
    let staleness = "StaleControllerConsistencyDaemonSet";
    let rounds = [
        ("none", cluster(), true),
        (staleness, cluster().gate(staleness, false), false),
        ("AtomicFIFO", cluster().gate("AtomicFIFO", false), false),
    ];
    for (gate, cluster, waits) in rounds {
        let world = cluster.start().await;
        world.hold("pods");
        world.create(agent()).await;
        world.touch_subject_for(20).await;
        assert_eq!((world.count("create", "pods"), world.pods().await.len()), (3, 3), "without {gate}");
        let metrics = world.metrics();
        let skipped = metrics.contains("daemonset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}");
        assert_eq!(skipped, waits, "without {gate}: {metrics}");
        world.release("pods");
        world.settle().await;
        world.hold("pods");
        world.clear_log();
        world.roll_out("img:2", json!({})).await;
        world.touch_subject_for(20).await;
        assert_eq!(world.count("delete", "pods"), 1, "without {gate}");
        assert_eq!(world.count("create", "pods"), 0);
        // The status is written while the cache is stale, but with the earlier observed generation.
        world.change(json!({"revisionHistoryLimit": 5})).await;
        world.patch_status(SETS, "agent", json!({"numberReady": 0})).await;
        world.wait(5).await;
        assert_eq!(pick(&world.status().await, "observedGeneration numberReady"), json!([2, 3]), "without {gate}");
        world.release("pods");
        world.settle().await;
        assert_images(&world, "img:2", "").await;
    }
}

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn an_api_server_outage_during_a_rollout_causes_no_further_writes() {
    let world = cluster().settled(agent()).await;
    world.clear_log();
    world.roll_out("img:2", json!({"sim/ready-after": "2"})).await;
    world.wait(3).await;
    world.sandbox.faults().go_down_for(Duration::from_secs(120));
    world.wait(600).await;
    assert_eq!(pod_writes(&world), ["-node-0", "+node-0", "-node-1", "+node-1", "-node-2", "+node-2"]);
}

/// DAEMONSET-65.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_become_available_is_not_deleted_on_a_stale_cache() {
    let world = cluster().settled(agent()).await;
    let pod = pod_name_on(&world, "node-2").await;
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T08:00:00Z"}]});
    world.patch_pod_status(&pod, ready("False")).await;
    world.wait(1).await;
    // In the stale cache the Pod is not available, so that its deletion seems to make no further Pod unavailable.
    world.hold("pods");
    world.patch_pod_status(&pod, ready("True")).await;
    world.clear_log();
    world.change(rolling_update_spec(1, 0)).await;
    world.roll_out("img:2", json!({"sim/never-ready": "true"})).await;
    world.wait(3).await;
    assert!(!pod_writes(&world).contains(&"-node-2".to_owned()), "{:?}", pod_writes(&world));
    world.release("pods");
    world.wait(60).await;
    let deleted = pod_writes(&world).into_iter().filter(|done| done.starts_with('-')).count();
    assert_eq!(deleted, 1, "only one node is without an available Pod: {:?}", pod_writes(&world));
}

/// DAEMONSET-24, DAEMONSET-25, DAEMONSET-72.
#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_growing_delays() {
    let cluster = cluster()
        .tunable("daemonset-failed-pod-backoff", Duration::from_secs(10))
        .tunable("daemonset-failed-pod-backoff-max", Duration::from_secs(40));
    for strategy in [rolling_update_spec(1, 0), rolling_update_spec(0, 1)] {
        let world = cluster.clone().start().await;
        let pinned = json!({"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}}});
        let failing = annotated(daemon_set(merged(strategy, pinned)), json!({"sim/fail-reason": "OutOfcpu"}));
        world.create(failing).await;
        world.wait(200).await;
        let written = world.own_writes();
        let deleted: Vec<_> =
            written.iter().filter(|w| w.resource == "pods" && w.verb == "delete" && is_request(w)).collect();
        let pauses: Vec<i64> = deleted.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 40, 40, 40], "{:?}", pod_writes(&world));
        let created = written.iter().filter(|w| w.resource == "pods" && w.verb == "create").count();
        assert_eq!(created, deleted.len() + 1, "{:?}", pod_writes(&world));
        let pod = name(&written.iter().find(|w| w.resource == "pods").unwrap().after().unwrap()).to_owned();
        world
            .assert_event(&format!(
                "Warning FailedDaemonPod Found failed daemon pod shop/{pod} on node node-1, will try to kill it"
            ))
            .await;
        world.assert_waits("or a failed Pod may be deleted, in ");
        // A new generation ends the back-off. The changed field does not affect Pods.
        world.clear_log();
        world.change(json!({"revisionHistoryLimit": 5})).await;
        world.wait(1).await;
        assert!(pod_writes(&world).contains(&"-node-1".to_owned()), "{:?}", pod_writes(&world));
    }
}

/// DAEMONSET-30, DAEMONSET-59, DAEMONSET-60, DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn refused_pods_are_reported_and_tried_again_one_at_a_time() {
    let world = cluster().start().await;
    let event = "Warning FailedCreate Error creating: ";
    let refused = (Action::Invalid, "create", "pods");
    conformance::refusals_back_off(&world, refused, world.create(agent()), 5..=14, event, async || {
        assert_eq!(pick(&world.status().await, "desiredNumberScheduled observedGeneration"), json!([3, 1]));
    })
    .await;
    assert_eq!(world.status().await["numberReady"], json!(3));
}

/// DAEMONSET-59, DAEMONSET-60.
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_the_status_is_written() {
    let world = cluster().settled(agent()).await;
    let failed = (Action::InternalError, "delete", "pods");
    let change = world.roll_out("img:2", json!({}));
    let event = "Warning FailedDelete Error deleting: ";
    conformance::refusals_back_off(&world, failed, change, 5..=14, event, async || {
        assert_eq!(world.status().await["observedGeneration"], json!(2));
    })
    .await;
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-76.
#[tokio::test(start_paused = true)]
async fn only_one_pod_is_sent_to_a_terminating_namespace() {
    let world = cluster().start().await;
    world.label("nodes", "node-0", json!({"disk": "ssd"})).await;
    // The finalizer keeps the DaemonSet while its namespace is terminating.
    world
        .create(merged(
            daemon_set(json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}})),
            json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        ))
        .await;
    world.settle().await;
    // The held watches hide the deletions of the DaemonSet and of its revision from the controller.
    world.hold("daemonsets");
    world.hold("controllerrevisions");
    world.clear_log();
    world.delete("namespaces", NAMESPACE).await;
    for node in ["node-1", "node-2"] {
        world.label("nodes", node, json!({"disk": "ssd"})).await;
        world.wait(20).await;
    }
    assert_eq!(world.count("create", "pods"), 1);
    world.assert_waits("no Pods are created: the namespace is terminating");
}

/// DAEMONSET-68.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_holds_back_only_one_node() {
    let world = cluster().start().await;
    world.fault(rule(Action::InternalError, "create", "pods").times(1));
    world.create(agent()).await;
    world.wait(5).await;
    assert_eq!(pod_writes(&world), ["+node-1", "+node-2"]);
    let explained = world.explain().to_string();
    assert!(explained.contains("node node-0: a request to create a Pod was not answered"), "{explained}");
    world.wait(70).await;
    assert_eq!(pod_writes(&world), ["+node-1", "+node-2", "+node-0"]);
}

/// DAEMONSET-70.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_does_not_delay_other_nodes() {
    let world = cluster().start().await;
    let refuse = |verb: &str| {
        world.fault(rule(Action::Invalid, verb, "pods").times(1));
    };
    refuse("create");
    world.create(agent()).await;
    world.wait(60).await;
    assert_eq!(pod_writes(&world), ["+node-1", "+node-2", "+node-0"]);
    world.clear_log();
    refuse("delete");
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(pod_writes(&world), ["-node-1", "+node-1", "-node-2", "+node-2", "-node-0", "+node-0"]);
    // A new generation begins with the first node.
    refuse("create");
    world.delete("pods", &pod_name_on(&world, "node-1").await).await;
    world.wait(60).await;
    world.change_and_settle(json!({"template": {"spec": {"nodeSelector": {"on": "none"}}}})).await;
    world.clear_log();
    world.change_and_settle(json!({"template": {"spec": {"nodeSelector": null}}})).await;
    assert_eq!(pod_writes(&world), ["+node-0", "+node-1", "+node-2"]);
}

/// Delays each request of this verb and resource by ten milliseconds. Without it, endless retries would take no virtual time.
fn delay_requests(world: &World, verb: &str, resource: &str) {
    world.fault(rule(Action::Latency(Duration::from_millis(10)), verb, resource));
}

/// DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn a_deleted_orphan_that_the_cache_still_shows_is_tried_once() {
    let world = cluster().start().await;
    delay_requests(&world, "patch", "pods");
    world.create(orphan("stray", "node-1")).await;
    world.wait(1).await;
    world.hold("pods");
    world.delete("pods", "stray").await;
    world.wait(1).await;
    world.create(agent()).await;
    world.wait(10).await;
    assert_eq!(world.count("patch", "pods"), 1, "the first answer says that the Pod does not exist");
    assert_eq!(pod_writes(&world), ["+node-0", "+node-2"]);
    world.release("pods");
    world.settle().await;
    assert_eq!(pod_writes(&world), ["+node-0", "+node-2", "+node-1"]);
}

/// DAEMONSET-61.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_deleted_again_with_growing_delays() {
    let world = cluster().tunable("burst-replicas", 1).settled(agent()).await;
    delay_requests(&world, "delete", "pods");
    world.hold("pods");
    for pod in world.names("pods").await {
        world.delete("pods", &pod).await;
    }
    world.wait(1).await;
    world.clear_log();
    world.change(json!({"template": {"spec": {"nodeSelector": {"on": "none"}}}})).await;
    let pauses = world.pauses("delete", "pods", 10).await;
    // The first requests are for the three Pods. Then each pause is about twice as long as the one before it.
    let (first, repeated) = pauses.split_at(4);
    assert!(first.iter().all(|pause| *pause <= 20), "{pauses:?}");
    assert!(repeated.len() >= 5 && repeated.windows(2).all(|pair| pair[1] >= pair[0] * 3 / 2), "{pauses:?}");
}

/// DAEMONSET-66.
#[tokio::test(start_paused = true)]
async fn after_a_conflict_a_status_waits_for_the_newer_set() {
    let world = cluster().settled(agent()).await;
    world.hold("daemonsets");
    world.label(SETS, "agent", json!({"poked": "1"})).await;
    world.clear_log();
    let pod = pod_name_on(&world, "node-1").await;
    world.patch_pod_status(&pod, ready_condition("False")).await;
    world.wait(4).await;
    assert_eq!(world.count("update", "daemonsets.apps/status"), 1);
    world.release("daemonsets");
    world.wait(2).await;
    assert_eq!(world.status().await["numberReady"], json!(2));
}

/// DAEMONSET-8.
#[tokio::test(start_paused = true)]
async fn a_late_event_of_the_own_revision_continues_a_rollout() {
    let world = cluster().settled(agent()).await;
    world.delay("controllerrevisions", 0.4);
    world.clear_log();
    world.roll_out("img:2", json!({})).await;
    world.wait(1).await;
    assert!(pod_writes(&world).starts_with(&["-node-0".to_owned(), "+node-0".to_owned()]), "{:?}", pod_writes(&world));
    assert!(
        !world.metrics().contains("resource=\"controllerrevisions\"} 1"),
        "upstream counts Pods and DaemonSets only"
    );
}

/// DAEMONSET-64.
#[tokio::test(start_paused = true)]
async fn a_huge_affinity_is_compared_with_a_few_nodes_at_a_time() {
    let world = cluster().start().await;
    world.add_nodes(40).await;
    let values: Vec<String> = (0..60_000).map(|n| format!("z{n}")).collect();
    let expressions = json!([{"key": "zone", "operator": "NotIn", "values": values}]);
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let steps = || world.metric("workqueue_retries_total{name=\"daemonset\"}");
    world.create_and_settle(daemon_set(json!({"template": {"spec": {"affinity": affinity}}}))).await;
    assert_eq!(world.status().await["numberReady"], json!(43));
    let first = steps();
    assert!(first >= 10, "43 nodes in steps of 4: {first}");
    // Neither a new image nor a change of a Pod repeats the comparisons with the affinity.
    world.change(rolling_update_spec(43, 0)).await;
    world.roll_out_and_settle("img:2").await;
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(43));
    let further = steps() - first;
    assert!(further < 10, "only waits for own writes: {further}");
}

/// DAEMONSET-69.
#[tokio::test(start_paused = true)]
async fn a_steady_supply_of_orphans_does_not_prevent_the_management_of_a_set() {
    let world = cluster().start().await;
    // With slow patches, new orphans appear while others are being adopted.
    world.fault(rule(Action::Latency(Duration::from_millis(200)), "patch", "pods"));
    world.create(orphan("stray", "node-0")).await;
    world.create(agent()).await;
    for n in 0..300 {
        world.create(orphan(&format!("stray-{n}"), "node-0")).await;
        world.wait(0.05).await;
    }
    let done = pod_writes(&world);
    assert!(done.contains(&"+node-1".to_owned()) && done.contains(&"+node-2".to_owned()), "{done:?}");
    assert!(!done.contains(&"+node-0".to_owned()), "node-0 gets its Pod by adoption");
    assert_eq!(world.status().await["observedGeneration"], json!(1));
    world.settle().await;
    assert_images(&world, "img:1", "").await;
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_adopted_does_not_delay_other_nodes() {
    let world = cluster().start().await;
    world.fault(rule(Action::Invalid, "patch", "pods"));
    world.create(orphan("stray", "node-0")).await;
    world.create(agent()).await;
    world.wait(60).await;
    assert_eq!(pod_writes(&world), ["+node-1", "+node-2"]);
    assert_eq!(world.status().await["numberReady"], json!(2));
    world.assert_count("patch", "pods", 3..=8);
    world.assert_event("Warning FailedUpdate Error: cannot adopt Pod stray").await;
    world.assert_waits("Pod stray stays as it is: the server refused to change it");
    world.clear_log();
    world.change(rolling_update_spec(2, 0)).await;
    world.roll_out("img:2", json!({})).await;
    world.wait(60).await;
    assert_eq!(pod_writes(&world), ["-node-1", "+node-1", "-node-2", "+node-2"]);
    world.clear_faults();
    world.wait(900).await;
    assert_images(&world, "img:2", "the orphan is adopted and replaced").await;
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn orphans_that_cannot_be_adopted_take_no_place_of_nodes_that_need_a_pod() {
    // The server refuses the adoptions in two ways. A sync may create one Pod, for `node-2`, which has no orphan.
    for refusal in [Action::Invalid, Action::InternalError] {
        let world = cluster().tunable("burst-replicas", 1).start().await;
        world.fault(rule(refusal.clone(), "patch", "pods"));
        world.create(orphan("stray-0", "node-0")).await;
        world.create(orphan("stray-1", "node-1")).await;
        world.create(agent()).await;
        world.wait(60).await;
        assert_eq!(pod_writes(&world), ["+node-2"], "{refusal:?}");
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
        let world = cluster().settled(agent()).await;
        let pod = pod_name_on(&world, "node-1").await;
        // Because of the delay, the cache never shows the newest version of the Pod.
        world.delay("pods", 0.2);
        world.change(change).await;
        for n in 0..600 {
            let patch = json!({"metadata": {"annotations": {"seen": n.to_string()}}});
            if world.sandbox.merge("pods", Some(NAMESPACE), &pod, None, patch).await.is_err() {
                break;
            }
            world.wait(0.05).await;
        }
        assert!(!world.names("pods").await.contains(&pod), "{:?}", pod_writes(&world));
        assert!(world.event_count("Warning FailedDelete").await == 0);
    }
}

/// DAEMONSET-30.
#[tokio::test(start_paused = true)]
async fn only_a_few_large_pods_are_in_flight() {
    let world = cluster().start().await;
    world.add_nodes(27).await;
    world.fault(rule(Action::Latency(Duration::from_secs(10)), "create", "pods"));
    world.clear_log();
    let container = json!({"name": "c", "image": "img:1", "args": ["x".repeat(1 << 20)]});
    world.create(daemon_set(json!({"template": {"spec": {"containers": [container]}}}))).await;
    let mut asked = Vec::new();
    world.wait(1).await;
    for _ in 0..8 {
        asked.push(world.count("create", "pods"));
        world.wait(10).await;
    }
    let batches: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(batches, [2, 4, 7, 7, 7, 2, 0], "at most seven bodies of a megabyte: {asked:?}");
}

/// DAEMONSET-24.
#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_reported_before_its_replacement_is_created() {
    let world = cluster().settled(rolling(0, 1)).await;
    world.clear_log();
    let pod = pod_name_on(&world, "node-1").await;
    world.patch_pod_status(&pod, json!({"phase": "Failed", "conditions": null})).await;
    world.settle().await;
    let events = world.sandbox.writes().all().into_iter().filter(|write| write.resource == "events");
    let reasons: Vec<String> = events.filter_map(|event| Some(event.after()?["reason"].as_str()?.to_owned())).collect();
    assert_eq!(reasons, ["FailedDaemonPod", "SuccessfulCreate", "SuccessfulDelete"]);
}

/// DAEMONSET-77.
#[tokio::test(start_paused = true)]
async fn a_refused_release_of_a_pod_does_not_hold_up_the_set() {
    for refusal in [Action::Invalid, Action::Forbidden] {
        let world = cluster().settled(agent()).await;
        let stray = pod_name_on(&world, "node-0").await;
        world.fault(rule(refusal.clone(), "patch", "pods"));
        world.label("pods", &stray, json!({"app": "mine"})).await;
        world.wait(4).await;
        assert_eq!(pod_writes(&world)[3..], ["+node-0"], "{refusal:?}");
        assert_eq!(world.status().await["numberReady"], json!(3));
        world.assert_event(&format!("Warning FailedUpdate Error: cannot release Pod {stray}")).await;
        world.assert_waits(&format!("Pod {stray} stays as it is: the server refused to change it"));
        world.roll_out("img:2", json!({})).await;
        world.wait(300).await;
        assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
        world.assert_count("patch", "pods", 3..=8);
        world.clear_faults();
        world.wait(400).await;
        assert_eq!(world.get("pods", &stray).await["metadata"]["ownerReferences"], Value::Null);
    }
}
