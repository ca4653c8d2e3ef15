//! A quota that leaves room for one Pod more each minute.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    USUAL,
    batch::JOB,
    cluster::{Cluster, job, workload},
};

/// The longest back-off, and a little more.
const LONGEST: Duration = Duration::from_secs(1010);

/// The number of Pods that each owner wants.
const PODS: u32 = 5;
/// Creates of a Pod that an owner sends because something has changed: for each Pod that is made, it is scheduled, runs, and is ready,
/// and the status of the owner is written.
const CHANGES: u64 = 5;

#[tokio::test(start_paused = true)]
async fn owners_get_there_with_few_attempts() {
    let cluster = Cluster::start(PODS).await;
    let size = json!({"replicas": PODS});
    let ordered = json!({"replicas": PODS, "serviceName": "db"});
    let parallel = json!({"replicas": PODS, "serviceName": "db", "podManagementPolicy": "Parallel"});
    let owners: [(&str, &str, Value); 5] = [
        ("replicaset-controller", "ReplicaSet", workload("ReplicaSet", "web", size)),
        ("statefulset-controller", "StatefulSet", workload("StatefulSet", "db", ordered)),
        ("statefulset-controller", "StatefulSet", workload("StatefulSet", "db", parallel)),
        ("daemonset-controller", "DaemonSet", workload("DaemonSet", "agent", json!({}))),
        ("job-controller", "Job", job(PODS.into())),
    ];
    for (number, (program, kind, owner)) in owners.into_iter().enumerate() {
        let namespace = format!("quota-{number}");
        cluster.make_namespace(&namespace).await;
        let limit = |pods: u32| json!({"spec": {"hard": {"count/pods": pods.to_string()}}});
        let mut quota = limit(0);
        quota["apiVersion"] = json!("v1");
        quota["kind"] = json!("ResourceQuota");
        quota["metadata"] = json!({"name": "pods"});
        cluster.create(&namespace, quota).await;
        cluster.sandbox.requests().clear();
        cluster.create(&namespace, owner).await;
        for pods in 1..=PODS {
            cluster.pass(60).await;
            cluster.merge("resourcequotas", &namespace, "pods", limit(pods)).await;
        }
        cluster.clock.sleep(LONGEST).await;
        assert_eq!(cluster.pods_of(&namespace, kind).await, PODS as usize, "{kind}");
        let attempts = cluster.sandbox.requests().count(Some(program), Some("create"), Some("pods"));
        // A Pod that is made is a success, after which the back-off begins anew: 5 ms, 10 ms, ... 20.48 s are over in a minute. Then the
        // longest back-off follows.
        let pace = if kind == "Job" { JOB } else { USUAL };
        let minute = pace.attempts_in(Duration::from_secs(60));
        let most = u64::from(PODS) * (minute + CHANGES) + pace.attempts_in(LONGEST);
        assert!(attempts <= most, "{kind}: {attempts} attempts are more than {most}");
        cluster.sandbox.delete("namespaces", None, &namespace).await.unwrap();
        cluster.pass(120).await;
    }
}
