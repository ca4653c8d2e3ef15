//! Take-overs from upstream and from an earlier leader.

use crate::world::*;

/// DEPLOYMENT-69.
#[tokio::test(start_paused = true)]
async fn a_settled_deployment_is_taken_over_without_a_write() {
    let mut world = cluster().settled(web(3)).await;
    world.roll_out("img:2", json!({})).await;
    let paused = with_spec(renamed(web(1), NAMESPACE, "paused"), json!({"paused": true}));
    world.create(paused).await;
    let unread = [("get", DEPLOYMENTS), ("list", "pods")];
    conformance::settled_objects_are_left_alone(&mut world, &unread).await;
}

/// Returns the last state of each object of a kind in a rollout that was recorded under upstream's controllers.
fn recorded(kind: &str) -> Vec<Value> {
    let text = include_str!("../../../e2e/goldens/traces/deployment-rollout.jsonl");
    let mut last = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == kind {
            last.insert(name(&line["object"]).to_owned(), line["object"].clone());
        }
    }
    last.into_values().collect()
}

/// DEPLOYMENT-69.
#[tokio::test(start_paused = true)]
async fn a_deployment_settled_by_upstream_gets_no_writes() {
    let mut world = cluster().start().await;
    world.crash();
    world.stop_replica_sets();
    let deployment = recorded("deployments").remove(0);
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap().to_owned();
    world.create(testkit::objects::namespace(&namespace)).await;
    let mut kept = vec![deployment.clone()];
    kept.extend(recorded("replicasets"));
    let mut uid = Value::Null;
    // The recorded objects are created again, without the fields that the server sets and with the new UID of the owner.
    for object in kept {
        let resource = if object["kind"] == "Deployment" { DEPLOYMENTS } else { REPLICA_SETS };
        let mut fresh = object.clone();
        for field in ["uid", "resourceVersion", "generation", "managedFields"] {
            fresh["metadata"].as_object_mut().unwrap().remove(field);
        }
        if resource == REPLICA_SETS {
            fresh["metadata"]["ownerReferences"][0]["uid"] = uid.clone();
        }
        let made = world.create(fresh).await;
        if resource == DEPLOYMENTS {
            uid = made["metadata"]["uid"].clone();
        }
        let mut status = object["status"].clone();
        status["observedGeneration"] = made["metadata"]["generation"].clone();
        let patch = json!({"status": status});
        world.sandbox.merge(resource, Some(&namespace), name(&object), Some("status"), patch).await.unwrap();
    }
    world.clear_log();
    world.start();
    world.settle().await;
    world.assert_wrote_nothing();
    // `/debug/explain` agrees that the Deployment is settled.
    let explained = world.loops().explain(Some(&format!("{namespace}/web")));
    assert_eq!(explained[0]["state"], "settled", "{explained:#}");
    // The loop manages the ReplicaSets from then on.
    let grown = json!({"spec": {"replicas": 9}});
    world.sandbox.merge(DEPLOYMENTS, Some(&namespace), "web", None, grown).await.unwrap();
    world.settle().await;
    let sets = world.sandbox.list(REPLICA_SETS, Some(&namespace)).await.unwrap();
    let mut sizes: Vec<i64> = sets.iter().map(size_of).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 9]);
}

/// DEPLOYMENT-70.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leads_to_the_same_result() {
    let steps = vec![Step::Change(new_image("img:2", json!({})))];
    let scene = Scene { cluster: cluster(), settled: vec![web(3)], steps };
    scene
        .crash_at_any_write(8, async |world, case| {
            let sets = sets(world).await;
            let end: Vec<(i64, i64)> = sets.iter().map(|set| (size_of(set), revision_of(set))).collect();
            assert_eq!(end, [(0, 1), (3, 2)], "{case}");
            let progressed = format!("ReplicaSet \"{}\" has successfully progressed.", name(&sets[1]));
            assert_eq!(whole_progress(world).await[2], progressed, "{case}");
            assert_available_during_rollout(world, 3, case);
            assert_eq!(revision_of(&world.subject().await), 2);
        })
        .await;
}

/// DEPLOYMENT-71.
#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_the_unseen_set_of_an_earlier_one() {
    let mut world = cluster().settled(web(2)).await;
    world.crash();
    world.wait(60).await;
    // An earlier leader, of a version with other hashes, creates a ReplicaSet that this cache does not show yet.
    world.roll_out("img:2", json!({})).await;
    let annotations = json!({"deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3"});
    let made = merged(orphan("web-otherwise", "img:2", 1), json!({"metadata": {"annotations": annotations}}));
    let made = controlled_by(made, &world.subject().await);
    world.start();
    world.delay("replicasets", 2);
    world.fault(rule(Action::Latency(Duration::from_secs(1)), "list", ""));
    let made = world.create_and_settle(made).await;
    world.settle().await;
    let sets = sets(&world).await;
    assert_eq!(
        sets.iter().map(|set| (name(set) == name(&made), size_of(set))).collect::<Vec<_>>(),
        [(false, 0), (true, 2)]
    );
}
