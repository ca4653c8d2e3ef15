//! Roles of a sync's requests, and failures of refused requests.

use common::io::{ObjectRole, Refusal, RefusalClass, RetryPolicy, SyncError};

use crate::snapshot::Snapshot;

/// Returns the role of all writes. With `StaleControllerConsistencyStatefulSet`, the next sync waits for the new versions.
///
/// Names of Pods and claims are known in advance, so a lost answer cannot hide a new object.
pub(super) fn write_role(snapshot: &Snapshot) -> ObjectRole {
    if snapshot.features.awaits_own_writes { ObjectRole::AwaitedObject } else { ObjectRole::UntrackedObject }
}

/// Returns the failure of a refused request. In a terminating namespace, the failure is not retried.
pub(super) fn request_failure(what: &str, refusal: &Refusal) -> SyncError {
    with_retry_policy(SyncError::from_refusal(what, refusal), Some(refusal.class))
}

/// Disables the retry of a failure in a terminating namespace.
///
/// No object can be created there, and every deletion enqueues the set.
pub(super) fn with_retry_policy(failed: SyncError, class: Option<RefusalClass>) -> SyncError {
    if class == Some(RefusalClass::NamespaceTerminating) {
        failed.with_retry_policy(RetryPolicy::NextEvent)
    } else {
        failed
    }
}
