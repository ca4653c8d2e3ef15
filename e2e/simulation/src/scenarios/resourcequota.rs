//! Quotas and what they count: the suite, and what users do at any moment.

use serde_json::json;

use super::{
    interferences::{at_once, delete_pod, scale},
    resourcequota_invariants::{INVARIANTS, PROMISES, QUOTAS},
};
use crate::{
    scenario::{Deeds, Interference, Suite, Target, What},
    world::World,
};

/// The sandbox leaves the status of quotas to the controller, and its admission charges and refuses.
pub(super) const SUITE: Suite = Suite {
    name: "resourcequota",
    programs: &[&resourcequota_controller::DEFINITION, &replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("resourcequota.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: delete_pod },
        Interference {
            name: "scale",
            act: |world, luck| scale(world, luck, ("replicasets.apps", "web"), "replicas", 6),
        },
        Interference { name: "limit", act: limit },
    ],
};

/// Changes the limit of Pods.
fn limit(world: &World, luck: u64) -> Deeds {
    let quota = Target::new(QUOTAS, "web");
    world.find(&quota)?;
    at_once([What::Merge(quota, json!({"spec": {"hard": {"pods": (luck % 5).to_string()}}}))])
}
