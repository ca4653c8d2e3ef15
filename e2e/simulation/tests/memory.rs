//! What controllers remember of objects that are gone.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::time::Duration;

use common::{app::ProgramDefinition, clock::Clock, settings::OperatorSettings};
use kubectl_nonet::controllers::PROGRAMS;
use sandbox::{Action, Rule, Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// How many objects of each kind come and go.
const OBJECTS: u64 = 30;

/// An object of each kind whose controller notes its own writes.
fn objects(number: u64) -> [(&'static str, Value); 6] {
    let app = format!("app-{number}");
    let container = json!([{"name": "app", "image": "app"}]);
    let template = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": container}});
    let meta = |kind: &str| json!({"namespace": "default", "name": format!("{kind}-{number}")});
    let workload = |kind: &str, more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}, "template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": meta(&kind.to_lowercase()), "spec": spec})
    };
    let once = json!({"spec": {"containers": container, "restartPolicy": "Never"}});
    let job = json!({"spec": {"template": once}});
    [
        ("deployments.apps", workload("Deployment", json!({"replicas": 1}))),
        ("statefulsets.apps", workload("StatefulSet", json!({"replicas": 1, "serviceName": "none"}))),
        ("daemonsets.apps", workload("DaemonSet", json!({}))),
        (
            "jobs.batch",
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("job"), "spec": {"template": once}}),
        ),
        (
            "cronjobs.batch",
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta("cronjob"),
                "spec": {"schedule": "* * * * *", "jobTemplate": job}}),
        ),
        (
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("service"),
                "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}}),
        ),
    ]
}

/// How many objects each loop waits for to see its own writes of, where it waits for any.
fn awaited(loops: &[Loops]) -> Vec<String> {
    let mut awaited = Vec::new();
    for queues in loops.iter().map(Loops::queues) {
        for queue in queues.as_array().unwrap() {
            let count = queue["awaitingOwnWrites"].as_u64().unwrap_or_default();
            if count > 0 {
                awaited.push(format!("{}: {count}", queue["name"]));
            }
        }
    }
    awaited
}

/// Answers come half a second after their writes, and objects go in between.
#[tokio::test(start_paused = true)]
async fn nothing_is_awaited_for_objects_that_are_gone() {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let nodes = Nodes::builder().count(2).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
    nodes.ready().await;
    let late = Action::LateAnswer(Duration::from_millis(500));
    for verb in ["create", "update", "patch", "delete"] {
        sandbox.faults().add(Rule::new(late.clone()).identity("controllers").verb(verb));
    }
    let client = sandbox.client("controllers");
    // The nodes have no heartbeats that node-lifecycle-controller could judge.
    let programs = PROGRAMS.into_iter().filter(|program| program.name != node_lifecycle_controller::DEFINITION.name);
    let start = |program: &ProgramDefinition| Loops::start(&client, &clock, OperatorSettings::new(), program.loops);
    let loops: Vec<Loops> = programs.map(start).collect();
    clock.sleep(Duration::from_secs(1)).await;
    let mut users = tokio::task::JoinSet::new();
    for (number, (resource, object)) in (0..OBJECTS).flat_map(|n| objects(n).map(|object| (n, object))) {
        let (sandbox, clock) = (sandbox.clone(), clock.clone());
        users.spawn(async move {
            // CronJobs go in the minute that begins then, the others while they begin.
            let until = if resource == "cronjobs.batch" { 59_000 } else { 0 };
            clock.sleep(Duration::from_millis(until)).await;
            sandbox.create(object.clone()).await.unwrap();
            clock.sleep(Duration::from_millis(number * 97)).await;
            let name = object["metadata"]["name"].as_str().unwrap();
            sandbox.delete(resource, Some("default"), name).await.unwrap();
        });
    }
    while let Some(done) = users.join_next().await {
        done.unwrap();
    }
    assert!(sandbox.faults().hits(&late) > OBJECTS, "answers were to come late");
    // Pods end in half a minute. What is awaited in vain is forgotten after five.
    clock.sleep(Duration::from_mins(4)).await;
    assert_eq!(awaited(&loops), Vec::<String>::new());
}
