//! A watch that notices at once when the Lease is released, or when a standby asks for it.
//!
//! A released Lease has an empty holder, or does not exist. Other events are ignored, because attempts read the Lease to decide
//! whether it has expired, and whether a standby may have it. Without the permission to watch, a candidate polls the Lease.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Notify, task::JoinSet};

use super::{ElectionSettings, HAND_OVER_HOLDER_IDENTITY, LEASES, probation};
use crate::{
    api::{Api, Error, MAX_RETRY_AFTER},
    clock::{Clock, Instant},
};

/// Duration of one watch in the request, before jitter.
const WATCH_DURATION: Duration = Duration::from_mins(5);
/// Pause after a failed watch, before jitter.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Pause after a watch that ended normally, before jitter.
const PAUSE_AFTER_WATCH: Duration = Duration::from_secs(1);

/// The task that watches the Lease. Dropping this value ends the task.
pub(super) struct LeaseWatch {
    pub(super) observations: Arc<LeaseObservations>,
    _task: JoinSet<()>,
}

/// Observations of the watch that the election has not processed yet.
#[derive(Default)]
pub(super) struct LeaseObservations {
    /// The time at which the deleted Lease expires; `None` unless the Lease was deleted while a candidate held it.
    pub(super) deleted_lease_expires_at: Mutex<Option<Instant>>,
    /// Is notified when the Lease becomes available.
    pub(super) lease_available_notify: Notify,
    /// Is notified when a standby asks for the Lease.
    pub(super) standby_asked_notify: Notify,
}

impl LeaseWatch {
    pub(super) fn new(api: &Api, settings: &ElectionSettings) -> Self {
        let seen = Arc::new(LeaseObservations::default());
        let mut task = JoinSet::new();
        task.spawn(watch_lease(api.clone(), settings.clone(), Arc::clone(&seen)));
        Self { observations: seen, _task: task }
    }
}

async fn watch_lease(api: Api, settings: ElectionSettings, observations: Arc<LeaseObservations>) {
    let clock: Clock = api.clock().clone();
    // Whether the Lease was available at the last event. Only a change to available is reported.
    let mut free = None;
    loop {
        let pause = match watch_lease_once(&api, &settings, &observations, &mut free).await {
            Ok(()) => PAUSE_AFTER_WATCH,
            Err(error) => {
                tracing::debug!(err = %error, "Cannot watch the lease, polling it");
                // A server may request a longer pause (`Retry-After`). Polling continues meanwhile.
                error.retry_after().unwrap_or_default().clamp(PAUSE_AFTER_FAILURE, MAX_RETRY_AFTER)
            }
        };
        clock.sleep(clock.jitter(pause, 1.0)).await;
    }
}

async fn watch_lease_once(
    api: &Api,
    settings: &ElectionSettings,
    observations: &LeaseObservations,
    free: &mut Option<bool>,
) -> Result<(), Error> {
    let timeout = api.clock().jitter(WATCH_DURATION, 1.0).as_secs();
    // Without a `resourceVersion` the watch begins with the current Lease.
    let query = format!("watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={timeout}", settings.name);
    let mut lines = api.watch(&LEASES, &settings.namespace, &query, "application/json").await?;
    while let Some(line) = lines.next_frame().await? {
        let event: Value = serde_json::from_slice(&line)?;
        let spec = &event["object"]["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let now_free = match event["type"].as_str() {
            Some("DELETED") => {
                let is_led = !holder.is_empty() && holder != HAND_OVER_HOLDER_IDENTITY;
                let stated = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or_default());
                let duration = stated.max(settings.lease_duration);
                *observations.deleted_lease_expires_at.lock() = is_led.then(|| api.clock().monotonic_now() + duration);
                !is_led
            }
            Some("ADDED" | "MODIFIED") => holder.is_empty(),
            Some("ERROR") => {
                return Err(Error::OutcomeUnknown(format!("the watch failed: {}", event["object"]["message"])));
            }
            _ => continue,
        };
        if now_free && *free != Some(true) {
            observations.lease_available_notify.notify_one();
        }
        if event["object"]["metadata"]["annotations"][probation::REQUESTING_STANDBY_ANNOTATION].is_string() {
            observations.standby_asked_notify.notify_one();
        }
        *free = Some(now_free);
    }
    Ok(())
}
