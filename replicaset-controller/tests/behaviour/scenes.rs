//! What replicaset-controller promises for ReplicaSets and ReplicationControllers, on any cluster.

use std::collections::BTreeSet;

use testkit::scene::prelude::*;

suite! {
    Suite::new("replicaset").controller(&replicaset_controller::DEFINITION, &[]);
    EVERYWHERE.sample() =>
        creates_and_scales a_quota_is_reported_and_overcome a_replication_controller_scales;
    EVERYWHERE =>
        pods_are_made_of_the_template a_changed_template_is_for_new_pods_only
        adopts_what_matches_and_is_free releases_what_no_longer_matches removes_the_least_valuable_pods_first
        replaces_what_is_deleted a_pod_is_available_after_min_ready_seconds
        a_settled_set_is_left_alone a_replication_controller_follows_its_selector;
    SIMULATED =>
        replaces_what_has_failed ending_pods_are_counted_apart nothing_is_created_while_the_set_is_deleted
        more_than_a_burst_is_created;
}

/// Waits until a ReplicaSet has so many Pods, all available, and its status says so.
async fn settled_at(c: &Context, name: &str, replicas: i64) -> Result<Value, Failure> {
    c.until(&format!("ReplicaSet {name} to have {replicas} available Pods"), async || {
        let set = c.get(REPLICA_SETS, name).await.ok()?;
        let status = &set["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let counted = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        (counted.iter().all(|f| number(f) == replicas) && status["observedGeneration"] == set["metadata"]["generation"])
            .then_some(set)
    })
    .await
}

/// REPLICASET-17, REPLICASET-22, REPLICASET-29.
async fn creates_and_scales(c: Context) -> Outcome {
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    let mut before = BTreeSet::new();
    for replicas in [3, 5, 1, 0, 2] {
        c.scale(REPLICA_SETS, "web", replicas).await?;
        let set = settled_at(&c, "web", i64::from(replicas)).await?;
        let pods: BTreeSet<String> =
            c.active_pods_of(&set).await?.iter().map(|pod| pod["metadata"]["name"].to_string()).collect();
        assert_eq!(pods.len(), replicas as usize);
        assert!(pods.is_subset(&before) || pods.is_superset(&before), "{before:?} became {pods:?}");
        before = pods;
    }
    c.until("events for each Pod that was created or deleted", async || {
        let events = c.events_of("ReplicaSet", "web").await.ok()?;
        let created = events.iter().filter(|e| e.starts_with("Normal SuccessfulCreate Created pod: web-")).count();
        let deleted = events.iter().filter(|e| e.starts_with("Normal SuccessfulDelete Deleted pod: web-")).count();
        (created == 7 && deleted == 5).then_some(())
    })
    .await
}

/// REPLICASET-19.
async fn pods_are_made_of_the_template(c: Context) -> Outcome {
    let set = replica_set("web")
        .set("spec/template/metadata/labels/tier", "front")
        .set("spec/template/metadata/annotations/note", "kept")
        .set("spec/template/metadata/finalizers", json!(["example.com/keep"]));
    let set = c.create(REPLICA_SETS, set).await?;
    settled_at(&c, "web", 1).await?;
    let pods = c.pods_of(&set).await?;
    let meta = &pods[0]["metadata"];
    assert_eq!(meta["generateName"], "web-");
    assert_eq!((&meta["labels"]["tier"], &meta["annotations"]["note"]), (&json!("front"), &json!("kept")));
    assert_eq!(meta["finalizers"], json!(["example.com/keep"]));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(meta["ownerReferences"], owner);
    Ok(())
}

async fn a_changed_template_is_for_new_pods_only(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    c.merge(REPLICA_SETS, "web", image("img:2")).await?;
    c.scale(REPLICA_SETS, "web", 3).await?;
    settled_at(&c, "web", 3).await?;
    let pods = c.active_pods_of(&set).await?;
    let mut images: Vec<_> = pods.iter().map(|p| p["spec"]["containers"][0]["image"].to_string()).collect();
    images.sort();
    assert_eq!(images, [r#""img:1""#, r#""img:1""#, r#""img:2""#]);
    Ok(())
}

async fn adopts_what_matches_and_is_free(c: Context) -> Outcome {
    let other =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "0", "controller": true}]);
    c.create(PODS, pod("free", "web")).await?;
    c.create(PODS, pod("owned", "web").set("metadata/ownerReferences", other.clone())).await?;
    c.create(PODS, pod("else", "elsewhere")).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    let set = settled_at(&c, "web", 2).await?;
    let names: Vec<_> =
        c.active_pods_of(&set).await?.iter().map(|p| p["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.contains(&"free".to_owned()), "{names:?}");
    assert!(!names.contains(&"owned".to_owned()) && !names.contains(&"else".to_owned()), "{names:?}");
    let free = c.get(PODS, "free").await?;
    assert_eq!(free["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    // A garbage collector removes the Pod whose owner never was.
    if c.kind() != Kind::Kubeconfig {
        assert_eq!(c.get(PODS, "owned").await?["metadata"]["ownerReferences"], other);
    }
    Ok(())
}

/// REPLICASET-9, REPLICASET-10.
async fn releases_what_no_longer_matches(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let name = c.pods_of(&set).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // The reference to an owner that is no controller stays.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other"}});
    let uid = &c.create(SERVICE_ACCOUNTS, account).await?["metadata"]["uid"];
    let other = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "other", "uid": uid});
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": other}]);
    c.json_patch(PODS, &name, add).await?;
    c.merge(PODS, &name, json!({"metadata": {"labels": {"app": "debug"}}})).await?;
    c.until_object(PODS, &name, "the Pod to be released", |pod| pod["metadata"]["ownerReferences"] == json!([other]))
        .await?;
    c.until("another Pod in the place of the released one", async || {
        let pods = c.active_pods_of(&set).await.ok()?;
        (pods.len() == 2 && pods.iter().all(is_ready)).then_some(())
    })
    .await?;
    let released = c.get(PODS, &name).await?;
    assert!(is_ready(&released), "a released Pod runs on");
    c.merge(PODS, &name, json!({"metadata": {"labels": {"app": "web"}}})).await?;
    c.until("the surplus to be removed after the Pod came back", async || {
        let pods = c.active_pods_of(&set).await.ok()?;
        let events = c.events_of("ReplicaSet", "web").await.ok()?;
        (pods.len() == 2 && events.iter().any(|e| e.contains("SuccessfulDelete"))).then_some(())
    })
    .await
}

/// REPLICASET-23.
async fn removes_the_least_valuable_pods_first(c: Context) -> Outcome {
    let gate = json!([{"conditionType": "example.com/never"}]);
    c.create(PODS, pod("unassigned", "web").set("spec/nodeSelector", json!({"example.com/none": "here"}))).await?;
    c.create(PODS, pod("unready", "web").set("spec/readinessGates", gate)).await?;
    c.until_object(PODS, "unready", "Pod unready to run", |pod| pod["status"]["phase"] == "Running").await?;
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(5)).await?;
    c.until_object(REPLICA_SETS, "web", "ReplicaSet web to have 5 Pods, 3 of them ready", |set| {
        set["status"]["replicas"] == 5 && set["status"]["readyReplicas"] == 3
    })
    .await?;
    let pods = c.active_pods_of(&set).await?;
    let cheap = pods.iter().map(|p| p["metadata"]["name"].as_str().unwrap()).find(|n| n.starts_with("web-")).unwrap();
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}});
    c.merge(PODS, cheap, cost).await?;
    for (replicas, gone) in [(4, "unassigned"), (3, "unready"), (2, cheap)] {
        c.scale(REPLICA_SETS, "web", replicas).await?;
        c.until(&format!("Pod {gone} to be the next to go"), async || {
            let pods = c.active_pods_of(&set).await.ok()?;
            (pods.len() == replicas as usize).then_some(pods)
        })
        .await?;
        let left = c.active_pods_of(&set).await?;
        let stays = left.iter().any(|p| p["metadata"]["name"] == gone);
        c.check(!stays, &format!("Pod {gone} should have gone with the change to {replicas}")).await?;
    }
    Ok(())
}

