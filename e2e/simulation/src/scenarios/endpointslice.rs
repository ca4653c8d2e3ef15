//! Services: the suites, and what users do at any moment.

use std::{sync::Arc, time::Duration};

use common::settings::TunableValue;

use serde_json::{Value, json};

use super::{
    endpointslice_invariants::{INVARIANTS, PROMISES, SERVICE_NAME, SERVICES, SLICES, label},
    replicaset::pod_interferences,
};
use crate::{
    json::name,
    scenario::{Interference, Suite, What},
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
        Interference { name: "delete-pod", act: pod_interferences::delete },
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

fn a_slice(world: &World, luck: u64) -> Option<&Arc<Value>> {
    let slices: Vec<&Arc<Value>> = world.list(SLICES).filter(|slice| label(slice, SERVICE_NAME) == WEB).collect();
    let at = usize::try_from(luck).unwrap_or(0).checked_rem(slices.len())?;
    slices.get(at).copied()
}

fn delete_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    slice.map(|slice| (Duration::ZERO, What::delete_now(SLICES, name(slice)))).into_iter().collect()
}

fn empty_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    let empty = |slice: &Arc<Value>| What::merge(SLICES, name(slice), json!({"endpoints": []}));
    slice.map(|slice| (Duration::ZERO, empty(slice))).into_iter().collect()
}

fn take_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    let mesh = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "mesh.example.com"}}});
    slice.map(|slice| (Duration::ZERO, What::merge(SLICES, name(slice), mesh))).into_iter().collect()
}

/// Adds a label, and takes it away after a while.
fn label_service(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if world.get(SERVICES, NAMESPACE, WEB).is_none() {
        return Vec::new();
    }
    let labelled = |value: Value| What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"x": value}}}));
    vec![(Duration::ZERO, labelled(json!("1"))), (Duration::from_secs(luck % 20), labelled(Value::Null))]
}
