//! What deployment-controller promises, with the ReplicaSet controller beside it, on any cluster.

use testkit::scene::prelude::*;

const REVISION: &str = "deployment.kubernetes.io/revision";

suite! {
    Suite::new("deployment")
        .controller(&deployment_controller::DEFINITION, &[])
        .beside(&["replicaset-controller"])
        .sandbox(|sandbox| sandbox.keep_unknown_fields(true));
    EVERYWHERE.sample() =>
        rolls_out_and_scales surge_and_unavailable_are_respected_at_every_step rolls_back_to_an_earlier_revision;
    EVERYWHERE =>
        without_surge_old_pods_go_first
        an_update_overtakes_an_update pause_and_resume
        recreate_never_runs_two_revisions history_is_limited a_stuck_rollout_is_scaled_in_proportion
        a_stuck_rollout_exceeds_its_deadline_and_recovers availability_needs_min_ready_seconds
        replica_sets_that_match_are_adopted a_replica_set_that_stops_matching_is_released_and_replaced
        annotations_and_change_cause_reach_the_replica_set a_name_that_is_taken_is_avoided
        a_restart_replaces_every_pod a_complete_deployment_is_left_alone;
    SANDBOX =>
        an_unknown_field_survives;
    SIMULATED.sample() =>
        two_hundred_at_once;
}

/// The ReplicaSet that runs an image.
async fn set_of(c: &Context, deployment: &Value, image: &str) -> Result<Value, Failure> {
    let sets = c.replica_sets_of(deployment).await?;
    let found = sets.into_iter().find(|s| s["spec"]["template"]["spec"]["containers"][0]["image"] == image);
    match found {
        Some(set) => Ok(set),
        None => c.fail(&format!("no ReplicaSet runs {image}")).await,
    }
}

fn revision(object: &Value) -> &str {
    object["metadata"]["annotations"][REVISION].as_str().unwrap_or_default()
}

fn size(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(-1)
}

/// Waits until the ReplicaSets of a Deployment have these sizes, by revision.
async fn sizes(c: &Context, deployment: &Value, wanted: &[i64]) -> Outcome {
    c.until(&format!("the ReplicaSets to have the sizes {wanted:?}"), async || {
        let sets = c.replica_sets_of(deployment).await.ok()?;
        (sets.iter().map(size).collect::<Vec<_>>() == wanted).then_some(())
    })
    .await
}

/// Waits until a Deployment has a condition with that status and reason.
async fn has_condition(c: &Context, name: &str, kind: &str, status: &str, reason: &str) -> Result<Value, Failure> {
    c.until(&format!("Deployment {name} to have {kind}={status} {reason}"), async || {
        let deployment = c.get(DEPLOYMENTS, name).await.ok()?;
        let found = condition(&deployment, kind)?;
        (found["status"] == status && found["reason"] == reason).then_some(deployment)
    })
    .await
}

