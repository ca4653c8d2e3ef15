//! Nodes on the sandbox, in virtual time.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::Sandbox;

struct World {
    sandbox: Sandbox,
    nodes: Nodes,
}

impl World {
    async fn new(change: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = change(Nodes::builder()).start(sandbox.client("nodes"), clock);
        nodes.ready().await;
        Self { sandbox, nodes }
    }

    async fn pod(&self, name: &str, spec: Value, annotations: Value) {
        let mut spec = spec;
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c", "image": "img:1"}]);
        }
        let meta = json!({"name": name, "namespace": "default", "annotations": annotations});
        self.sandbox.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})).await.unwrap();
    }

    async fn get(&self, name: &str) -> Value {
        self.sandbox.get("pods", Some("default"), name).await.unwrap()
    }

    async fn after(&self, seconds: f64) {
        self.sandbox.clock().sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// The writes to Pods since the start, as verb, subresource and name.
    fn pod_writes(&self) -> Vec<String> {
        let all = self.sandbox.writes().all();
        let pods = all.iter().filter(|w| w.identity == "nodes" && w.resource == "pods");
        pods.map(|w| format!("{} {} {}", w.verb, w.subresource.as_deref().unwrap_or("pod"), w.name)).collect()
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodes_register_with_zones_conditions_and_leases() {
    let w = World::new(|b| b.count(4)).await;
    let node = w.sandbox.get("nodes", None, "node-3").await.unwrap();
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "z0");
    assert_eq!(node["spec"].get("taints"), None);
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(node["status"]["addresses"][0]["address"], "192.168.0.4");
    w.after(35.0).await;
    let lease = w.sandbox.get("leases.coordination.k8s.io", Some("kube-node-lease"), "node-3").await.unwrap();
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:30.000000Z");
    assert_eq!(lease["spec"]["holderIdentity"], "node-3");
}

#[tokio::test(start_paused = true)]
async fn a_pod_costs_one_binding_and_one_status_and_is_ready() {
    let w = World::new(|b| b).await;
    w.pod("web", json!({}), json!({})).await;
    w.after(1.0).await;
    let pod = w.get("web").await;
    assert_eq!(pod["status"]["phase"], "Running");
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        assert_eq!(condition(&pod, kind)["status"], "True", "{kind}");
    }
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    assert_eq!(pod["status"]["hostIP"], "192.168.0.1");
    assert_eq!(w.pod_writes(), ["create binding web", "patch status web"]);
    w.after(600.0).await;
    assert_eq!(w.pod_writes().len(), 2, "a Pod at rest costs nothing");
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_over_all_nodes_with_addresses_of_their_own() {
    let w = World::new(|b| b.count(3)).await;
    for i in 0..9 {
        w.pod(&format!("p{i}"), json!({}), json!({})).await;
    }
    w.after(1.0).await;
    let pods = w.sandbox.list("pods", Some("default")).await.unwrap();
    let mut nodes: Vec<_> = pods.iter().map(|p| p["spec"]["nodeName"].to_string()).collect();
    let mut addresses: Vec<_> = pods.iter().map(|p| p["status"]["podIP"].to_string()).collect();
    for set in [&mut nodes, &mut addresses] {
        set.sort();
        set.dedup();
    }
    assert_eq!((nodes.len(), addresses.len()), (3, 9));
}

#[tokio::test(start_paused = true)]
async fn with_two_families_a_pod_has_an_address_of_each() {
    let w = World::new(|b| b.count(1).dual_stack(true)).await;
    w.pod("web", json!({}), json!({})).await;
    w.after(1.0).await;
    let pod = w.get("web").await;
    assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.64.0.1"}, {"ip": "fd00::a40:1"}]));
    assert_eq!(pod["status"]["podIP"], "10.64.0.1");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_known_ends_as_it_would() {
    let w = World::new(|b| b).await;
    let of =
        |words: Value| json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "b", "command": words}]});
    w.pod("good", of(json!(["sleep", "5"])), json!({})).await;
    w.pod("bad", of(json!(["sh", "-c", "exit 3"])), json!({})).await;
    w.pod("told", of(json!(["false"])), json!({"sim/exit": "0"})).await;
    w.pod("other", of(json!(["serve"])), json!({})).await;
    w.after(4.0).await;
    assert_eq!(w.get("good").await["status"]["phase"], "Running");
    w.after(3.0).await;
    let mut phases = Vec::new();
    for name in ["good", "bad", "told", "other"] {
        phases.push(w.get(name).await["status"]["phase"].clone());
    }
    assert_eq!(phases, ["Succeeded", "Failed", "Succeeded", "Running"], "annotations say more than the command");
    let state = w.get("bad").await["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone();
    assert_eq!(state, 3);
}

