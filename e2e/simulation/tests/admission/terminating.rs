//! A namespace that terminates while all controllers work in it.

use std::time::Duration;

use serde_json::json;

use super::cluster::{Cluster, PROGRAMS, cron_job, one_of_each};

const DOOMED: &str = "doomed";

/// The resources whose deletions reach the controllers late: they still see living owners while Pods and slices go.
const OWNERS: [&str; 7] = ["deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs", "services"];

/// Whether controllers create such objects, Events aside.
fn is_made(resource: &str) -> bool {
    !["events", "leases.coordination.k8s.io", "nodes"].contains(&resource)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_and_again_and_nothing_is_left() {
    let cluster = Cluster::start(2).await;
    cluster.make_namespace(DOOMED).await;
    for object in one_of_each() {
        cluster.create(DOOMED, object).await;
    }
    cluster.create(DOOMED, cron_job(1)).await;
    // The Pods of a Job that ends, and of one that does not.
    cluster.pass(90).await;
    for (resource, name) in [("deployments.apps", "web"), ("statefulsets.apps", "db")] {
        cluster.merge(resource, DOOMED, name, json!({"spec": {"replicas": 5}})).await;
    }
    for (program, owners) in PROGRAMS.iter().flat_map(|program| OWNERS.map(|owners| (program, owners))) {
        cluster.sandbox.faults().hold_watch(program.name, owners);
    }
    cluster.sandbox.requests().clear();
    cluster.sandbox.delete("namespaces", None, DOOMED).await.unwrap();
    cluster.pass(300).await;
    // One refused create for each owner: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, and two of the Service.
    // Each may be tried once more after the time-out of expectations, which is five minutes.
    let counts = cluster.sandbox.requests().all();
    let creates: Vec<_> = counts.iter().filter(|(key, _)| key.verb == "create" && is_made(&key.resource)).collect();
    let count: u64 = creates.iter().map(|(_, count)| **count).sum();
    assert!(count > 0 && count <= 2 * 8, "{creates:?}");
    let events = cluster.sent(&["create", "patch"], Some("events"));
    for (program, owners) in PROGRAMS.iter().flat_map(|program| OWNERS.map(|owners| (program, owners))) {
        cluster.sandbox.faults().release_watch(program.name, owners);
    }
    // Pods that were deleted are told of by Events, which the server refuses, each once.
    assert!(events <= 20, "{events} Events");
    cluster.pass(300).await;
    let left = cluster.sandbox.get("namespaces", None, DOOMED).await;
    assert_eq!(left.unwrap_err().code, 404, "the namespace is gone");
    cluster.rests().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_end_costs_nothing() {
    let cluster = Cluster::start(2).await;
    cluster.make_namespace(DOOMED).await;
    // Nobody takes these finalizers away.
    for mut object in one_of_each() {
        object["metadata"]["finalizers"] = json!(["sim.example.com/keep"]);
        cluster.create(DOOMED, object).await;
    }
    cluster.pass(90).await;
    cluster.sandbox.delete("namespaces", None, DOOMED).await.unwrap();
    cluster.clock.sleep(Duration::from_secs(600)).await;
    assert!(cluster.sandbox.get("namespaces", None, DOOMED).await.is_ok());
    cluster.rests().await;
}
