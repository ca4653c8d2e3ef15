//! Writes the status of a quota.

use std::{collections::BTreeMap, time::Duration};

use common::prelude::*;
use serde_json::{Value, json};

use crate::{
    QuotaController,
    decide::{Plan, Snapshot},
    objects::{Limits, QUOTAS},
};

/// Delay after which a quota is counted again whose usage was lowered or written for the first time, because the caches may have
/// lacked objects that admission had just charged or did not charge yet.
const LOWERED_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Writes the planned status if it differs from the stored one. The sync fails if a kind cannot be counted.
pub(super) async fn act(
    Snapshot { quota, .. }: &Snapshot,
    plan: &Plan,
    io: Io<'_, QuotaController>,
) -> Result<Requeue, SyncError> {
    if plan.is_write_needed {
        let body = io.encode_body(|| {
            let (hard, used) = (patch(&quota.status.hard, &quota.hard), patch(&quota.status.used, &plan.used));
            json!({"status": {"hard": hard, "used": used}})
        });
        let why = if quota.hard == quota.status.hard { "the usage has changed" } else { "the limits have changed" };
        match io.send(Request::patch_status(QUOTAS, &quota.metadata, body).with_reason(why)).await {
            Ok(_) => {}
            Err(refusal) if refusal.is_not_found() => return Ok(Requeue::AfterPlannedDelay),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict => return Ok(Requeue::Conflict),
            Err(refusal) => return Err(SyncError::from_refusal("cannot write the status", &refusal)),
        }
    }
    match plan.failures.first() {
        Some(failure) => Err(SyncError::new(SyncErrorClass::Unreadable, failure.clone())),
        None if plan.is_write_needed && plan.is_recount_needed => Ok(Requeue::After(LOWERED_RECHECK_DELAY)),
        None => Ok(Requeue::AfterPlannedDelay),
    }
}

/// Returns the merge patch that turns a map into another one. It contains each value of the new map.
fn patch(old: &Limits, new: &Limits) -> BTreeMap<Text, Value> {
    let removed = old.keys().map(|name| (name.clone(), Value::Null));
    removed.chain(new.iter().map(|(name, limit)| (name.clone(), json!(limit.text)))).collect()
}
