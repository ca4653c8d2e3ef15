//! The decisions of a pass: which nodes have no heartbeats, or which waiting nodes are tainted next.

pub(crate) mod health;
mod tainting;

use super::{plan::Plan, snapshot::Snapshot};

pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    match snapshot {
        Snapshot::Health(snapshot) => Plan::Health(Box::new(health::decide(snapshot))),
        Snapshot::Tainting(snapshot) => Plan::Tainting(tainting::decide(snapshot)),
    }
}
