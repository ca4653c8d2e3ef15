//! All controllers beside a hostile neighbour, whose objects are in [`neighbour`](crate::neighbour).

use common::settings::TunableValue;
use serde_json::json;

use super::{
    cronjob_invariants, daemonset_invariants, deployment_invariants, endpointslice_invariants, gc, gc_invariants,
    interferences::{delete_pod, later},
    job_invariants, node_lifecycle, node_lifecycle_invariants, replicaset_invariants, statefulset_invariants,
};
use crate::{
    scenario::{Deeds, Interference, Suite, What},
    world::World,
};

/// All controllers together. The nodes have no heartbeats that somebody could judge.
pub(super) const SUITE: Suite = Suite {
    name: "neighbour",
    programs: &[
        &deployment_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
        &statefulset_controller::DEFINITION,
        &job_controller::DEFINITION,
        &cronjob_controller::DEFINITION,
        &endpointslice_controller::DEFINITION,
        &daemonset_controller::DEFINITION,
        &gc_controller::DEFINITION,
        &node_lifecycle::OF_PODS,
    ],
    tunes: &[("max-endpoints-per-slice", TunableValue::Count(endpointslice_invariants::MAX_ENDPOINTS)), gc::TUNES[0]],
    gates: &[],
    text: include_str!("neighbour.txt"),
    invariants: &[
        deployment_invariants::INVARIANTS,
        replicaset_invariants::INVARIANTS,
        statefulset_invariants::INVARIANTS,
        statefulset_invariants::ONE_BY_ONE,
        job_invariants::INVARIANTS,
        cronjob_invariants::INVARIANTS,
        endpointslice_invariants::INVARIANTS,
        daemonset_invariants::INVARIANTS,
        gc_invariants::INVARIANTS,
        node_lifecycle_invariants::OF_EVICTION,
    ],
    promises: &[
        deployment_invariants::PROMISES,
        replicaset_invariants::PROMISES,
        statefulset_invariants::PROMISES,
        job_invariants::PROMISES,
        cronjob_invariants::PROMISES,
        endpointslice_invariants::PROMISES,
        daemonset_invariants::PROMISES,
        gc_invariants::PROMISES,
    ],
    interferences: &[
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "roll-out", act: roll_out },
    ],
};

const DEPLOYMENTS: &str = "deployments.apps";
const WEB: &str = "web";
fn rolled_out(image: &str) -> What {
    let containers = json!([{"name": "c", "image": image}]);
    What::merge(DEPLOYMENTS, WEB, json!({"spec": {"template": {"spec": {"containers": containers}}}}))
}

fn roll_out(world: &World, luck: u64) -> Deeds {
    world.get(DEPLOYMENTS, crate::stage::NAMESPACE, WEB)?;
    later(rolled_out("img:3"), luck % 30, rolled_out("img:1"))
}
