//! ReplicaSets: the suite, and what users do at any moment.

use super::{
    interferences::{again, at_once, delete_pod, fight, owned_pods, relabel_pod, scale},
    replicaset_invariants::{INVARIANTS, PROMISES},
};
use crate::{
    scenario::{Deeds, Interference, Suite, What},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "replicaset",
    programs: &[&replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("replicaset.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "scale", act: |world, luck| scale(world, luck, (REPLICA_SETS, RS), "replicas", 8) },
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "relabel-pod", act: relabel_pod },
        Interference { name: "fight", act: fight },
        Interference { name: "replace", act: replace },
    ],
};

const REPLICA_SETS: &str = "replicasets.apps";
const RS: &str = "rs";

fn replace(world: &World, _: u64) -> Deeds {
    let again = What::Create(again(world, REPLICA_SETS, RS)?);
    let pods = owned_pods(world).into_iter().map(|pod| What::delete("pods", &pod));
    at_once([What::delete(REPLICA_SETS, RS), again].into_iter().chain(pods))
}