/// REPLICASET-20.
async fn replaces_what_is_deleted(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let name = c.pods_of(&set).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &name, "Background").await?;
    c.until("another Pod in the place of the deleted one", async || {
        let pods = c.active_pods_of(&set).await.ok()?;
        (pods.len() == 2 && pods.iter().all(|p| is_ready(p) && p["metadata"]["name"] != *name)).then_some(())
    })
    .await
}

/// REPLICASET-20.
async fn replaces_what_has_failed(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let name = c.pods_of(&set).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.merge_status(PODS, &name, json!({"status": {"phase": "Failed", "reason": "Evicted"}})).await?;
    c.until("another Pod in the place of the failed one", async || {
        let pods = c.active_pods_of(&set).await.ok()?;
        (pods.len() == 2 && pods.iter().all(is_ready)).then_some(())
    })
    .await?;
    let failed = c.get(PODS, &name).await?;
    assert!(failed["metadata"].get("deletionTimestamp").is_none(), "a failed Pod is left to others");
    assert_eq!(failed["metadata"]["ownerReferences"][0]["name"], "web");
    settled_at(&c, "web", 2).await?;
    Ok(())
}

/// REPLICASET-36.
async fn a_pod_is_available_after_min_ready_seconds(c: Context) -> Outcome {
    c.create(REPLICA_SETS, replica_set("web").replicas(2).set("spec/minReadySeconds", 3)).await?;
    let set =
        c.until_object(REPLICA_SETS, "web", "the Pods to be ready", |set| set["status"]["readyReplicas"] == 2).await?;
    assert!(set["status"].get("availableReplicas").is_none(), "ready is not available yet: {}", set["status"]);
    settled_at(&c, "web", 2).await?;
    let now = c.clock().now();
    for pod in c.pods_of(&set).await? {
        let since = time(&condition(&pod, "Ready").unwrap()["lastTransitionTime"]);
        let ago = now.duration_since(since).as_secs_f64();
        assert!(ago >= 3.0, "available {ago} s after it became ready");
    }
    Ok(())
}