/// DEPLOYMENT-26, DEPLOYMENT-27, DEPLOYMENT-41, DEPLOYMENT-55, DEPLOYMENT-58.
async fn rolls_out_and_scales(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(3)).await?;
    let d = c.rolled_out("web").await?;
    assert_eq!(revision(&d), "1");
    assert_eq!(condition(&d, "Available").unwrap()["reason"], "MinimumReplicasAvailable");
    assert_eq!(condition(&d, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
    let sets = c.replica_sets_of(&d).await?;
    let set = &sets[0];
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    for replicas in [5, 1, 0, 2] {
        c.scale(DEPLOYMENTS, "web", replicas).await?;
        let d = c.rolled_out("web").await?;
        assert_eq!(d["spec"]["replicas"], replicas);
        assert_eq!(condition(&d, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable", "{replicas}");
    }
    let sets = c.replica_sets_of(&d).await?;
    assert_eq!(sets.len(), 1, "scaling makes no revision");
    let annotations = &sets[0]["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "2");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "3");
    let name = sets[0]["metadata"]["name"].as_str().unwrap();
    c.until("an event for every size", async || {
        let events = c.events_of("Deployment", "web").await.ok()?;
        let text = |way: &str, from: u32, to: u32| {
            format!("Normal ScalingReplicaSet Scaled {way} replica set {name} from {from} to {to}")
        };
        let wanted = [text("up", 0, 3), text("up", 3, 5), text("down", 5, 1), text("down", 1, 0), text("up", 0, 2)];
        (events == wanted).then_some(())
    })
    .await
}

/// Fails if a state breaks the limits of a rollout.
async fn check_limits(c: &Context, states: &[State], most: i64, least: i64) -> Outcome {
    for (step, state) in states.iter().enumerate() {
        let (size, ready) = (state.size(), state.ready());
        let names = |objects: Vec<&String>| format!("{objects:?}");
        let picture = || {
            format!("sets {} pods {}", names(state.replica_sets.keys().collect()), names(state.pods.keys().collect()))
        };
        c.check(size <= most, &format!("step {step}: {size} Pods wanted, {most} allowed: {}", picture())).await?;
        c.check(ready >= least, &format!("step {step}: {ready} Pods ready, {least} promised: {}", picture())).await?;
    }
    Ok(())
}

/// DEPLOYMENT-29, DEPLOYMENT-31.
async fn surge_and_unavailable_are_respected_at_every_step(c: Context) -> Outcome {
    let web = deployment("web").replicas(8).rolling("25%", "25%").script("sim/ready-after", "0.2");
    c.create(DEPLOYMENTS, web).await?;
    c.rolled_out("web").await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    let d = c.rolled_out("web").await?;
    let states = recorder.stop().await?;
    check_limits(&c, &states, 10, 6).await?;
    sizes(&c, &d, &[0, 8]).await?;
    // The rollout went through at least one step on the way.
    let (old, new) = (set_of(&c, &d, "img:1").await?, set_of(&c, &d, "img:2").await?);
    let new = new["metadata"]["name"].as_str().unwrap();
    let between = states.iter().filter_map(|s| s.replica_sets.get(new)).map(|s| size(s)).any(|n| n > 0 && n < 8);
    c.check(between, "the new ReplicaSet grew in one step").await?;
    assert_eq!((revision(&old), revision(&d)), ("1", "2"));
    Ok(())
}

async fn without_surge_old_pods_go_first(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(4).rolling(0, 1).script("sim/ready-after", "0.1")).await?;
    c.rolled_out("web").await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    c.rolled_out("web").await?;
    check_limits(&c, &recorder.stop().await?, 4, 3).await
}

async fn an_update_overtakes_an_update(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(6).rolling(2, 1)).await?;
    c.rolled_out("web").await?;
    let recorder = c.record().await?;
    let gate = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}],
        "readinessGates": [{"conditionType": "example.com/never"}]}}}});
    let d = c.merge(DEPLOYMENTS, "web", gate).await?;
    c.until("the stuck revision to have Pods", async || {
        let sets = c.replica_sets_of(&d).await.ok()?;
        sets.iter().any(|s| revision(s) == "2" && s["status"]["replicas"].as_i64() > Some(0)).then_some(())
    })
    .await?;
    let mut third = image("img:3");
    third["spec"]["template"]["spec"]["readinessGates"] = Value::Null;
    c.merge(DEPLOYMENTS, "web", third).await?;
    c.rolled_out("web").await?;
    sizes(&c, &d, &[0, 0, 6]).await?;
    check_limits(&c, &recorder.stop().await?, 8, 5).await
}

/// DEPLOYMENT-44, DEPLOYMENT-45.
async fn pause_and_resume(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    let d = c.rolled_out("web").await?;
    c.merge(DEPLOYMENTS, "web", json!({"spec": {"paused": true}})).await?;
    has_condition(&c, "web", "Progressing", "Unknown", "DeploymentPaused").await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    c.stays("a paused Deployment makes no new revision", Duration::from_secs(1), async || {
        c.replica_sets_of(&d).await.is_ok_and(|sets| sets.len() == 1)
    })
    .await?;
    c.scale(DEPLOYMENTS, "web", 4).await?;
    sizes(&c, &d, &[4]).await?;
    c.until_object(DEPLOYMENTS, "web", "no Pod to count as updated", |d| d["status"].get("updatedReplicas").is_none())
        .await?;
    c.merge(DEPLOYMENTS, "web", json!({"spec": {"paused": null}})).await?;
    c.rolled_out("web").await?;
    has_condition(&c, "web", "Progressing", "True", "NewReplicaSetAvailable").await?;
    sizes(&c, &d, &[0, 4]).await
}

