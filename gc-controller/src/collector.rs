//! The loop that judges objects.

use std::sync::Arc;

use common::{
    controller::{Controller, Observed, Requeue},
    informer::AnyInformer,
    runtime::Context,
};
use jiff::Timestamp;

use crate::{
    act::{Act, Place},
    collection::Collection,
    decide::{self, Owner, OwnerKind, Plan, Situation},
    error::Error,
    graph::{Kind, View},
    key::ObjectKey,
    monitors::{Known, Monitors},
    parked::Line,
    task::Task,
};

/// Judges objects by their owners.
pub struct Collector {
    pub(crate) context: Context,
    pub(crate) collection: Arc<Collection>,
    pub(crate) monitors: Arc<Monitors>,
    /// Discovery, and taking over.
    pub(crate) _tasks: [Task; 2],
}

impl Collector {
    pub(crate) fn act(&self) -> Act<'_> {
        Act { api: &self.context.api, collection: &self.collection, monitors: &self.monitors }
    }

    /// Where requests about the object go.
    pub(crate) fn place(&self, view: &View) -> Result<Place, Error> {
        let resource = self.monitors.resource(&view.kind);
        let resource =
            resource.ok_or_else(|| Error::Unserved(format!("{} of {}", view.kind.kind, view.kind.api_version)))?;
        Ok(Place { resource, identity: view.identity.clone() })
    }

    fn situation(&self, view: View) -> Situation {
        let known = self.monitors.known(&view.kind);
        let owner = |(owner, absent): (&common::meta::OwnerRef, &bool)| {
            let kind = Kind { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
            let of = kind;
            let (kind, namespaced) = match self.monitors.known(&of) {
                Known::No => (OwnerKind::Unknown, false),
                Known::At { resource, synced: None } => (OwnerKind::Unwatched, resource.namespaced),
                Known::At { resource, synced: Some(false) } => (OwnerKind::Unsynced, resource.namespaced),
                Known::At { resource, synced: Some(true) } => (OwnerKind::Synced, resource.namespaced),
            };
            let name = format!("{}/{} {}", owner.api_version, owner.kind, owner.name);
            Owner { name, of, kind, namespaced, absent: *absent }
        };
        let owners = view.owners.iter().zip(&view.absent).map(owner).collect();
        let (served, unseen, namespaced) = match known {
            Known::No => (false, false, false),
            Known::At { resource, synced } => (true, synced == Some(false), resource.namespaced),
        };
        let unsynced = if view.deleting_dependents { self.monitors.coming() } else { Vec::new() };
        Situation { view, served, unseen, namespaced, owners, unsynced }
    }
}

impl Controller for Collector {
    type Key = ObjectKey;
    type Snapshot = Situation;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &ObjectKey, _now: Timestamp) -> Result<Observed<Situation>, Error> {
        let view = self.collection.graph.lock().view(&key.0);
        Ok(view.map_or(Observed::Gone, |view| Observed::Ready(self.situation(view))))
    }

    fn decide(situation: &Situation) -> Plan {
        decide::decide(situation)
    }

    async fn act(&self, situation: Situation, plan: Plan) -> Result<Requeue, Error> {
        let key = ObjectKey(situation.view.identity.uid.clone());
        self.collection.parked.leave(Line::Delete, &key);
        match plan {
            Plan::Nothing(_) | Plan::Blocked(_) => return Ok(Requeue::No),
            Plan::Wait(awaited, _) => {
                self.monitors.park(Line::Delete, key, awaited);
                return Ok(Requeue::No);
            }
            Plan::Finish | Plan::Delete { .. } | Plan::Verify { .. } | Plan::Exists => {}
        }
        let (act, place) = (Self::act(self), self.place(&situation.view)?);
        match plan {
            Plan::Finish => act.finish(&place).await,
            Plan::Exists => act.exists(&place).await,
            _ => act.judge(&place, &situation.view).await,
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