/// REPLICASET-31.
async fn ending_pods_are_counted_apart(c: Context) -> Outcome {
    c.create(REPLICA_SETS, replica_set("web").replicas(3).script("sim/terminate-after", "3")).await?;
    settled_at(&c, "web", 3).await?;
    c.scale(REPLICA_SETS, "web", 1).await?;
    // Older API servers drop the field.
    if c.server_minor().await? < 35 {
        settled_at(&c, "web", 1).await?;
        return Ok(());
    }
    c.until("two Pods to be counted as terminating", async || {
        let set = c.get(REPLICA_SETS, "web").await.ok()?;
        let status = &set["status"];
        (status["terminatingReplicas"] == 2 && status["replicas"] == 1).then_some(())
    })
    .await?;
    c.until_object(REPLICA_SETS, "web", "no Pod to be counted as terminating any more", |set| {
        set["status"]["terminatingReplicas"] == 0
    })
    .await
    .map(drop)
}

/// Sets a quota on Pods, and its status where no quota controller runs.
async fn limit_pods(c: &Context, pods: u32, used: u32) -> Outcome {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
        "spec": {"hard": {"pods": pods.to_string()}}});
    if c.create(RESOURCE_QUOTAS, quota.clone()).await.is_err() {
        c.merge(RESOURCE_QUOTAS, "pods", json!({"spec": quota["spec"]})).await?;
    }
    if c.kind() == Kind::Kubeconfig {
        return c
            .until_object(RESOURCE_QUOTAS, "pods", "the quota to be in force", |quota| {
                quota["status"]["hard"]["pods"] == pods
            })
            .await
            .map(drop);
    }
    let status = json!({"status": {"hard": {"pods": pods.to_string()}, "used": {"pods": used.to_string()}}});
    c.merge_status(RESOURCE_QUOTAS, "pods", status).await?;
    Ok(())
}

