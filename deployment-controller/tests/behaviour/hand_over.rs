//! Take-overs from upstream and from an earlier leader.

use std::time::Duration;

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, REPLICA_SETS, World, name_of, revision_of, size_of_set, web_deployment,
};

/// DEPLOYMENT-69.
#[tokio::test(start_paused = true)]
async fn a_settled_deployment_is_taken_over_without_a_write() {
    let mut world = World::new().await;
    world.create_object(web_deployment(3)).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.settle().await;
    let mut paused = web_deployment(1);
    paused["metadata"]["name"] = json!("paused");
    paused["spec"]["paused"] = json!(true);
    for at in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *paused.pointer_mut(at).unwrap() = json!({"app": "paused"});
    }
    world.create_object(paused).await;
    world.settle().await;
    world.crash();
    world.clear_logs();
    world.start();
    world.settle().await;
    assert_eq!(world.own_writes(), Vec::<String>::new());
    assert_eq!((world.request_count("get", DEPLOYMENTS), world.request_count("list", "pods")), (0, 0));
}

/// Returns the last state of each object of a kind in a rollout that was recorded under upstream's controllers.
fn recorded(kind: &str) -> Vec<Value> {
    let text = include_str!("../../../e2e/goldens/traces/deployment-rollout.jsonl");
    let mut last = std::collections::BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == kind {
            last.insert(name_of(&line["object"]).to_owned(), line["object"].clone());
        }
    }
    last.into_values().collect()
}

/// DEPLOYMENT-69.
#[tokio::test(start_paused = true)]
async fn a_deployment_settled_by_upstream_gets_no_writes() {
    let mut world = World::new().await;
    world.crash();
    world.replica_set_controller = None;
    let deployment = recorded("deployments").remove(0);
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap().to_owned();
    world.create_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
    let mut kept = vec![deployment.clone()];
    kept.extend(recorded("replicasets"));
    let mut uid = Value::Null;
    for object in kept {
        let resource = if object["kind"] == "Deployment" { DEPLOYMENTS } else { REPLICA_SETS };
        let mut fresh = object.clone();
        for field in ["uid", "resourceVersion", "generation", "managedFields"] {
            fresh["metadata"].as_object_mut().unwrap().remove(field);
        }
        if resource == REPLICA_SETS {
            fresh["metadata"]["ownerReferences"][0]["uid"] = uid.clone();
        }
        let made = world.create_object(fresh).await;
        if resource == DEPLOYMENTS {
            uid = made["metadata"]["uid"].clone();
        }
        let mut status = object["status"].clone();
        status["observedGeneration"] = made["metadata"]["generation"].clone();
        let patch = json!({"status": status});
        world.sandbox.merge(resource, Some(&namespace), name_of(&object), Some("status"), patch).await.unwrap();
    }
    world.clear_logs();
    world.start();
    world.settle().await;
    assert_eq!(world.own_writes(), Vec::<String>::new());
    // `/debug/explain` agrees that the Deployment is settled.
    let explained = world.loops.as_ref().unwrap().explain(Some(&format!("{namespace}/web")));
    assert_eq!(explained[0]["state"], "settled", "{explained:#}");
}

/// DEPLOYMENT-70.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leads_to_the_same_result() {
    // A rollout of three replicas takes about a dozen writes.
    for at in 1..=14 {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let mut world = World::new().await;
            world.create_object(web_deployment(3)).await;
            world.settle().await;
            let mut writes = world.sandbox.writes().subscribe();
            world.set_image("img:2").await;
            let mut ours = 0;
            while let Ok(Some(write)) = tokio::time::timeout(Duration::from_secs(5), writes.recv()).await {
                ours += u32::from(write.identity == CONTROLLER_IDENTITY && write.resource != "events");
                if ours == at {
                    ours += 1;
                    for verb in ["create", "patch", "delete"] {
                        world
                            .sandbox
                            .faults()
                            .add(Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).times(1));
                    }
                    tokio::task::yield_now().await;
                    world.crash();
                    world.sandbox.faults().clear();
                    world.start();
                }
            }
            world.settle().await;
            let sets = world.list_sets().await;
            let end: Vec<(i64, i64)> = sets.iter().map(|set| (size_of_set(set), revision_of(set))).collect();
            assert_eq!(end, [(0, 1), (3, 2)], "crash at {at}");
            let new = name_of(&sets[1]);
            let progressed = format!("ReplicaSet \"{new}\" has successfully progressed.");
            assert_eq!(world.condition("Progressing").await.2, progressed, "crash at {at}");
            let (most, fewest) = world.pod_count_extremes(3);
            assert!(most <= 4 && fewest >= 3, "crash at {at}: {most} {fewest}");
            assert_eq!(revision_of(&world.get_web().await), 2);
        }
    }
}

/// DEPLOYMENT-71.
#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_the_unseen_set_of_an_earlier_one() {
    let mut world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.crash();
    world.wait(60.0).await;
    // An earlier leader, of a version with other hashes, creates a ReplicaSet that this cache does not show yet.
    world.set_image("img:2").await;
    let web = world.get_web().await;
    let mut made = world.list_sets().await.remove(0);
    (made["apiVersion"], made["kind"]) = (json!("apps/v1"), json!("ReplicaSet"));
    made["metadata"] = json!({"name": "web-otherwise", "namespace": NAMESPACE, "labels": made["metadata"]["labels"],
        "ownerReferences": made["metadata"]["ownerReferences"],
        "annotations": {"deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "2",
            "deployment.kubernetes.io/max-replicas": "3"}});
    made["spec"]["template"]["spec"] = web["spec"]["template"]["spec"].clone();
    made["spec"]["replicas"] = json!(1);
    world.start();
    world.sandbox.faults().delay_watch(CONTROLLER_IDENTITY, "replicasets", Duration::from_secs(2));
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Latency(Duration::from_secs(1))).identity(CONTROLLER_IDENTITY).verb("list"));
    let made = world.create_object(made).await;
    world.settle().await;
    world.settle().await;
    let sets = world.list_sets().await;
    assert_eq!(
        sets.iter().map(|set| (name_of(set) == name_of(&made), size_of_set(set))).collect::<Vec<_>>(),
        [(false, 0), (true, 2)]
    );
}

/// DEPLOYMENT-70.
#[tokio::test(start_paused = true)]
async fn a_standby_writes_nothing_until_it_leads_and_then_completes_the_rollout() {
    let world = World::new().await;
    let standby = sandbox::loops::Loops::stand_by(
        &world.sandbox.client("standby"),
        &world.clock,
        common::settings::OperatorSettings::new(),
        deployment_controller::LOOPS,
    );
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    world.set_image("img:2").await;
    world.wait(0.7).await;
    world.loops.as_ref().unwrap().depose();
    world.clear_logs();
    standby.lead();
    world.settle().await;
    assert_eq!(world.own_writes(), Vec::<String>::new());
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 4]);
    assert_eq!(world.sandbox.requests().count(Some("standby"), Some("create"), Some(REPLICA_SETS)), 0);
}