/// DEPLOYMENT-17, DEPLOYMENT-18.
async fn rolls_back_to_an_earlier_revision(c: Context) -> Outcome {
    let annotated =
        deployment("web").replicas(2).set("metadata/annotations", json!({"kubernetes.io/change-cause": "first"}));
    c.create(DEPLOYMENTS, annotated).await?;
    c.rolled_out("web").await?;
    let mut second = image("img:2");
    second["metadata"] = json!({"annotations": {"kubernetes.io/change-cause": "second"}});
    c.merge(DEPLOYMENTS, "web", second).await?;
    let d = c.rolled_out("web").await?;
    let first = set_of(&c, &d, "img:1").await?;
    // What kubectl rollout undo sends.
    let mut template = first["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    let annotations = json!({REVISION: revision(&d), "kubernetes.io/change-cause": "first"});
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]);
    c.json_patch(DEPLOYMENTS, "web", patch).await?;
    let d = c
        .until("revision 3 to be rolled out", async || {
            let d = c.rolled_out("web").await.ok()?;
            (revision(&d) == "3").then_some(d)
        })
        .await?;
    let sets = c.replica_sets_of(&d).await?;
    assert_eq!(sets.len(), 2, "the old ReplicaSet is used again");
    let again = set_of(&c, &d, "img:1").await?;
    assert_eq!(again["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(revision(&again), "3");
    assert_eq!(again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(again["metadata"]["annotations"]["kubernetes.io/change-cause"], "first");
    Ok(())
}

/// DEPLOYMENT-35.
async fn recreate_never_runs_two_revisions(c: Context) -> Outcome {
    let web = deployment("web").replicas(3).recreate().script("sim/terminate-after", "1");
    c.create(DEPLOYMENTS, web).await?;
    c.rolled_out("web").await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    let d = c.rolled_out("web").await?;
    for (step, state) in recorder.stop().await?.iter().enumerate() {
        // A Pod that has ended no longer runs anything, even if it is still there.
        let runs = |p: &&std::sync::Arc<Value>| !matches!(p["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let mut images: Vec<_> =
            state.pods.values().filter(runs).map(|p| p["spec"]["containers"][0]["image"].to_string()).collect();
        images.sort();
        images.dedup();
        c.check(images.len() < 2, &format!("step {step}: {images:?} run side by side")).await?;
    }
    sizes(&c, &d, &[0, 3]).await
}

/// DEPLOYMENT-50.
async fn history_is_limited(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").set("spec/revisionHistoryLimit", 2)).await?;
    let d = c.rolled_out("web").await?;
    for version in 2..=5 {
        c.merge(DEPLOYMENTS, "web", image(&format!("img:{version}"))).await?;
        c.until(&format!("revision {version} to be rolled out"), async || {
            let d = c.rolled_out("web").await.ok()?;
            (revision(&d) == version.to_string()).then_some(())
        })
        .await?;
    }
    c.until("only the last revisions to be kept", async || {
        let sets = c.replica_sets_of(&d).await.ok()?;
        (sets.iter().map(revision).collect::<Vec<_>>() == ["3", "4", "5"]).then_some(())
    })
    .await
}

/// A change of template whose Pods never become ready.
fn never_ready(image: &str) -> Value {
    let gates = json!([{"conditionType": "example.com/never"}]);
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}], "readinessGates": gates}}}})
}

/// DEPLOYMENT-26, DEPLOYMENT-43.
async fn a_stuck_rollout_is_scaled_in_proportion(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(10).rolling(3, 2)).await?;
    let d = c.rolled_out("web").await?;
    c.merge(DEPLOYMENTS, "web", never_ready("img:2")).await?;
    sizes(&c, &d, &[8, 5]).await?;
    c.scale(DEPLOYMENTS, "web", 15).await?;
    // 18 may be there, 13 are: 8 × 18 / 13 and 5 × 18 / 13, rounded.
    sizes(&c, &d, &[11, 7]).await?;
    for set in c.replica_sets_of(&d).await? {
        let annotations = &set["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "15");
        assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "18");
    }
    Ok(())
}

/// DEPLOYMENT-60.
async fn a_stuck_rollout_exceeds_its_deadline_and_recovers(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2).set("spec/progressDeadlineSeconds", 3)).await?;
    c.rolled_out("web").await?;
    c.merge(DEPLOYMENTS, "web", never_ready("img:2")).await?;
    let d = has_condition(&c, "web", "Progressing", "False", "ProgressDeadlineExceeded").await?;
    let set = set_of(&c, &d, "img:2").await?;
    let message = format!("ReplicaSet \"{}\" has timed out progressing.", set["metadata"]["name"].as_str().unwrap());
    assert_eq!(condition(&d, "Progressing").unwrap()["message"], message);
    assert_eq!(condition(&d, "Available").unwrap()["status"], "True");
    let mut good = image("img:3");
    good["spec"]["template"]["spec"]["readinessGates"] = Value::Null;
    c.merge(DEPLOYMENTS, "web", good).await?;
    c.rolled_out("web").await?;
    has_condition(&c, "web", "Progressing", "True", "NewReplicaSetAvailable").await?;
    Ok(())
}

