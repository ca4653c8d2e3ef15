//! Memory per object, measured in a separate process so that nothing else allocates.

use common::meta::{Meta, OwnerRef, OwnerRefs, ResourceVersion, Uid};
use gc_controller::graph::{Graph, MonitorId};

use crate::METER;

/// Maximum bytes that a graph holds for each object in addition to its name.
const BUDGET: usize = 200;
const APPLICATIONS: usize = 10_000;

/// A cluster under construction. Each object reaches the graph through the monitor of its kind.
struct World {
    graph: Graph,
    sources: Vec<(&'static str, MonitorId)>,
    objects: usize,
    /// Total bytes of the names of all objects.
    names: usize,
}

/// Returns a list with one owner reference: a controller reference that blocks the owner's deletion.
fn owner(kind: &str, name: &str, uid: &Uid) -> OwnerRefs {
    let reference = OwnerRef {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    vec![reference].into()
}

impl World {
    fn new() -> Self {
        let mut graph = Graph::default();
        let kinds = ["Deployment", "ReplicaSet", "Pod", "Service", "EndpointSlice", "ConfigMap", "Secret"];
        let sources = kinds.iter().map(|kind| (*kind, graph.add_monitor("v1", kind))).collect();
        Self { graph, sources, objects: 0, names: 0 }
    }

    /// Lets a monitor see an object, and returns its UID.
    fn see(&mut self, kind: &str, namespace: usize, name: &str, owners: OwnerRefs) -> Uid {
        let at = self.sources.iter().position(|(known, _)| *known == kind).unwrap();
        self.objects += 1;
        self.names += name.len();
        let meta = Meta {
            name: name.into(),
            namespace: format!("team-{namespace}").as_str().into(),
            uid: Uid::new(&format!("2ff731ae-b0d1-491c-{at:04x}-{:012x}", self.objects)),
            resource_version: ResourceVersion::parse(&self.objects.to_string()),
            owners,
            ..Meta::default()
        };
        self.graph.apply_object(self.sources[at].1, &meta, &mut Vec::new());
        meta.uid
    }

    /// Adds a Deployment with a ReplicaSet and its Pods.
    fn application(&mut self, number: usize, pods: usize) {
        let (name, namespace) = (format!("frontend-{number:05}"), number / 100);
        let uid = self.see("Deployment", namespace, &name, OwnerRefs::default());
        let set = format!("{name}-6d4cf56db6");
        let uid = self.see("ReplicaSet", namespace, &set, owner("Deployment", &name, &uid));
        for pod in 0..pods {
            self.see("Pod", namespace, &format!("{set}-{pod:05}"), owner("ReplicaSet", &set, &uid));
        }
    }

    /// Adds a Service, an EndpointSlice, a ConfigMap and a Secret.
    fn surroundings(&mut self, number: usize) {
        let (name, namespace) = (format!("frontend-{number:05}"), number / 100);
        let uid = self.see("Service", namespace, &name, OwnerRefs::default());
        self.see("EndpointSlice", namespace, &format!("{name}-x7k2p"), owner("Service", &name, &uid));
        self.see("ConfigMap", namespace, &format!("{name}-config"), OwnerRefs::default());
        self.see("Secret", namespace, &format!("{name}-credentials"), OwnerRefs::default());
    }
}

/// Returns the average number of bytes for an object in the graph, without the bytes of its name.
fn cost(build: impl Fn(&mut World, usize)) -> usize {
    // The first build makes the allocations that happen only once in a process.
    let mut first = World::new();
    build(&mut first, 0);
    let before = METER.allocated();
    let mut world = World::new();
    for number in 0..APPLICATIONS {
        build(&mut world, number);
    }
    let bytes = METER.allocated() - before;
    assert_eq!(world.graph.len(), world.objects);
    let each = (bytes - world.names) / world.objects;
    println!("{} objects: {each} bytes each and {} of name", world.objects, world.names / world.objects);
    each
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
    let before = METER.allocated();
    (1..300).for_each(&mut say);
    let grown = METER.allocated().saturating_sub(before);
    assert!(grown < 1_000_000, "{grown} bytes more after 300 changes of one object");
}

/// GC-17.
#[test]
fn an_object_costs_the_collector_less_than_its_budget() {
    let _alone = METER.alone();
    for (what, build) in [
        (
            "applications with Services and configuration",
            (|w, n| {
                w.application(n, 4);
                w.surroundings(n);
            }) as fn(&mut World, usize),
        ),
        ("Deployments of four", |w, n| w.application(n, 4)),
        ("Deployments of one, which share least", |w, n| w.application(n, 1)),
        ("Deployments of 40", |w, n| {
            if n % 10 == 0 {
                w.application(n, 40);
            }
        }),
    ] {
        let each = cost(build);
        assert!((64..=BUDGET).contains(&each), "{what}: {each} bytes an object");
    }
}