#[tokio::test(start_paused = true)]
async fn a_script_is_followed_to_the_second() {
    let w = World::new(|b| b).await;
    let script = json!({"sim/start-after": "2", "sim/ready-after": "3", "sim/exit": "42", "sim/after": "10"});
    w.pod("job", json!({"restartPolicy": "Never"}), script).await;
    w.after(1.0).await;
    let pod = w.get("job").await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    w.after(2.0).await;
    assert_eq!(condition(&w.get("job").await, "Ready")["status"], "False");
    w.after(3.0).await;
    let pod = w.get("job").await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    assert_eq!(condition(&pod, "Ready").get("reason"), None, "an earlier reason is gone");
    assert_eq!(condition(&pod, "Ready")["lastTransitionTime"], "2026-01-01T00:00:05Z");
    w.after(7.0).await;
    let pod = w.get("job").await;
    assert_eq!(pod["status"]["phase"], "Failed");
    let terminated = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(terminated["exitCode"], 42);
    assert_eq!(terminated["finishedAt"], "2026-01-01T00:00:12Z");
}

#[tokio::test(start_paused = true)]
async fn containers_are_restarted_and_counted() {
    let w = World::new(|b| b).await;
    let script = json!({"sim/exit": "1", "sim/after": "5", "sim/restart-after": "2", "sim/exit-times": "2"});
    w.pod("crash", json!({}), script).await;
    w.after(6.0).await;
    let pod = w.get("crash").await;
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(pod["status"]["phase"], "Running");
    w.after(20.0).await;
    let pod = w.get("crash").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 2);
    assert_eq!(condition(&pod, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_ends_its_containers_and_goes() {
    let w = World::new(|b| b).await;
    w.pod("slow", json!({}), json!({"sim/terminate-after": "10"})).await;
    w.pod("quick", json!({}), json!({})).await;
    w.after(1.0).await;
    w.sandbox.writes().clear();
    for name in ["slow", "quick"] {
        w.sandbox.delete("pods", Some("default"), name).await.unwrap();
    }
    w.after(1.0).await;
    assert!(w.sandbox.get("pods", Some("default"), "quick").await.is_err());
    let writes = w.pod_writes();
    let quick: Vec<_> = writes.iter().filter(|w| w.ends_with("quick")).map(String::as_str).collect();
    // One DELETE without grace is two writes, as on a real server: the grace is shortened, then the Pod goes.
    assert_eq!(quick, ["patch status quick", "delete pod quick", "delete pod quick"]);
    assert_eq!(w.sandbox.requests().count(Some("nodes"), Some("delete"), Some("pods")), 1);
    assert_eq!(condition(&w.get("slow").await, "Ready")["status"], "True");
    w.after(10.0).await;
    assert!(w.sandbox.get("pods", Some("default"), "slow").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_finalizer_stays_until_that_is_gone_and_is_left_alone() {
    let w = World::new(|b| b).await;
    let meta = json!({"name": "held", "namespace": "default", "finalizers": ["example.com/hold"]});
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    w.sandbox.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})).await.unwrap();
    w.after(1.0).await;
    w.sandbox.delete("pods", Some("default"), "held").await.unwrap();
    w.after(1.0).await;
    let pod = w.get("held").await;
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    let writes = w.pod_writes().len();
    w.after(60.0).await;
    assert_eq!(w.pod_writes().len(), writes);
    w.sandbox.merge("pods", Some("default"), "held", None, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert!(w.sandbox.get("pods", Some("default"), "held").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_waits_for_a_node_that_suits_it() {
    let w = World::new(|b| b.count(1)).await;
    w.pod("picky", json!({"nodeSelector": {"kubernetes.io/hostname": "node-1"}}), json!({})).await;
    w.after(1.0).await;
    let pod = w.get("picky").await;
    assert_eq!(condition(&pod, "PodScheduled")["reason"], "Unschedulable");
    assert_eq!(
        condition(&pod, "PodScheduled")["message"],
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    );
    assert_eq!(w.nodes.add(), "node-1");
    w.after(1.0).await;
    let pod = w.get("picky").await;
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(condition(&pod, "PodScheduled")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn cordoned_and_unready_nodes_get_no_new_pods() {
    let w = World::new(|b| b.count(3)).await;
    w.sandbox.merge("nodes", None, "node-0", None, json!({"spec": {"unschedulable": true}})).await.unwrap();
    w.nodes.set_condition("node-1", "Ready", false).unwrap();
    w.after(1.0).await;
    for i in 0..4 {
        w.pod(&format!("p{i}"), json!({}), json!({})).await;
    }
    w.after(1.0).await;
    for pod in w.sandbox.list("pods", Some("default")).await.unwrap() {
        assert_eq!(pod["spec"]["nodeName"], "node-2");
    }
    let node = w.sandbox.get("nodes", None, "node-1").await.unwrap();
    assert_eq!(condition(&node, "Ready")["reason"], "KubeletNotReady");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_reports_nothing_until_it_is_back() {
    let w = World::new(|b| b.count(1)).await;
    w.pod("web", json!({}), json!({"sim/unready-after": "30"})).await;
    w.pod("marked", json!({}), json!({})).await;
    w.after(1.0).await;
    w.nodes.silence("node-0").unwrap();
    w.pod("late", json!({}), json!({})).await;
    let marked = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    w.sandbox.merge("pods", Some("default"), "marked", Some("status"), marked).await.unwrap();
    w.after(60.0).await;
    assert_eq!(condition(&w.get("marked").await, "Ready")["status"], "False");
    let lease = w.sandbox.get("leases.coordination.k8s.io", Some("kube-node-lease"), "node-0").await.unwrap();
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(condition(&w.get("web").await, "Ready")["status"], "True");
    assert_eq!(w.get("late").await["status"]["phase"], "Pending");
    w.nodes.restore("node-0").unwrap();
    w.after(1.0).await;
    let pod = w.get("web").await;
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    assert_eq!(condition(&pod, "Ready")["lastTransitionTime"], "2026-01-01T00:00:30Z");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(w.get("late").await["status"]["phase"], "Running");
    assert_eq!(condition(&w.get("marked").await, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_marks_as_not_ready_is_ready_again_after_ten_seconds() {
    let w = World::new(|b| b.count(1)).await;
    w.pod("web", json!({}), json!({})).await;
    w.after(1.0).await;
    let marked = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    w.sandbox.merge("pods", Some("default"), "web", Some("status"), marked).await.unwrap();
    w.after(9.0).await;
    assert_eq!(condition(&w.get("web").await, "Ready")["status"], "False");
    w.after(2.0).await;
    assert_eq!(condition(&w.get("web").await, "Ready")["status"], "True");
    let writes = w.pod_writes().len();
    w.after(600.0).await;
    assert_eq!(w.pod_writes().len(), writes, "a Pod that is set right costs nothing");
}

#[tokio::test(start_paused = true)]
async fn what_ran_on_a_killed_node_is_restarted_when_it_is_back() {
    let w = World::new(|b| b.count(1)).await;
    w.pod("web", json!({}), json!({})).await;
    w.pod("job", json!({"restartPolicy": "Never"}), json!({})).await;
    w.after(1.0).await;
    w.nodes.kill("node-0").unwrap();
    w.after(60.0).await;
    w.nodes.restore("node-0").unwrap();
    w.after(1.0).await;
    assert_eq!(w.get("web").await["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(w.get("job").await["status"]["phase"], "Failed");
    assert!(w.nodes.silence("node-7").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_is_gone_with_its_lease() {
    let w = World::new(|b| b.count(2)).await;
    w.nodes.remove("node-0").unwrap();
    w.after(30.0).await;
    assert_eq!(w.sandbox.list("nodes", None).await.unwrap().len(), 1);
    assert_eq!(w.sandbox.list("leases.coordination.k8s.io", Some("kube-node-lease")).await.unwrap().len(), 1);
    assert_eq!(w.nodes.names(), ["node-1"]);
}

#[tokio::test(start_paused = true)]
async fn pods_survive_a_server_that_is_down_for_a_minute() {
    let w = World::new(|b| b.count(2)).await;
    w.pod("web", json!({}), json!({"sim/ready-after": "30"})).await;
    w.after(1.0).await;
    w.sandbox.faults().go_down();
    w.after(60.0).await;
    w.sandbox.faults().come_up();
    w.pod("late", json!({}), json!({})).await;
    w.after(60.0).await;
    assert_eq!(condition(&w.get("web").await, "Ready")["status"], "True");
    assert_eq!(condition(&w.get("late").await, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn new_kubelets_go_on_where_the_old_ones_stopped() {
    let w = World::new(|b| b.count(2)).await;
    w.pod("web", json!({}), json!({"sim/ready-after": "3"})).await;
    w.after(10.0).await;
    let before = w.get("web").await;
    drop(w.nodes);
    let nodes = Nodes::builder().count(2).start(w.sandbox.client("nodes"), w.sandbox.clock().clone());
    nodes.ready().await;
    w.sandbox.clock().sleep(Duration::from_secs(10)).await;
    let after = w.sandbox.get("pods", Some("default"), "web").await.unwrap();
    assert_eq!(after["status"], before["status"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pods_on_a_thousand_nodes_run_within_a_moment() {
    let w = World::new(|b| b.count(1000).heartbeat(None)).await;
    let start = w.sandbox.clock().now();
    for i in 0..1000 {
        w.pod(&format!("p{i}"), json!({}), json!({})).await;
    }
    w.after(0.1).await;
    let pods = w.sandbox.list("pods", Some("default")).await.unwrap();
    assert_eq!(pods.iter().filter(|p| condition(p, "Ready")["status"] == "True").count(), 1000);
    assert!(w.sandbox.clock().now().duration_since(start) < SignedDuration::from_secs(1));
    let writes = w.pod_writes().len();
    assert_eq!(writes, 2000);
}
