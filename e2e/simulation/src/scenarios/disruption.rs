//! Budgets and evictions: the suite, and what users do at any moment.

use serde_json::json;

use super::{
    disruption_invariants::{INVARIANTS, PROMISES},
    interferences::{at_once, delete_pod, scale},
};
use crate::{
    scenario::{Deeds, Interference, Labelled, Suite, Target, What},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "disruption",
    programs: &[
        &disruption_controller::DEFINITION,
        &deployment_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
    ],
    tunes: &[],
    gates: &[],
    text: include_str!("disruption.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "evict", act: evict },
        Interference { name: "delete-pod", act: delete_pod },
        Interference {
            name: "scale",
            act: |world, luck| scale(world, luck, ("deployments.apps", "web"), "replicas", 6),
        },
        Interference { name: "touch", act: touch },
    ],
};

fn evict(world: &World, _: u64) -> Deeds {
    world.list("pods").next()?;
    let (resource, key, value) = ("pods".to_owned(), "app".to_owned(), "web".to_owned());
    at_once([What::EvictAll(Labelled { resource, key, value })])
}

fn touch(world: &World, luck: u64) -> Deeds {
    let budget = Target::new("poddisruptionbudgets.policy", "web");
    world.find(&budget)?;
    at_once([What::Merge(budget, json!({"metadata": {"labels": {"luck": (luck % 1000).to_string()}}}))])
}
