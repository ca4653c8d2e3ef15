//! The effects of refused requests on a sync.

use common::{
    events::EventType,
    io::{Refusal, RefusalClass, RetryPolicy, SyncError},
    meta::Meta,
};

use super::note::{Io, Note};
use crate::objects::DaemonSet;

/// Converts a refusal into the failure of the sync. `what` says which request failed, for example `cannot delete Pod web`.
///
/// In a terminating namespace, the sync is not retried, because no object can be created, and each deletion enqueues the
/// DaemonSet.
pub(super) fn sync_error_from_refusal(what: &str, refusal: &Refusal) -> SyncError {
    let failed = SyncError::from_refusal(what, refusal);
    if refusal.class == RefusalClass::NamespaceTerminating {
        failed.with_retry_policy(RetryPolicy::NextEvent)
    } else {
        failed
    }
}

/// Converts the refusal of a status write into the failure of the sync, with upstream's message.
pub(super) fn sync_error_from_status_refusal(set: &DaemonSet, refusal: &Refusal) -> SyncError {
    sync_error_from_refusal(&format!("error storing status for daemon set {}", set.metadata.key()), refusal)
}

/// Records an Event and a [`Note`] about a denied change of an object, so that the next syncs omit the change. `doing` names
/// the change, for example `release Pod`. Returns `None` if the refusal is not a denial.
pub(super) fn report_denied_change(
    io: Io<'_>,
    doing: &str,
    object: &Meta,
    note: fn(Box<Meta>) -> Note,
    refusal: &Refusal,
) -> Option<SyncError> {
    if !refusal.error.is_denied() {
        return None;
    }
    io.apply_memory_note(note(Box::new(object.clone())));
    let message = format!("cannot {doing} {}", object.name);
    let reason = if doing.starts_with("delete") { "FailedDelete" } else { "FailedUpdate" };
    io.record_event(EventType::Warning, reason, format!("Error: {message}: {}", refusal.error));
    Some(sync_error_from_refusal(&message, refusal))
}

/// Returns `false` only for a version conflict. Otherwise the server would probably refuse the same request again.
pub(super) fn is_likely_permanent(refusal: &Refusal) -> bool {
    refusal.class != RefusalClass::VersionConflict
}
