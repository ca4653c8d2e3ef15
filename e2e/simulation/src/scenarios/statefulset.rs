//! StatefulSets: the suites, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;

use super::{
    interferences::{self, at_once, delete_pod, fail_pod, relabel_pod, replace_set, take_pod},
    statefulset_invariants::{INVARIANTS, LIMITED, ONE_BY_ONE, PROMISES},
};
use crate::{
    scenario::{Deeds, Interference, Suite},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "statefulset",
    programs: &[&statefulset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("statefulset.txt"),
    invariants: &[INVARIANTS, ONE_BY_ONE],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// StatefulSets with everything turned on that operators can turn on.
pub(super) const MAX_UNAVAILABLE: Suite = Suite {
    name: "statefulset-max-unavailable",
    programs: &[&statefulset_controller::DEFINITION],
    tunes: &[("replace-stuck-pods", TunableValue::Switch(true))],
    gates: &[("MaxUnavailableStatefulSet", true)],
    text: SUITE.text,
    invariants: &[INVARIANTS, LIMITED],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

pub(super) const INTERFERENCES: &[Interference] = &[
    Interference { name: "scale", act: scale },
    Interference { name: "delete-pod", act: delete_pod },
    Interference { name: "relabel-pod", act: relabel_pod },
    Interference { name: "take-pod", act: take_pod },
    Interference { name: "fail-pod", act: fail_pod },
    Interference { name: "replace", act: replace },
];

pub(super) const STATEFUL_SETS: &str = "statefulsets.apps";
pub(super) const CLAIMS: &str = "persistentvolumeclaims";
const WEB: &str = "web";

pub(super) fn scale(world: &World, luck: u64) -> Deeds {
    interferences::scale(world, luck, (STATEFUL_SETS, WEB), "replicas", 6)
}

/// A Pod that the controller created for the old set meanwhile would keep its name from the new one until it is collected: a
/// minute later all Pods are deleted once more.
fn replace(world: &World, _: u64) -> Deeds {
    let deeds = replace_set(world, STATEFUL_SETS, WEB)?;
    let pods = deeds[3].clone();
    let mut deeds = at_once(deeds)?;
    deeds.push((Duration::from_secs(60), pods));
    Some(deeds)
}
