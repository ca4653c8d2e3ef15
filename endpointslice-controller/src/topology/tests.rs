use std::cell::Cell;

use common::meta::ResourceVersion;
use serde_json::json;

use super::*;

fn node(index: usize, zone: &str, ready: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": format!("n{index}"), "uid": format!("n{index}"),
        "resourceVersion": "1", "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": ready}]}}))
    .unwrap()
}

/// ENDPOINTSLICE-11.
#[tokio::test(start_paused = true)]
async fn the_failure_of_a_zone_with_a_thousand_nodes_causes_one_check() {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
    let topology = NodeTopology::new(Arc::default());
    let nodes: Vec<Arc<Node>> = (0..2_000).map(|n| Arc::new(node(n, ["a", "b"][n % 2], "True"))).collect();
    for new in &nodes {
        topology.on_node(&CacheEvent::Added(Arc::clone(new)), ChangeOrigin::Initial);
    }
    assert!(topology.zone_cpu_shares().is_some());
    let checks = Cell::new(0);
    let checking = topology.run_after_node_changes(&clock, || checks.set(checks.get() + 1));
    let failing = async {
        clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(checks.get(), 1, "after the first list");
        for (index, old) in nodes.iter().enumerate().filter(|(index, _)| index % 2 == 0) {
            let (old, new) = (Arc::clone(old), Arc::new(node(index, "a", "False")));
            topology.on_node(&CacheEvent::Updated { old, new }, ChangeOrigin::Watch);
        }
        clock.sleep(Duration::from_secs(10)).await;
    };
    tokio::select! { () = checking => {}, () = failing => {} }
    assert_eq!(checks.get(), 2);
    assert_eq!(topology.zone_cpu_shares(), None, "one zone is left");
}

/// ENDPOINTSLICE-12.
#[test]
fn new_nodes_and_nodes_with_a_new_zone_count_as_moved() {
    let topology = NodeTopology::new(Arc::default());
    let put = |old: Option<Node>, new: Node, origin: ChangeOrigin| {
        let new = Arc::new(new);
        let event = match old.map(Arc::new) {
            Some(old) => CacheEvent::Updated { old, new },
            None => CacheEvent::Added(new),
        };
        topology.on_node(&event, origin);
        topology.take_nodes_with_new_zone().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(put(None, node(0, "a", "True"), ChangeOrigin::Initial), [""; 0]);
    assert_eq!(put(None, node(1, "", "True"), ChangeOrigin::Watch), ["n1"]);
    assert_eq!(put(Some(node(1, "", "True")), node(1, "", "False"), ChangeOrigin::Watch), [""; 0]);
    assert_eq!(put(Some(node(1, "", "False")), node(1, "b", "False"), ChangeOrigin::Watch), ["n1"]);
    topology.on_node(&CacheEvent::Deleted(Arc::new(node(1, "b", "False"))), ChangeOrigin::Watch);
    assert!(topology.take_nodes_with_new_zone().is_empty(), "its Pods still serve");
    assert_eq!(put(None, node(1, "b", "True"), ChangeOrigin::Relist), ["n1"], "a sync may have omitted its Pods");
}

/// ENDPOINTSLICE-42.
#[tokio::test(start_paused = true)]
async fn capacity_follows_every_node() {
    let topology = NodeTopology::new(Arc::default());
    let store: Store<Node> = Store::default();
    let tell = |nodes: Vec<Node>, version: &str| {
        for event in &store.replace_objects_for_tests(nodes, ResourceVersion::parse(version)) {
            topology.on_node(event, ChangeOrigin::Relist);
        }
    };
    tell(vec![node(0, "a", "True"), node(1, "b", "True")], "2");
    let two = topology.zone_cpu_shares();
    assert!(two.is_some());
    assert_eq!(topology.zones_by_node().get("n1").map(common::intern::Text::as_str), Some("b"));
    tell(vec![node(0, "a", "True")], "3");
    assert_eq!((topology.zone_cpu_shares(), topology.zones_by_node().get("n1")), (None, None));
    tell(vec![node(0, "a", "True"), node(1, "b", "True"), node(2, "", "True")], "4");
    assert_eq!(topology.zone_cpu_shares(), None, "a Node without a zone");
    tell(vec![node(0, "a", "True"), node(1, "b", "True")], "5");
    assert_eq!(topology.zone_cpu_shares(), two);
}
