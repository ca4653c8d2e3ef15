//! Webhooks that change what the controllers create.

use std::{collections::BTreeSet, time::Duration};

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use super::{
    Pace, RECOVERED, USUAL, WAKES,
    cluster::{Cluster, cron_job, image, one_of_each, workload},
};

const HOUR: Duration = Duration::from_hours(1);
const DEPLOYMENTS: &str = "deployments.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";

fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// Has everything be created, changed and finished while creations of these resources are changed.
async fn roll_out(webhooks: &[(&str, Value)]) -> Cluster {
    let cluster = Cluster::start(2).await;
    for (resource, patch) in webhooks {
        let webhook = Webhook::new("inject", Operation::Create, resource).namespace("default");
        cluster.sandbox.webhooks().install(webhook.patches(patch.clone()));
    }
    for object in one_of_each() {
        cluster.create("default", object).await;
    }
    cluster.create("default", cron_job(2)).await;
    cluster.pass(180).await;
    for (resource, name) in [(DEPLOYMENTS, "web"), (STATEFUL_SETS, "db"), (DAEMON_SETS, "agent")] {
        cluster.merge(resource, "default", name, image("img:2")).await;
    }
    cluster.pass(180).await;
    cluster
}

/// Requires that all rollouts and Jobs are complete, that nothing was made twice, and that nothing is written any more.
async fn is_complete(cluster: &Cluster) {
    let status = async |resource, name| cluster.status(resource, "default", name).await;
    let web = status(DEPLOYMENTS, "web").await;
    assert_eq!((&web["updatedReplicas"], &web["availableReplicas"]), (&json!(3), &json!(3)), "{web}");
    let db = status(STATEFUL_SETS, "db").await;
    assert_eq!((&db["updatedReplicas"], &db["availableReplicas"]), (&json!(2), &json!(2)), "{db}");
    assert_eq!(db["currentRevision"], db["updateRevision"]);
    let agent = status(DAEMON_SETS, "agent").await;
    assert_eq!((&agent["updatedNumberScheduled"], &agent["numberAvailable"]), (&json!(2), &json!(2)), "{agent}");
    for job in cluster.list("jobs.batch", "default").await {
        let wanted = &job["spec"]["completions"];
        assert_eq!(job["status"]["succeeded"], *wanted, "{job}");
    }
    assert_eq!(cluster.list(REPLICA_SETS, "default").await.len(), 2, "one ReplicaSet for each template");
    assert_eq!(cluster.list(REVISIONS, "default").await.len(), 4, "one revision for each template");
    assert_eq!(cluster.list("jobs.batch", "default").await.len(), 2, "the Job, and the one of the CronJob");
    // Twice 3 of the Deployment, 2 of the StatefulSet and 2 of the DaemonSet, 2 of the Job and 1 of the CronJob's.
    assert_eq!(cluster.sent(&["create"], Some("pods")), 2 * (3 + 2 + 2) + 2 + 1);
    cluster.rests().await;
}

fn metadata() -> Value {
    json!([
        add("/metadata/labels/injected", json!("yes")),
        add("/metadata/annotations", json!({"sidecar.example.com/status": "injected"})),
    ])
}

