//! Webhooks that change what the controllers create.

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use super::cluster::{Cluster, cron_job, image, one_of_each};

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
