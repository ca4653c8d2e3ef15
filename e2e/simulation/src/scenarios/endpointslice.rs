//! Services: the suites, and what users do at any moment.

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    endpointslice_invariants::{INVARIANTS, PROMISES, SERVICE_NAME, SERVICES, SLICES},
    interferences::{at_once, delete_pod, later, one_of},
};
use crate::{
    json::{label, name},
    scenario::{Deeds, Interference, Suite, What},
    stage::NAMESPACE,
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "endpointslice",
    programs: &[
        &endpointslice_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
        &deployment_controller::DEFINITION,
        // Pods of a node that is gone are removed, which upstream leaves to Pod garbage collection, too.
        &super::node_lifecycle::OF_PODS,
    ],
    tunes: &[
        ("max-endpoints-per-slice", TunableValue::Count(super::endpointslice_invariants::MAX_ENDPOINTS)),
        // Services are small here.
        ("endpointslice-min-pods-of-packing", TunableValue::Count(1)),
    ],
    gates: &[],
    text: include_str!("endpointslice.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "delete-slice", act: delete_slice },
        Interference { name: "empty-slice", act: empty_slice },
        Interference { name: "take-slice", act: take_slice },
        Interference { name: "label-service", act: label_service },
    ],
};

/// The same in a cluster in which Pods have an address of each family.
pub(super) const DUAL_STACK: Suite =
    Suite { name: "endpointslice-dual-stack", gates: &[("IPv6DualStack", true)], ..SUITE };

const WEB: &str = "web";

fn a_slice(world: &World, luck: u64) -> Option<&str> {
    let slices = world.list(SLICES).filter(|slice| label(slice, SERVICE_NAME) == WEB);
    one_of(slices.map(|slice| name(slice)).collect(), luck)
}

fn delete_slice(world: &World, luck: u64) -> Deeds {
    at_once([What::delete_now(SLICES, a_slice(world, luck)?)])
}

fn empty_slice(world: &World, luck: u64) -> Deeds {
    at_once([What::merge(SLICES, a_slice(world, luck)?, json!({"endpoints": []}))])
}

fn take_slice(world: &World, luck: u64) -> Deeds {
    let mesh = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "mesh.example.com"}}});
    at_once([What::merge(SLICES, a_slice(world, luck)?, mesh)])
}

fn label_service(world: &World, luck: u64) -> Deeds {
    world.get(SERVICES, NAMESPACE, WEB)?;
    let labelled = |value: Value| What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"x": value}}}));
    later(labelled(json!("1")), luck % 20, labelled(Value::Null))
}
