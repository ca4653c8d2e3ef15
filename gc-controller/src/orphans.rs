//! The loop that releases the dependents of objects that are deleted without them.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    controller::{Controller, Explain, Explanation, Observed, Requeue},
    informer::AnyInformer,
    meta::Uid,
};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;

use crate::{
    act::{NotReleased, Place},
    collector::Collector,
    decide::Awaited,
    error::Error,
    graph::{Dependent, ORPHAN, View},
    key::ObjectKey,
    parked::Line,
};

/// How many dependents of one object are released at once.
const AT_ONCE: usize = 20;

/// An object whose dependents are to be released.
#[derive(Clone, Debug)]
pub struct Orphaning {
    view: View,
    /// Resources of which not all objects are known.
    coming: Vec<String>,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: it does not have the finalizer, or is not going.
    Nothing,
    /// Nothing for now: not all objects of this resource are known.
    Wait(String),
    /// This many dependents are released, and then the object.
    Release(usize),
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let mut out = Explanation::default();
        match self {
            Self::Nothing => "nothing is to be released".clone_into(&mut out.situation),
            Self::Wait(resource) => {
                out.waiting.push(format!("not all {resource} are known; one may have to be released"));
            }
            Self::Release(count) => {
                "it is deleted without its dependents".clone_into(&mut out.situation);
                out.actions.push(format!("release {count} dependents and remove the finalizer orphan"));
            }
        }
        out
    }

    fn acts(&self) -> bool {
        matches!(self, Self::Release(_))
    }
}

/// Decides.
pub fn decide(orphaning: &Orphaning) -> Plan {
    let view = &orphaning.view;
    if !view.being_deleted || !view.orphans || view.is_virtual {
        return Plan::Nothing;
    }
    match orphaning.coming.first() {
        Some(resource) => Plan::Wait(resource.clone()),
        None => Plan::Release(view.dependents),
    }
}

/// Releases dependents.
pub struct Orphaner(pub(crate) Arc<Collector>);

impl Orphaner {
    /// Dependents that have not been released yet.
    fn left(&self, owner: &Uid, released: &BTreeSet<Uid>) -> Vec<Dependent> {
        let mut all = self.0.collection.graph.lock().dependents(owner);
        all.retain(|dependent| !released.contains(&dependent.identity.uid));
        all
    }

    async fn release(&self, dependent: Dependent, owner: &Uid) -> Result<Uid, Error> {
        let kind = &dependent.kind;
        let resource = self.0.monitors.resource(kind);
        let resource = resource.ok_or_else(|| Error::Unserved(format!("{} of {}", kind.kind, kind.api_version)))?;
        let place = Place { resource, identity: dependent.identity };
        match self.0.act().release(&place, std::slice::from_ref(owner)).await {
            Ok(()) | Err(NotReleased::Gone) => Ok(place.identity.uid),
            Err(NotReleased::Failed(error)) => Err(error),
        }
    }
}

impl Controller for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Orphaning;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &ObjectKey, _now: Timestamp) -> Result<Observed<Orphaning>, Error> {
        let view = self.0.collection.graph.lock().view(&key.0);
        let orphaning = |view| Orphaning { view, coming: self.0.monitors.coming() };
        Ok(view.map_or(Observed::Gone, |view| Observed::Ready(orphaning(view))))
    }

    fn decide(orphaning: &Orphaning) -> Plan {
        decide(orphaning)
    }

    async fn act(&self, orphaning: Orphaning, plan: Plan) -> Result<Requeue, Error> {
        let key = ObjectKey(orphaning.view.identity.uid.clone());
        self.0.collection.parked.leave(Line::Orphan, &key);
        match plan {
            Plan::Nothing => return Ok(Requeue::No),
            Plan::Wait(_) => {
                self.0.monitors.park(Line::Orphan, key, Awaited::Everything);
                return Ok(Requeue::No);
            }
            Plan::Release(_) => {}
        }
        let owner = &orphaning.view.identity.uid;
        let mut released = BTreeSet::new();
        loop {
            // Some may have come while others were released.
            let left = self.left(owner, &released);
            if left.is_empty() {
                break;
            }
            let mut releases = stream::iter(left).map(|d| self.release(d, owner)).buffer_unordered(AT_ONCE);
            let mut failed = None;
            while let Some(result) = releases.next().await {
                match result {
                    Ok(uid) => {
                        released.insert(uid);
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        let place = self.0.place(&orphaning.view)?;
        self.0.act().remove_finalizer(&place, ORPHAN).await?;
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.0.monitors]
    }
}
