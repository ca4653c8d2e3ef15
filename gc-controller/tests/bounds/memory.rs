//! Memory per object, measured in a separate process so that nothing else allocates.

use common::meta::{Meta, OwnerRef, ResourceVersion, Uid};
use gc_controller::graph::Graph;

use crate::METER;

/// Maximum bytes that a graph holds for each object in addition to its name.
const BUDGET: usize = 200;
const APPLICATIONS: usize = 10_000;

/// Returns kind and name of each object of an application, and the position of its owner among them: a Deployment with a
/// ReplicaSet and this many Pods, and with `surroundings` a Service, an EndpointSlice, a ConfigMap and a Secret.
fn application(number: usize, pods: usize, surroundings: bool) -> Vec<(&'static str, String, Option<usize>)> {
    let name = format!("frontend-{number:05}");
    let set = format!("{name}-6d4cf56db6");
    let mut objects = vec![("Deployment", name.clone(), None), ("ReplicaSet", set.clone(), Some(0))];
    objects.extend((0..pods).map(|pod| ("Pod", format!("{set}-{pod:05}"), Some(1))));
    if surroundings {
        let slice = ("EndpointSlice", format!("{name}-x7k2p"), Some(objects.len()));
        let config = ("ConfigMap", format!("{name}-config"), None);
        objects.extend([
            ("Service", name.clone(), None),
            slice,
            config,
            ("Secret", format!("{name}-credentials"), None),
        ]);
    }
    objects
}

/// Builds a graph of applications. Each object reaches the graph through the monitor of its kind. Returns the graph, the number of
/// objects, and the total bytes of their names.
fn graph_of(applications: usize, pods: usize, surroundings: bool) -> (Graph, usize, usize) {
    let mut graph = Graph::default();
    let kinds = ["Deployment", "ReplicaSet", "Pod", "Service", "EndpointSlice", "ConfigMap", "Secret"];
    let monitors = kinds.map(|kind| graph.add_monitor("v1", kind));
    let (mut count, mut names) = (0, 0);
    for number in 0..applications {
        let objects = application(number, pods, surroundings);
        let mut uids: Vec<Uid> = Vec::new();
        for (kind, name, owner) in &objects {
            count += 1;
            names += name.len();
            let at = kinds.iter().position(|known| known == kind).unwrap();
            let owner = owner.map(|owner| OwnerRef {
                api_version: "apps/v1".into(),
                kind: objects[owner].0.into(),
                name: objects[owner].1.as_str().into(),
                uid: uids[owner].clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            });
            let meta = Meta {
                name: name.as_str().into(),
                namespace: format!("team-{}", number / 100).as_str().into(),
                uid: Uid::new(&format!("2ff731ae-b0d1-491c-{at:04x}-{count:012x}")),
                resource_version: ResourceVersion::parse(&count.to_string()),
                owners: owner.into_iter().collect::<Vec<_>>().into(),
                ..Meta::default()
            };
            graph.apply_object(monitors[at], &meta, &mut Vec::new());
            uids.push(meta.uid);
        }
    }
    (graph, count, names)
}

/// GC-17.
#[test]
fn texts_of_removed_references_are_not_kept() {
    let _alone = METER.alone();
    let mut graph = Graph::default();
    let source = graph.add_monitor("v1", "ConfigMap");
    let mut say = |n: usize| {
        let long = format!("K{n}-{}", "x".repeat(100_000));
        let meta = serde_json::json!({"name": "c", "namespace": "ns", "uid": "c", "resourceVersion": (n + 1).to_string(),
            "ownerReferences": [{"apiVersion": long, "kind": long, "name": long, "uid": long}]});
        let meta = serde_json::from_value(meta).unwrap();
        graph.apply_object(source, &meta, &mut Vec::new());
        graph.node_view(&Uid::new("c")).unwrap();
    };
    say(0);
    let ((), grown) = METER.held(|| (1..300).for_each(&mut say));
    assert!(grown < 1_000_000, "{grown} bytes more after 300 changes of one object");
}

/// GC-17.
#[test]
fn an_object_costs_the_collector_less_than_its_budget() {
    let _alone = METER.alone();
    for (what, applications, pods, surroundings) in [
        ("applications with Services and configuration", APPLICATIONS, 4, true),
        ("Deployments of four", APPLICATIONS, 4, false),
        ("Deployments of one, which share least", APPLICATIONS, 1, false),
        ("Deployments of 40", APPLICATIONS / 10, 40, false),
    ] {
        // The first graph makes the allocations that happen only once in a process.
        drop(graph_of(1, pods, surroundings));
        let ((graph, count, names), bytes) = METER.held(|| graph_of(applications, pods, surroundings));
        assert_eq!(graph.len(), count);
        let each = (bytes - names) / count;
        println!("{what}: {count} objects, {each} bytes each and {} of name", names / count);
        assert!((64..=BUDGET).contains(&each), "{what}: {each} bytes an object");
    }
}
