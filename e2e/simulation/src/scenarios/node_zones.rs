//! Zones whose nodes fall silent together, in part or as a whole: how fast their nodes are tainted, and when not at all.
//!
//! The zone z0 has the nodes 0, 2, 4 and 6, and the zone z1 the nodes 1, 3 and 5.

use common::settings::TunableValue;
use node_lifecycle_controller::DEFINITION;

use super::{
    node_health::INTERFERENCES,
    node_health_invariants::{
        CAP, INVARIANTS, LARGE_ZONE, OF_CAP, OF_LARGE_ZONES, OF_ZONES, PROMISES, PROMISES_OF_CAP,
        PROMISES_OF_LARGE_ZONES,
    },
    node_lifecycle_invariants::OF_EVICTION,
};
use crate::scenario::Suite;

pub(super) const SUITE: Suite = Suite {
    name: "node-zones",
    programs: &[&DEFINITION],
    tunes: &[],
    gates: &[],
    text: super::node_health::SUITE.text,
    invariants: &[INVARIANTS, OF_ZONES, OF_EVICTION],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// The same zones, the first of which counts as large.
pub(super) const LARGE: Suite = Suite {
    name: "node-zones-large",
    tunes: &[("large-cluster-size-threshold", TunableValue::Integer(LARGE_ZONE as i64))],
    invariants: &[INVARIANTS, OF_LARGE_ZONES, OF_EVICTION],
    promises: &[PROMISES_OF_LARGE_ZONES],
    ..SUITE
};

/// The zones of the first suite, where few nodes may be tainted.
pub(super) const CAPPED: Suite = Suite {
    name: "node-zones-capped",
    tunes: &[("node-taint-max-share", TunableValue::Ratio(CAP.0))],
    invariants: &[INVARIANTS, OF_ZONES, OF_CAP, OF_EVICTION],
    promises: &[PROMISES_OF_CAP],
    ..SUITE
};
