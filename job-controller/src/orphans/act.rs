//! Removes the finalizers from the Pods of a plan.

use std::convert::Infallible;

use common::io::{self, Class, Failed, Pace, Requeue};

use super::plan::Plan;
use crate::{jobs::snapshot::PodRef, untrack::untrack};

/// A type without values, because a sync of this loop changes no memory.
pub(super) type Note = Infallible;

/// Removes the finalizer from every Pod of the plan. Tries all Pods before it returns the first failure.
pub(super) async fn act(plan: &Plan, io: io::Io<'_, Note>) -> Result<Requeue, Failed> {
    let send = |pod: &PodRef| io.send(untrack(pod, "no Job counts it any more", io));
    let untracked = io.all(Pace::AtOnce, &plan.pods, send).await;
    for (pod, untracked) in plan.pods.iter().zip(untracked) {
        if let Err(refusal) = untracked
            && refusal.class != Class::Gone
        {
            let doing = format!("removing the finalizer of orphaned pod {}", pod.meta().key());
            return Err(Failed::request(&doing, &refusal));
        }
    }
    Ok(Requeue::AsPlanned)
}