/// DEPLOYMENT-16, DEPLOYMENT-55.
async fn availability_needs_min_ready_seconds(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2).rolling(1, 0).set("spec/minReadySeconds", 2)).await?;
    let d = has_condition(&c, "web", "Available", "False", "MinimumReplicasUnavailable").await?;
    c.rolled_out("web").await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    c.rolled_out("web").await?;
    sizes(&c, &d, &[0, 2]).await?;
    // The setting alone makes no revision and reaches the ReplicaSet.
    c.merge(DEPLOYMENTS, "web", json!({"spec": {"minReadySeconds": 1}})).await?;
    c.until("the ReplicaSet to have the new minReadySeconds", async || {
        let sets = c.replica_sets_of(&d).await.ok()?;
        (sets.len() == 2 && sets[1]["spec"]["minReadySeconds"] == 1).then_some(())
    })
    .await
}

/// DEPLOYMENT-5.
async fn replica_sets_that_match_are_adopted(c: Context) -> Outcome {
    for (name, image) in [("web-current", "img:1"), ("web-old", "img:0")] {
        let orphan = replica_set(name)
            .replicas(2)
            .set("metadata/labels/app", "web")
            .set("spec/selector/matchLabels/app", "web")
            .set("spec/template/metadata/labels/app", "web")
            .set("spec/template/spec/containers/0/image", image);
        c.create(REPLICA_SETS, orphan).await?;
        c.until_object(REPLICA_SETS, name, "the ReplicaSet to run", |set| set["status"]["availableReplicas"] == 2)
            .await?;
    }
    c.create(DEPLOYMENTS, deployment("web").replicas(3)).await?;
    let d = c.rolled_out("web").await?;
    let sets = c.replica_sets_of(&d).await?;
    let shown: Vec<_> = sets.iter().map(|set| (set["metadata"]["name"].as_str().unwrap(), size(set))).collect();
    assert_eq!(shown, [("web-old", 0), ("web-current", 3)], "an equal template needs no ReplicaSet of its own");
    for set in &sets {
        let owner = &set["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
        assert_eq!(set["metadata"]["labels"], json!({"app": "web"}), "no label is added");
    }
    assert_eq!(revision(&sets[1]), "1");
    Ok(())
}

/// DEPLOYMENT-4, DEPLOYMENT-9, DEPLOYMENT-21.
async fn a_replica_set_that_stops_matching_is_released_and_replaced(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    let d = c.rolled_out("web").await?;
    let name = c.replica_sets_of(&d).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    c.merge(REPLICA_SETS, &name, json!({"metadata": {"labels": {"app": "other"}}})).await?;
    c.until_object(REPLICA_SETS, &name, "the ReplicaSet to be released", |set| {
        set["metadata"].get("ownerReferences").is_none()
    })
    .await?;
    // The released ReplicaSet keeps its name, so the next one gets another name.
    c.until_object(DEPLOYMENTS, "web", "another name to be found", |d| d["status"]["collisionCount"] == 1).await?;
    sizes(&c, &d, &[2]).await?;
    c.rolled_out("web").await?;
    let released = c.get(REPLICA_SETS, &name).await?;
    assert_eq!((size(&released), &released["status"]["availableReplicas"]), (2, &json!(2)), "it runs on");
    Ok(())
}

/// DEPLOYMENT-16.
async fn annotations_and_change_cause_reach_the_replica_set(c: Context) -> Outcome {
    let annotations = json!({"kubernetes.io/change-cause": "why", "note": "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    c.create(DEPLOYMENTS, deployment("web").set("metadata/annotations", annotations)).await?;
    let d = c.rolled_out("web").await?;
    let sets = c.replica_sets_of(&d).await?;
    let on_set = &sets[0]["metadata"]["annotations"];
    assert_eq!((&on_set["kubernetes.io/change-cause"], &on_set["note"]), (&json!("why"), &json!("1")));
    assert!(on_set.get("kubectl.kubernetes.io/last-applied-configuration").is_none());
    c.merge(DEPLOYMENTS, "web", json!({"metadata": {"annotations": {"note": "2"}}})).await?;
    c.until("the change to reach the ReplicaSet", async || {
        let sets = c.replica_sets_of(&d).await.ok()?;
        (sets[0]["metadata"]["annotations"]["note"] == "2").then_some(())
    })
    .await
}

/// DEPLOYMENT-21.
async fn a_name_that_is_taken_is_avoided(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web")).await?;
    let d = c.rolled_out("web").await?;
    let name = c.replica_sets_of(&d).await?[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // The ReplicaSet is no longer what its name says.
    c.merge(REPLICA_SETS, &name, image("img:other")).await?;
    let d =
        c.until_object(DEPLOYMENTS, "web", "another name to be found", |d| d["status"]["collisionCount"] == 1).await?;
    c.until("the Deployment to run on a ReplicaSet of another name", async || {
        let sets = c.replica_sets_of(&d).await.ok()?;
        let sized: Vec<_> = sets.iter().map(|s| (s["metadata"]["name"] == *name, size(s))).collect();
        (sized == [(true, 0), (false, 1)]).then_some(())
    })
    .await?;
    c.rolled_out("web").await?;
    Ok(())
}

async fn a_restart_replaces_every_pod(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(3)).await?;
    c.rolled_out("web").await?;
    let before: Vec<_> = c.list(PODS).await?.iter().map(|p| p["metadata"]["uid"].clone()).collect();
    let at = "kubectl.kubernetes.io/restartedAt";
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {at: "2026-01-01T00:00:00Z"}}}}});
    c.merge(DEPLOYMENTS, "web", patch).await?;
    c.rolled_out("web").await?;
    c.until_list(PODS, "every Pod to be another one", |pods| {
        pods.len() == 3 && pods.iter().all(|p| !before.contains(&p["metadata"]["uid"]))
    })
    .await
    .map(drop)
}

