//! A quota that leaves room for one Pod more each minute.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    JOB, USUAL,
    cluster::{Cluster, job, workload},
};

/// The longest back-off, and a little more.
const LONGEST: Duration = Duration::from_secs(1010);

/// The number of Pods that each owner wants.
const PODS: u32 = 5;
/// Creates of a Pod that an owner sends because something has changed: for each Pod that is made, it is scheduled, runs, and is
/// ready, and the status of the owner is written.
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
    let namespace = |number: usize| format!("quota-{number}");
    let limit = |pods: u32| json!({"spec": {"hard": {"count/pods": pods.to_string()}}});
    for (number, (.., owner)) in owners.iter().enumerate() {
        cluster.make_namespace(&namespace(number)).await;
        let mut quota = limit(0);
        quota["apiVersion"] = json!("v1");
        quota["kind"] = json!("ResourceQuota");
        quota["metadata"] = json!({"name": "pods"});
        cluster.create(&namespace(number), quota).await;
        cluster.create(&namespace(number), owner.clone()).await;
    }
    for pods in 1..=PODS {
        cluster.pass(60).await;
        for number in 0..owners.len() {
            cluster.merge("resourcequotas", &namespace(number), "pods", limit(pods)).await;
        }
    }
    cluster.clock.sleep(LONGEST).await;
    for (number, (program, kind, _)) in owners.iter().enumerate() {
        assert_eq!(cluster.pods_of(&namespace(number), kind).await, PODS as usize, "{kind}");
        let attempts = cluster.sandbox.requests().count(Some(program), Some("create"), Some("pods"));
        // A Pod that is made is a success, after which the back-off begins anew: 5 ms, 10 ms, ... 20.48 s are over in a minute.
        // Then the longest back-off follows.
        let pace = if *kind == "Job" { JOB } else { USUAL };
        let minute = pace.attempts_in(Duration::from_secs(60));
        let siblings = owners.iter().filter(|(other, ..)| other == program).count() as u64;
        let most = siblings * (u64::from(PODS) * (minute + CHANGES) + pace.attempts_in(LONGEST));
        assert!(attempts <= most, "{kind}: {attempts} attempts are more than {most}");
    }
}
