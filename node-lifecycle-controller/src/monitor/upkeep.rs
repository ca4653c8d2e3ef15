//! Taints that follow from the conditions of a node, and copies of its labels.

use std::sync::Arc;

use common::{
    controller::{Controller, Explain as _, Observed, Requeue},
    informer::AnyInformer,
    meta::Key,
};
use jiff::Timestamp;

use crate::{
    act::taints::Edit,
    decide::{
        taints,
        upkeep::{self as decide, Plan, Snapshot},
    },
    error::Error,
};

use super::Monitor;

/// The upkeep of nodes, by name.
pub(crate) struct Upkeep(pub(crate) Arc<Monitor>);

impl Controller for Upkeep {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let blind_for = self.0.blindness.duration();
        let fleet = self.0.fleet.lock();
        let standing = fleet.standing(&key.name, self.0.context.clock.instant(), blind_for);
        Ok(match (fleet.node(&key.name), standing) {
            (Some(node), Some(standing)) => Observed::Ready(Snapshot { node: Arc::clone(node), standing }),
            _ => Observed::Gone,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if plan.acts() {
            let name = &snapshot.node.metadata.name;
            let edit = |live: &_| Edit { taints: taints::by_condition(live), labels: decide::labels(live) };
            let edited = self.0.edit(&snapshot.node, edit).await;
            edited.map_err(|error| Error::new(format!("update taints and labels of Node {name}"), error))?;
        }
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
