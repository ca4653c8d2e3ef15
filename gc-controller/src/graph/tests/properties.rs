//! Properties that every graph has after any sequence of changes.

use std::collections::BTreeMap;

use common::meta::{Meta, Uid};
use proptest::prelude::*;

use crate::{
    graph::GraphNode,
    world::{TestObject, World, test_object},
};

/// A change of one of the test objects `o0` to `o5`.
#[derive(Clone, Debug)]
enum Step {
    /// A monitor sees the object. Each owner is a number, whether the reference is right, and whether the reference blocks the
    /// owner's deletion.
    Put { object: u8, owners: Vec<(u8, bool, bool)>, state: u8 },
    /// A monitor sees the deletion of the object.
    Gone(u8),
    /// The server answers that the object of a virtual node does not exist.
    Absent(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let owners = proptest::collection::vec((0u8..6, any::<bool>(), any::<bool>()), 0..4);
    prop_oneof![
        4 => (0u8..6, owners, 0u8..4).prop_map(|(object, owners, state)| Step::Put { object, owners, state }),
        2 => (0u8..6).prop_map(Step::Gone),
        2 => (0u8..6).prop_map(Step::Absent),
    ]
}

fn object(number: u8, owners: &[(u8, bool, bool)], state: u8) -> TestObject {
    let mut thing = test_object(&format!("o{number}"));
    for (owner, right, blocks) in owners {
        let name = format!("o{owner}");
        thing = thing.owner_as(if *right { "ConfigMap" } else { "Secret" }, &name, &name, *blocks);
    }
    match state {
        0 => thing.terminating_with_finalizer("foregroundDeletion"),
        1 => thing.terminating_with_finalizer("orphan"),
        _ => thing,
    }
}

/// Checks the counters of monitors and of blocking dependents.
fn check_counts(world: &mut World) {
    let source = world.monitor("ConfigMap");
    let nodes: Vec<_> = world.graph.nodes.nodes_with_ids().map(|(_, node)| node).collect();
    assert_eq!(world.graph.object_count(source), nodes.iter().filter(|node| !node.is_virtual()).count());
    for node in nodes {
        let dependents = node.dependents.iter().map(|d| world.graph.nodes.get(d));
        assert_eq!(
            node.blocking_dependent_count as usize,
            dependents.filter(|d| d.blocks_deletion_of(&node.uid)).count(),
            "{node:?}"
        );
    }
}

/// Checks that each dependent names its owner, and that each virtual owner lists its dependents.
fn check_edges(world: &World) {
    let graph = &world.graph;
    for (id, node) in graph.nodes.nodes_with_ids() {
        for dependent in node.dependents.iter() {
            let dependent = graph.nodes.get(dependent);
            assert!(dependent.owners.iter().any(|o| o.uid == node.uid), "{dependent:?} does not name {node:?}");
        }
        for owner in node.owners.iter() {
            if let Some(owner) = graph.nodes.find(&owner.uid).map(|o| graph.nodes.get(o))
                && owner.is_virtual()
            {
                assert!(owner.dependents.iter().any(|d| d == id), "{owner:?} does not know {node:?}");
            }
        }
        assert_eq!(graph.nodes.find(&node.uid), Some(id));
        assert!(!node.is_virtual() || !node.dependents.is_empty(), "{node:?} has no dependents");
    }
}

proptest! {
    /// GC-14.
    #[test]
    fn counters_are_right_and_no_node_is_left_behind(steps in proptest::collection::vec(step(), 0..60)) {
        let mut world = World::default();
        let mut alive: BTreeMap<u8, TestObject> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put { object: number, owners, state } => {
                    let new = object(number, &owners, state);
                    alive.insert(number, new.clone());
                    world.write_and_observe(&new);
                }
                Step::Gone(number) => {
                    if let Some(old) = alive.remove(&number) {
                        world.observe_deletion(&old);
                    }
                }
                Step::Absent(number) => {
                    let node = world.graph.node(&Uid::new(&format!("o{number}")));
                    if let Some(identity) = node.filter(|n| n.is_virtual()).map(GraphNode::identity) {
                        world.report_absent(&identity);
                    }
                }
            }
            for number in alive.keys() {
                let uid = format!("o{number}");
                assert!(world.graph.node(&Uid::new(&uid)).is_some() && !world.is_virtual(&uid), "{uid}");
            }
            check_counts(&mut world);
        }
        for (_, thing) in alive {
            world.observe_deletion(&thing);
        }
        assert!(world.graph.is_empty());
        assert!(world.graph.kinds.len() <= 1, "kinds without users are left");
    }

    #[test]
    fn edges_are_consistent_after_every_step(steps in proptest::collection::vec(step(), 0..40)) {
        let mut world = World::default();
        for step in steps {
            if let Step::Put { object: number, owners, state } = step {
                let new = object(number, &owners, state);
                world.write_and_observe(&new);
                check_edges(&world);
            }
        }
    }

    /// After a list, the graph contains exactly the listed objects, regardless of the changes before.
    /// GC-13.
    #[test]
    fn a_full_set_repairs_all_missed_changes(
        steps in proptest::collection::vec(step(), 0..40),
        missed in proptest::collection::vec(step(), 0..20),
        read in 0usize..6,
    ) {
        let mut world = World::default();
        let mut alive: BTreeMap<u8, (TestObject, Meta)> = BTreeMap::new();
        let seen = steps.len();
        for (at, step) in steps.into_iter().chain(missed).enumerate() {
            match step {
                Step::Put { object: number, owners, state } => {
                    let thing = object(number, &owners, state);
                    let meta = world.next_meta(&thing);
                    if at < seen {
                        world.observe_object(&thing, &meta);
                    }
                    alive.insert(number, (thing, meta));
                }
                Step::Gone(number) => {
                    if let Some((thing, _)) = alive.remove(&number).filter(|_| at < seen) {
                        world.observe_deletion(&thing);
                    }
                }
                Step::Absent(_) => {}
            }
        }
        let set: Vec<Meta> = alive.values().map(|(_, meta)| meta.clone()).collect();
        // The first read of the list is interrupted, and the second read is complete.
        world.read_list("ConfigMap", &set[..read.min(set.len())], false);
        world.read_list("ConfigMap", &set, true);
        for number in 0..6 {
            let uid = Uid::new(&format!("o{number}"));
            let observed = world.graph.node(&uid).is_some_and(|node| !node.is_virtual());
            assert_eq!(observed, alive.contains_key(&number), "o{number}");
        }
        assert_eq!(world.read_list("ConfigMap", &set, true), [""; 0], "nothing new");
        check_counts(&mut world);
        for (thing, _) in alive.into_values() {
            world.observe_deletion(&thing);
        }
        assert!(world.graph.is_empty());
    }
}
