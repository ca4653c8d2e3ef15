//! Webhooks that take ten seconds, and writes whose answers come too late.

use std::time::Duration;

use common::{
    app::{LeadershipMode, StartParameters, start_loops},
    clock::Clock,
    process::leader,
};
use sandbox::{Action, Operation, Rule, Sandbox, Webhook};
use serde_json::{Value, json};

use super::cluster::{Cluster, cron_job, one_of_each, workload};

const SLOW: &str = "slow";
const FAST: &str = "fast";
/// Workers of the ReplicaSet controller.
const WORKERS: usize = 5;

/// Requires that there are as many Pods as are wanted, and that never more than those were asked for.
async fn is_exact(cluster: &Cluster, namespace: &str, times: u64) {
    for (kind, pods) in [("ReplicaSet", 3), ("StatefulSet", 2), ("DaemonSet", 2)] {
        assert_eq!(cluster.pods_of(namespace, kind).await, pods, "{kind}");
    }
    assert_eq!(cluster.list("jobs.batch", namespace).await.len(), 2);
    assert_eq!(cluster.status("jobs.batch", namespace, "sum").await["succeeded"], 2);
    assert_eq!(cluster.list("replicasets.apps", namespace).await.len(), 1);
    assert_eq!(cluster.list("controllerrevisions.apps", namespace).await.len(), 2);
    assert_eq!(cluster.list("endpointslices.discovery.k8s.io", namespace).await.len(), 1);
    assert_eq!(cluster.sent(&["create"], Some("pods")), times * (3 + 2 + 2 + 2 + 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_twice_and_other_namespaces_do_not_wait() {
    let cluster = Cluster::start(2).await;
    for namespace in [SLOW, FAST] {
        cluster.make_namespace(namespace).await;
    }
    let resources = ["pods", "replicasets", "jobs", "controllerrevisions", "endpointslices", "endpoints"];
    for (operation, resource) in
        [Operation::Create, Operation::Update].into_iter().flat_map(|o| resources.map(|r| (o, r)))
    {
        let webhook = Webhook::new("slow", operation, resource).namespace(SLOW);
        cluster.sandbox.webhooks().install(webhook.takes(Duration::from_secs(10)));
    }
    // Each controller has a worker left.
    for namespace in [SLOW, FAST] {
        for object in one_of_each() {
            cluster.create(namespace, object).await;
        }
        cluster.create(namespace, cron_job(2)).await;
    }
    cluster.pass(15).await;
    assert_eq!(cluster.status("deployments.apps", FAST, "web").await["availableReplicas"], 3);
    assert_eq!(cluster.status("statefulsets.apps", FAST, "db").await["availableReplicas"], 2);
    assert_eq!(cluster.status("daemonsets.apps", FAST, "agent").await["numberAvailable"], 2);
    assert_eq!(cluster.status("jobs.batch", FAST, "sum").await["succeeded"], 2);
    cluster.pass(600).await;
    is_exact(&cluster, FAST, 2).await;
    is_exact(&cluster, SLOW, 2).await;
    cluster.rests().await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_times_out_and_happens_is_not_made_again() {
    let cluster = Cluster::start(2).await;
    cluster.make_namespace(SLOW).await;
    // Later than any client waits.
    for resource in ["pods", "replicasets", "jobs", "controllerrevisions", "endpointslices", "endpoints"] {
        let late = Rule::new(Action::LateAnswer(Duration::from_secs(100))).verb("create").resource(resource);
        cluster.sandbox.faults().add(late);
    }
    for object in one_of_each() {
        cluster.create(SLOW, object).await;
    }
    cluster.create(SLOW, cron_job(2)).await;
    cluster.pass(3000).await;
    is_exact(&cluster, SLOW, 1).await;
    cluster.rests().await;
}

/// Creations of a namespace that take ten seconds each occupy the workers for as long as they last, as upstream.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_slow_keys_delays_others_by_its_first_creations_at_most() {
    let cluster = Cluster::start(2).await;
    for namespace in [SLOW, FAST] {
        cluster.make_namespace(namespace).await;
    }
    let webhook = Webhook::new("slow", Operation::Create, "pods").namespace(SLOW);
    cluster.sandbox.webhooks().install(webhook.takes(Duration::from_secs(10)));
    let set = |name: &str| -> Value { workload("ReplicaSet", name, json!({"replicas": 1})) };
    for number in 0..2 * WORKERS {
        cluster.create(SLOW, set(&format!("set-{number}"))).await;
    }
    cluster.create(FAST, set("web")).await;
    let began = cluster.clock.monotonic_now();
    while cluster.pods_of(FAST, "ReplicaSet").await == 0 {
        cluster.pass(1).await;
    }
    let waited = cluster.clock.monotonic_now() - began;
    assert!(waited <= Duration::from_secs(22), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_its_lease_while_all_its_workers_wait() {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let webhook = Webhook::new("slow", Operation::Create, "pods");
    sandbox.webhooks().install(webhook.takes(Duration::from_secs(10)));
    for number in 0..2 * WORKERS {
        let mut set = workload("ReplicaSet", &format!("set-{number}"), json!({"replicas": 3}));
        set["metadata"]["namespace"] = json!("default");
        sandbox.create(set).await.unwrap();
    }
    let client = sandbox.client("replicaset-controller");
    let lease = leader::ElectionSettings {
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "replicaset-controller", "a".to_owned())
    };
    let parts = StartParameters::new(client, clock.clone(), replicaset_controller::LOOPS);
    let assembly = start_loops(StartParameters { leadership: LeadershipMode::Elected(lease), ..parts });
    clock.sleep(Duration::from_mins(2)).await;
    assert_eq!(sandbox.count("pods"), 2 * WORKERS * 3, "each once");
    let renewals: Vec<_> = sandbox.writes().all().iter().filter(|w| w.resource == "leases").map(|w| w.at).collect();
    let pauses: Vec<_> = renewals.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert_eq!(pauses, [8, 8, 8, 8, 8, 8, 45], "the last Pod exists after 45 s, and the leader rests");
    drop(assembly);
}
