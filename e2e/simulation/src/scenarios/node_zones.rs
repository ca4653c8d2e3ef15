//! Zones whose nodes fall silent together, in part or as a whole: how fast their nodes are tainted, and when not at all.
//!
//! The zone z0 has the nodes 0, 2, 4 and 6, and the zone z1 the nodes 1, 3 and 5.

use common::settings::TunableValue;
use node_lifecycle_controller::DEFINITION;

use super::{
    node_health::{INTERFERENCES, pods, ready, restore, silence, usual_pod},
    node_health_invariants::{
        CAP, INVARIANTS, LARGE_ZONE, OF_CAP, OF_LARGE_ZONES, OF_ZONES, PROMISES, PROMISES_OF_CAP,
        PROMISES_OF_LARGE_ZONES,
    },
    node_lifecycle_invariants::OF_EVICTION,
};
use crate::scenario::{Scenario, Step, Suite, What, after, settled, tainted};

/// Two zones that are small by the default flags.
pub(super) const SUITE: Suite = Suite {
    name: "node-zones",
    programs: &[&DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS, OF_ZONES, OF_EVICTION],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// The same zones, the first of which counts as large.
pub(super) const LARGE: Suite = Suite {
    name: "node-zones-large",
    tunes: &[("large-cluster-size-threshold", TunableValue::Integer(LARGE_ZONE as i64))],
    scenarios: scenarios_of_large_zones,
    invariants: &[INVARIANTS, OF_LARGE_ZONES, OF_EVICTION],
    promises: &[PROMISES_OF_LARGE_ZONES],
    ..SUITE
};

/// The zones of the first suite, where few nodes may be tainted.
pub(super) const CAPPED: Suite = Suite {
    name: "node-zones-capped",
    tunes: &[("node-taint-max-share", TunableValue::Ratio(CAP.0))],
    scenarios: scenarios_with_a_cap,
    invariants: &[INVARIANTS, OF_ZONES, OF_CAP, OF_EVICTION],
    promises: &[PROMISES_OF_CAP],
    ..SUITE
};

/// The same step for several nodes at once. The first one is taken when `first` says so.
fn each(what: fn(&str) -> What, first: fn(What) -> Step, nodes: &[u32]) -> Vec<Step> {
    let step = |(number, node): (usize, &u32)| {
        let what = what(&format!("node-{node}"));
        if number == 0 { first(what) } else { after(0.0, what) }
    };
    nodes.iter().enumerate().map(step).collect()
}

fn soon(what: What) -> Step {
    after(5.0, what)
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "zone-lost",
            about: "every node of a zone falls silent at once, and all come back",
            steps: [
                pods("node-0"),
                pods("node-1"),
                vec![usual_pod("node-2")],
                each(silence, soon, &[0, 2, 4, 6]),
                // A process that takes over begins the five minutes of a usual Pod anew.
                each(restore, |what| tainted("node-2", 900.0, what), &[0, 2, 4, 6]),
            ]
            .concat(),
        },
        Scenario {
            name: "half-a-zone",
            about: "half of the nodes of a zone fall silent, and come back",
            steps: [pods("node-0"), each(silence, soon, &[0, 2]), each(restore, settled, &[0, 2])].concat(),
        },
        Scenario {
            name: "most-of-a-zone",
            about: "most nodes of a small zone fall silent: no Pod leaves before one of them is back",
            steps: [
                pods("node-0"),
                pods("node-4"),
                each(silence, soon, &[0, 2, 4]),
                each(restore, settled, &[4]),
                each(restore, settled, &[0, 2]),
            ]
            .concat(),
        },
        Scenario {
            name: "not-ready",
            about: "half of the nodes of a zone report that they are not ready, and are ready again",
            steps: [
                pods("node-0"),
                each(|node| ready(node, false), soon, &[0, 2]),
                each(|node| ready(node, true), settled, &[0, 2]),
            ]
            .concat(),
        },
        Scenario {
            name: "zone-by-zone",
            about: "one zone falls silent, then the other: taints are removed before usual Pods have to leave",
            steps: [
                vec![usual_pod("node-0"), usual_pod("node-1")],
                each(silence, soon, &[0, 2, 4, 6]),
                each(silence, |what| tainted("node-0", 5.0, what), &[1, 3, 5]),
                each(restore, settled, &[0, 1, 2, 3, 4, 5, 6]),
            ]
            .concat(),
        },
    ]
}

fn scenarios_with_a_cap() -> Vec<Scenario> {
    vec![Scenario {
        name: "three-nodes",
        about: "three nodes of two zones fall silent, of which two may be tainted, and come back",
        steps: [
            vec![usual_pod("node-0"), usual_pod("node-1"), usual_pod("node-2")],
            each(silence, soon, &[0, 1, 2]),
            // Which of them are tainted is left to chance: they are back before a Pod has to leave.
            each(restore, |what| after(200.0, what), &[0, 1, 2]),
        ]
        .concat(),
    }]
}

fn scenarios_of_large_zones() -> Vec<Scenario> {
    vec![Scenario {
        name: "most-of-a-zone",
        about: "most nodes of a large zone fall silent, and are tainted slowly",
        steps: [pods("node-0"), each(silence, soon, &[0, 2, 4])].concat(),
    }]
}
