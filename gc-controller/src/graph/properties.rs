//! What holds in every graph, whatever happens to it.

use std::collections::BTreeMap;

use common::meta::Uid;
use proptest::prelude::*;

use super::world::{Thing, World, thing};

/// One thing that happens to one of a few objects.
#[derive(Clone, Debug)]
enum Step {
    /// It is seen with these owners, in this state.
    Put { object: u8, owners: Vec<(u8, bool, bool)>, state: u8 },
    /// It is seen to be gone.
    Gone(u8),
    /// The server says that what a virtual node stands for does not exist.
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

fn object(number: u8, owners: &[(u8, bool, bool)], state: u8) -> Thing {
    let mut thing = thing(&format!("o{number}"));
    for (owner, right, blocks) in owners {
        let name = format!("o{owner}");
        thing = thing.owner_as(if *right { "ConfigMap" } else { "Secret" }, &name, &name, *blocks);
    }
    match state {
        0 => thing.waiting_for("foregroundDeletion"),
        1 => thing.waiting_for("orphan"),
        _ => thing,
    }
}

/// Edges lead both ways, or to a node that is not there.
fn check_edges(world: &World) {
    let graph = &world.graph;
    for id in graph.nodes.ids() {
        let node = graph.nodes.get(id);
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
        assert!(!node.is_virtual() || !node.dependents.is_empty(), "nobody needs {node:?}");
    }
}

proptest! {
    #[test]
    fn edges_lead_both_ways_and_nothing_is_left_behind(steps in proptest::collection::vec(step(), 0..60)) {
        let mut world = World::default();
        let mut alive: BTreeMap<u8, Thing> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put { object: number, owners, state } => {
                    let new = object(number, &owners, state);
                    match alive.insert(number, new.clone()) {
                        Some(old) => world.update(&old, &new),
                        None => world.put(&new),
                    };
                }
                Step::Gone(number) => {
                    if let Some(old) = alive.remove(&number) {
                        world.gone(&old);
                    }
                }
                Step::Absent(number) => {
                    let node = world.graph.node(&Uid::new(&format!("o{number}")));
                    if let Some(identity) = node.filter(|n| n.is_virtual()).map(super::Node::identity) {
                        world.absent(&identity);
                    }
                }
            }
            for number in alive.keys() {
                let uid = format!("o{number}");
                assert!(world.graph.node(&Uid::new(&uid)).is_some() && !world.is_virtual(&uid), "{uid}");
            }
        }
        for (_, thing) in alive {
            world.gone(&thing);
        }
        assert!(world.graph.is_empty());
    }

    #[test]
    fn edges_are_true_after_every_step(steps in proptest::collection::vec(step(), 0..40)) {
        let mut world = World::default();
        let mut alive: BTreeMap<u8, Thing> = BTreeMap::new();
        for step in steps {
            if let Step::Put { object: number, owners, state } = step {
                let new = object(number, &owners, state);
                match alive.insert(number, new.clone()) {
                    Some(old) => world.update(&old, &new),
                    None => world.put(&new),
                };
                check_edges(&world);
            }
        }
    }
}
