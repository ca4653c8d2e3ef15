//! The decision about a round: which nodes are silent, and which nodes are tainted next.

pub(crate) mod health;
mod tainting;

use super::{plan::Plan, snapshot::Snapshot};

pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    match snapshot {
        Snapshot::Health(snapshot) => Plan::Health(Box::new(health::decide(snapshot))),
        Snapshot::Tainting(snapshot) => Plan::Tainting(tainting::decide(snapshot)),
    }
}
