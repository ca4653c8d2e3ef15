//! Writing the status.

use common::io::{Failed, Refusal, Request};
use serde_json::json;

use super::{note::Io, refusals::refused};
use crate::{
    objects::{DAEMON_SETS, DaemonSet},
    plan::Plan,
};

/// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
///
/// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`, which after a failure writes the same status onto the newer set, also
/// if that is another set of the same name. Here the conflict fails the sync, and the next one computes the status of the newer
/// set, which it waits for.
pub(super) async fn write_status(plan: &Plan, io: Io<'_>) -> Result<(), Failed> {
    if !plan.writes_status() {
        return Ok(());
    }
    let body = io.body(|| json!({"status": plan.status}));
    match io.send(Request::status(DAEMON_SETS, &plan.set.metadata, body)).await {
        Err(refusal) if !refusal.error.is_not_found() => Err(status_failed(&plan.set, &refusal)),
        _ => Ok(()),
    }
}

/// The failure of a sync whose status was refused.
pub(super) fn status_failed(set: &DaemonSet, refusal: &Refusal) -> Failed {
    refused(&format!("error storing status for daemon set {}", set.metadata.key()), refusal)
}