async fn a_complete_deployment_is_left_alone(c: Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    c.rolled_out("web").await?;
    c.sleep(Duration::from_secs(1)).await;
    let recorder = c.record().await?;
    c.sleep(Duration::from_secs(3)).await;
    let states = recorder.stop().await?;
    c.check(states.len() == 1, &format!("{} writes to a Deployment at rest", states.len() - 1)).await
}

/// DEPLOYMENT-3.
async fn an_unknown_field_survives(c: Context) -> Outcome {
    let unknown = json!({"depth": 3, "list": [{"deep": true}]});
    let web = deployment("web")
        .set("spec/template/spec/futureField", unknown.clone())
        .set("spec/template/spec/containers/0/futureField", "kept");
    c.create(DEPLOYMENTS, web).await?;
    let d = c.rolled_out("web").await?;
    let sets = c.replica_sets_of(&d).await?;
    assert_eq!(sets[0]["spec"]["template"]["spec"]["futureField"], unknown);
    for pod in c.pods_of(&sets[0]).await? {
        assert_eq!(pod["spec"]["futureField"], unknown);
        assert_eq!(pod["spec"]["containers"][0]["futureField"], "kept");
    }
    // A change of it alone is a change of the template.
    c.merge(DEPLOYMENTS, "web", json!({"spec": {"template": {"spec": {"futureField": {"depth": 4}}}}})).await?;
    sizes(&c, &d, &[0, 1]).await
}

async fn two_hundred_at_once(c: Context) -> Outcome {
    for i in 0..200 {
        c.create(DEPLOYMENTS, deployment(&format!("web-{i}")).replicas(2)).await?;
    }
    let complete = |replicas: i64, updated: &str| {
        let (c, updated) = (c.clone(), updated.to_owned());
        async move {
            let done = async || {
                let deployments = c.list(DEPLOYMENTS).await.ok()?;
                let complete = |d: &&Value| {
                    let status = &d["status"];
                    ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|f| status[f] == replicas)
                        && status["observedGeneration"] == d["metadata"]["generation"]
                        && revision(d) == updated
                };
                (deployments.iter().filter(complete).count() == 200).then_some(())
            };
            c.until_within("200 Deployments to be complete", Duration::from_secs(180), done).await
        }
    };
    complete(2, "1").await?;
    for i in 0..200 {
        c.merge(DEPLOYMENTS, &format!("web-{i}"), image("img:2")).await?;
    }
    complete(2, "2").await?;
    assert_eq!(c.list(REPLICA_SETS).await?.len(), 400);
    Ok(())
}
