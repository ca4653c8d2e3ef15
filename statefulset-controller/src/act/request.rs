//! What the requests of a sync have in common.

use common::io::{Class, Failed, Refusal, Retry, Role};

use crate::snapshot::Snapshot;

/// Writes whose names are known in advance are awaited by their versions: no answer that is lost hides a child.
pub(super) fn role(snapshot: &Snapshot) -> Role {
    if snapshot.limits.reads_own_writes { Role::Awaited } else { Role::Other }
}

/// A refused request. In a namespace that terminates nothing can be created any more, and every deletion enqueues the set.
pub(super) fn refused(what: &str, refusal: &Refusal) -> Failed {
    retried(Failed::request(what, refusal), Some(refusal.class))
}

/// The same for a failure after a refusal of that class.
pub(super) fn retried(failed: Failed, class: Option<Class>) -> Failed {
    if class == Some(Class::NamespaceTerminating) { failed.with_retry(Retry::Forget) } else { failed }
}