async fn a_quota_is_reported_and_overcome(c: Context) -> Outcome {
    limit_pods(&c, 2, 0).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(4)).await?;
    let set = c
        .until_object(REPLICA_SETS, "web", "ReplicaSet web to say that it cannot create Pods", |set| {
            set["status"]["replicas"] == 2 && condition(set, "ReplicaFailure").is_some()
        })
        .await?;
    let failure = condition(&set, "ReplicaFailure").unwrap();
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(failure["message"].as_str().unwrap().contains("exceeded quota: pods"), "{failure}");
    c.until("an event about it", async || {
        let events = c.events_of("ReplicaSet", "web").await.ok()?;
        events.iter().any(|e| e.starts_with("Warning FailedCreate Error creating: pods \"web-")).then_some(())
    })
    .await?;
    limit_pods(&c, 10, 2).await?;
    let set = settled_at(&c, "web", 4).await?;
    assert!(condition(&set, "ReplicaFailure").is_none());
    Ok(())
}

/// REPLICASET-21.
async fn nothing_is_created_while_the_set_is_deleted(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    c.delete(REPLICA_SETS, "web", "Foreground").await?;
    let name = c.pods_of(&set).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.delete(PODS, &name, "Background").await?;
    c.until_object(REPLICA_SETS, "web", "the status to be kept", |set| set["status"]["replicas"] == 1).await?;
    c.stays("no Pod is created", Duration::from_secs(1), async || {
        c.active_pods_of(&set).await.is_ok_and(|pods| pods.len() == 1)
    })
    .await
}

async fn more_than_a_burst_is_created(c: Context) -> Outcome {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(600)).await?;
    settled_at(&c, "web", 600).await?;
    assert_eq!(c.active_pods_of(&set).await?.len(), 600);
    c.scale(REPLICA_SETS, "web", 0).await?;
    settled_at(&c, "web", 0).await?;
    Ok(())
}

async fn a_settled_set_is_left_alone(c: Context) -> Outcome {
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    settled_at(&c, "web", 3).await?;
    c.left_alone(&[REPLICA_SETS, PODS], async || Ok(())).await
}

/// REPLICASET-59.
async fn a_replication_controller_scales(c: Context) -> Outcome {
    let rc = c.create(REPLICATION_CONTROLLERS, replication_controller("web").replicas(2)).await?;
    for replicas in [2, 4, 1] {
        c.scale(REPLICATION_CONTROLLERS, "web", replicas).await?;
        let rc = c
            .until(&format!("ReplicationController web to have {replicas} available Pods"), async || {
                let rc = c.get(REPLICATION_CONTROLLERS, "web").await.ok()?;
                let status = &rc["status"];
                let counted = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
                let same = counted.iter().all(|f| status[f] == replicas);
                (same && status["observedGeneration"] == rc["metadata"]["generation"]).then_some(rc)
            })
            .await?;
        assert!(rc["status"].get("terminatingReplicas").is_none());
    }
    let pods = c.active_pods_of(&rc).await?;
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["kind"], "ReplicationController");
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    c.until_event("ReplicationController", "web", "Normal SuccessfulCreate Created pod: web-").await?;
    let events = c.list(EVENTS).await?;
    let own = |event: &&Value| event["involvedObject"]["kind"] == "ReplicationController";
    assert!(events.iter().filter(own).all(|event| event["source"]["component"] == "replication-controller"));
    Ok(())
}

/// REPLICASET-58.
async fn a_replication_controller_follows_its_selector(c: Context) -> Outcome {
    let rc = c.create(REPLICATION_CONTROLLERS, replication_controller("web").replicas(2)).await?;
    c.until("two Pods", async || c.active_pods_of(&rc).await.ok().filter(|p| p.len() == 2)).await?;
    let old: Vec<_> = c.active_pods_of(&rc).await?.iter().map(|p| p["metadata"]["name"].clone()).collect();
    let labels = json!({"app": "web", "v": "2"});
    let patch = json!({"spec": {"selector": labels, "template": {"metadata": {"labels": labels}}}});
    c.merge(REPLICATION_CONTROLLERS, "web", patch).await?;
    c.until("two new Pods that match the new selector", async || {
        let pods = c.active_pods_of(&rc).await.ok()?;
        let new = |p: &Value| p["metadata"]["labels"]["v"] == "2" && !old.contains(&p["metadata"]["name"]);
        (pods.len() == 2 && pods.iter().all(new)).then_some(())
    })
    .await?;
    for name in &old {
        let pod = c.get(PODS, name.as_str().unwrap()).await?;
        assert!(pod["metadata"].get("ownerReferences").is_none(), "released, not deleted");
    }
    Ok(())
}
