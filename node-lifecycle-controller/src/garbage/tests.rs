use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

const LIMITS: PodGcSettings = PodGcSettings {
    finished_pod_threshold: 1000,
    pass_period: Duration::from_secs(20),
    quarantine_period: Duration::from_secs(40),
};

fn pod(number: usize, node: &str, change: impl Fn(&mut Value)) -> CachedPod {
    let mut pod = json!({"metadata": {"name": format!("p{number}"), "namespace": "shop", "uid": format!("u{number}"),
        "resourceVersion": (number + 1).to_string()}, "spec": {"nodeName": node}, "status": {"phase": "Running"}});
    change(&mut pod);
    serde_json::from_str(&pod.to_string()).unwrap()
}

/// Caches in which 100 Pods are assigned to each of 200 nodes; every tenth node does not exist.
struct Cluster {
    caches: Caches,
    ended: FinishedPods,
}

impl Cluster {
    fn new(change: impl Fn(usize, &mut Value)) -> Self {
        let (nodes, pods): (Arc<Store<Node>>, Arc<Store<CachedPod>>) = Default::default();
        let node = |number: usize| -> Node {
            let taints = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
            let taints = if number == 1 { taints } else { json!([]) };
            let node = json!({"metadata": {"name": format!("n{number}"), "uid": format!("n{number}"),
                "resourceVersion": (number + 1).to_string()}, "spec": {"taints": taints}});
            serde_json::from_str(&node.to_string()).unwrap()
        };
        nodes.replace_objects_for_tests(
            (0..200).filter(|number| number % 10 != 0).map(node).collect(),
            ResourceVersion::parse("1"),
        );
        let on_node = |number| pod(number, &format!("n{}", number % 200), |pod| change(number, pod));
        pods.replace_objects_for_tests((0..20_000).map(on_node).collect(), ResourceVersion::parse("1"));
        let mut ended = FinishedPods::default();
        for pod in pods.all_decoded() {
            ended.insert(&pod);
        }
        Self { caches: Caches { node_store: nodes, pod_store: pods }, ended }
    }

    fn observe(&self, quarantine: &NodeQuarantine, now: Instant) -> Snapshot {
        pods_to_remove(&self.caches, &self.ended, quarantine.clone(), now, LIMITS)
    }

    /// Returns the number of cached Pods that a snapshot references.
    fn held(&self) -> usize {
        self.caches.pod_store.all_decoded().iter().filter(|pod| Arc::strong_count(pod) > CACHED + 1).count()
    }
}

/// Number of references from the cache to a running Pod: one of the store itself and one of the index by node.
const CACHED: usize = 2;

/// NODE-64.
#[test]
fn a_pass_reads_only_pods_that_it_can_act_on() {
    let cluster = Cluster::new(|_, _| {});
    let first = Clock::system().monotonic_now();
    let snapshot = cluster.observe(&NodeQuarantine::default(), first);
    assert_eq!((snapshot.names_of_missing_nodes.len(), cluster.held()), (20, 0), "the quarantine has not ended");
    let quarantine =
        NodeQuarantine::default().quarantine_after_pass(&snapshot.names_of_missing_nodes, [].iter(), first);
    let later = first + LIMITS.quarantine_period;
    let snapshot = cluster.observe(&quarantine, later);
    assert_eq!((snapshot.pods_of_nodes_after_quarantine.len(), cluster.held()), (20, 2000));
    let on_lost_nodes = snapshot
        .pods_of_nodes_after_quarantine
        .iter()
        .all(|(node, pods)| pods.iter().all(|pod| pod.node_name == *node));
    assert!(
        on_lost_nodes
            && snapshot.terminating_pods_of_out_of_service_nodes.is_empty()
            && snapshot.terminating_pods_without_node.is_empty()
    );
}

/// NODE-64, NODE-66.
#[test]
fn terminating_and_ended_pods_are_read_if_they_can_be_removed() {
    let deleted = "2026-11-21T09:00:00Z";
    let change = |number: usize, pod: &mut Value| match number {
        // Pods 1 and 201 are on node 1, which is out of service; Pod 2 is on node 2, which is in service.
        1 | 2 | 201 => pod["metadata"]["deletionTimestamp"] = json!(deleted),
        3 => {
            pod["metadata"]["deletionTimestamp"] = json!(deleted);
            pod["spec"]["nodeName"] = json!("");
        }
        1000..2001 => pod["status"]["phase"] = json!("Succeeded"),
        _ => {}
    };
    let cluster = Cluster::new(change);
    let snapshot = cluster.observe(&NodeQuarantine::default(), Clock::system().monotonic_now());
    let names = |pods: &[Arc<CachedPod>]| pods.iter().map(|pod| pod.meta.name.to_string()).collect::<BTreeSet<_>>();
    let expected = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(snapshot.terminating_pods_of_out_of_service_nodes.len(), 1);
    assert_eq!(&*snapshot.terminating_pods_of_out_of_service_nodes[0].0.metadata.name, "n1");
    assert_eq!(names(&snapshot.terminating_pods_of_out_of_service_nodes[0].1), expected(&["p1", "p201"]));
    assert_eq!(names(&snapshot.terminating_pods_without_node), expected(&["p3"]));
    assert_eq!((snapshot.finished_pod_count, snapshot.finished_pods_to_remove.len()), (1001, 1));
}

#[test]
fn ended_pods_within_the_threshold_are_only_counted() {
    let ended = |number: usize, pod: &mut Value| {
        if number < 1000 {
            pod["status"]["phase"] = json!("Failed");
        }
    };
    let snapshot = Cluster::new(ended).observe(&NodeQuarantine::default(), Clock::system().monotonic_now());
    assert_eq!((snapshot.finished_pod_count, snapshot.finished_pods_to_remove.len()), (1000, 0));
}