#[tokio::test(start_paused = true)]
async fn pods_with_a_sidecar_are_pods_of_their_owners() {
    let sidecar = json!([
        add("/metadata/labels/injected", json!("yes")),
        add("/metadata/annotations/sidecar.example.com~1status", json!("injected")),
        add("/spec/containers/0/resources", json!({"requests": {"cpu": "100m"}})),
        add("/spec/containers/-", json!({"name": "proxy", "image": "proxy:1"})),
    ]);
    let cluster = roll_out(&[("pods", sidecar)]).await;
    assert!(cluster.list("pods", "default").await.iter().all(|pod| pod["spec"]["containers"][1]["name"] == "proxy"));
    is_complete(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn pods_with_another_image_are_pods_of_their_owners() {
    let mirror = json!([add("/spec/containers/0/image", json!("mirror.example.com/img"))]);
    is_complete(&roll_out(&[("pods", mirror)]).await).await;
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_of_what_controllers_create_do_not_matter() {
    is_complete(&roll_out(&[(REPLICA_SETS, metadata()), (REVISIONS, metadata())].map(named)).await).await;
}

/// A resource as requests name it: without its group.
fn named((resource, patch): (&'static str, Value)) -> (&'static str, Value) {
    (resource.split('.').next().unwrap(), patch)
}

#[tokio::test(start_paused = true)]
async fn jobs_with_other_metadata_and_another_size_are_jobs_of_their_cron_job() {
    let patch = json!([
        add("/metadata/labels", json!({"injected": "yes"})),
        add("/metadata/annotations/injected", json!("yes")),
        add("/spec/backoffLimit", json!(1)),
        add("/spec/template/spec/containers/0/resources", json!({"requests": {"cpu": "100m"}})),
    ]);
    is_complete(&roll_out(&[("jobs", patch)]).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_changed_on_its_way_in_makes_no_loop_of_replica_sets() {
    let template = json!([add("/spec/template/metadata/annotations/injected", json!("yes"))]);
    let cluster = roll_out(&[("replicasets", template)]).await;
    // No ReplicaSet has the template of the Deployment. A few are tried, and none is made for ever.
    let made = cluster.list(REPLICA_SETS, "default").await.len();
    assert!(made <= 10, "{made} ReplicaSets");
    let events = cluster.list("events", "default").await;
    let reasons: Vec<_> = events.iter().filter(|event| event["involvedObject"]["kind"] == "Deployment").collect();
    assert!(reasons.iter().any(|event| event["type"] == "Warning"), "nobody reads why: {reasons:?}");
    let before = cluster.writes();
    cluster.pass(3600).await;
    assert_eq!(cluster.list(REPLICA_SETS, "default").await.len(), made);
    // Less than one write a back-off and one for its Event.
    let writes = cluster.writes() - before;
    assert!(writes <= 2 * 24, "{writes} writes in an hour");
}

/// The pause of an owner after each Pod that does not belong to it.
const PAUSES: Pace = Pace::Exponential(Duration::from_secs(1), Duration::from_secs(300));

#[tokio::test(start_paused = true)]
async fn pods_that_no_selector_matches_are_tried_with_growing_pauses_and_none_is_left() {
    let cluster = Cluster::start(2).await;
    let relabel = json!([
        add("/metadata/labels/app", json!("other")),
        add("/metadata/labels/batch.kubernetes.io~1controller-uid", json!("other")),
    ]);
    cluster.sandbox.webhooks().install(Webhook::new("relabel", Operation::Create, "pods").patches(relabel));
    for object in one_of_each() {
        cluster.create("default", object).await;
    }
    let mut controller = workload("ReplicationController", "rc", json!({"replicas": 2, "selector": {"app": "rc"}}));
    controller["apiVersion"] = json!("v1");
    cluster.create("default", controller).await;
    cluster.create("default", cron_job(2)).await;
    cluster.pass(3600).await;
    // The Pod of a StatefulSet keeps its name after its release, so that no second Pod can be created.
    let creations = [
        ("replicaset-controller", 2 * PAUSES.attempts_in(HOUR)),
        ("daemonset-controller", PAUSES.attempts_in(HOUR)),
        ("job-controller", 2 * PAUSES.attempts_in(HOUR)),
        ("statefulset-controller", USUAL.attempts_in(HOUR) + WAKES),
    ];
    for (program, most) in creations {
        let sent = cluster.sandbox.requests().count(Some(program), Some("create"), Some("pods"));
        assert!(sent <= most, "{program}: {sent} Pods are more than {most}");
    }
    // For each Pod at most its creation, its deletion, its release, an Event, and a status.
    let most = 5 * creations.iter().map(|(_, most)| most).sum::<u64>();
    assert!(cluster.writes() <= most, "{} writes are more than {most}", cluster.writes());
    let names = |pods: &[Value]| pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&cluster.list("pods", "default").await), ["db-0"]);
    let events = cluster.list("events", "default").await;
    let failed = events.iter().filter(|event| event["reason"] == "FailedCreate" && event["type"] == "Warning");
    let owners: BTreeSet<_> = failed.filter_map(|event| event["involvedObject"]["kind"].as_str()).collect();
    let kinds = ["DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];
    assert_eq!(owners, BTreeSet::from(kinds));
    cluster.sandbox.webhooks().remove("relabel");
    cluster.sandbox.delete("pods", Some("default"), "db-0").await.unwrap();
    cluster.clock.sleep(RECOVERED).await;
    for (resource, name, field, expected) in [
        (DEPLOYMENTS, "web", "availableReplicas", 3),
        ("replicationcontrollers", "rc", "availableReplicas", 2),
        (STATEFUL_SETS, "db", "availableReplicas", 2),
        (DAEMON_SETS, "agent", "numberAvailable", 2),
        ("jobs.batch", "sum", "succeeded", 2),
    ] {
        assert_eq!(cluster.status(resource, "default", name).await[field], expected, "{resource}");
    }
    cluster.rests().await;
}
