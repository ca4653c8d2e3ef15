//! Sends the patches of a plan.

use std::convert::Infallible;

use common::io::{self, Class, Failed, Pace, Requeue};

use super::plan::Plan;
use crate::{jobs::snapshot::PodRef, untrack::untrack};

/// No note exists, because a sync changes no memory.
pub(super) type Note = Infallible;

/// Removes the finalizer from every Pod. All Pods are tried before the first failure is returned.
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
