//! Roles of a sync's requests, and failures of refused requests.

use common::io::{Class, Failed, Refusal, Retry, Role};

use crate::snapshot::Snapshot;

/// Returns the role of all writes. With `StaleControllerConsistencyStatefulSet`, the next sync waits for the new versions.
///
/// Names of Pods and claims are known in advance, so a lost answer cannot hide a new object.
pub(super) fn role(snapshot: &Snapshot) -> Role {
    if snapshot.limits.reads_own_writes { Role::Awaited } else { Role::Other }
}

/// Returns the failure of a refused request. In a terminating namespace, the failure is not retried.
pub(super) fn refused(what: &str, refusal: &Refusal) -> Failed {
    retried(Failed::request(what, refusal), Some(refusal.class))
}

/// Disables the retry of a failure in a terminating namespace.
///
/// No object can be created there, and every deletion enqueues the set.
pub(super) fn retried(failed: Failed, class: Option<Class>) -> Failed {
    if class == Some(Class::NamespaceTerminating) { failed.with_retry(Retry::Forget) } else { failed }
}
