//! Removes the finalizers from the Pods of a plan.

use std::convert::Infallible;

use common::io::{self, GroupConcurrency, RefusalClass, Requeue, SyncError};

use super::plan::Plan;
use crate::{jobs::snapshot::SharedPod, untrack::finalizer_removal_request};

/// A type without values, because a sync of this loop changes no memory.
pub(super) type Note = Infallible;

/// Removes the finalizer from every Pod of the plan. Tries all Pods before it returns the first failure.
pub(super) async fn act(plan: &Plan, io: io::Io<'_, Note>) -> Result<Requeue, SyncError> {
    let send = |pod: &SharedPod| io.send(finalizer_removal_request(pod, "no Job counts it any more", io));
    let untracked = io.run_group(GroupConcurrency::AllConcurrent, &plan.pods_to_remove_finalizer_from, send).await;
    for (pod, untracked) in plan.pods_to_remove_finalizer_from.iter().zip(untracked) {
        if let Err(refusal) = untracked
            && refusal.class != RefusalClass::NotFound
        {
            let doing = format!("removing the finalizer of orphaned pod {}", pod.meta().key());
            return Err(SyncError::from_refusal(&doing, &refusal));
        }
    }
    Ok(Requeue::AfterPlannedDelay)
}
