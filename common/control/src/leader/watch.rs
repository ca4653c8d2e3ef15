//! A watch of the Lease, which spares a standby from polling it, and lets an idle leader notice a standby at once.
//!
//! Without the permission to watch, or while the watch fails, a candidate polls the Lease, and a leader renews it as often as a
//! candidate polls.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    ElectionSettings, LEASES,
    lease::{LeaseObject, decode_lease},
};
use crate::{
    api::{Api, Error, MAX_RETRY_AFTER},
    clock::{Clock, Instant},
};

/// Duration of one watch in the request, before jitter.
const WATCH_DURATION: Duration = Duration::from_mins(30);
/// Pause after a failed watch, before jitter.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Pause after a watch that ended normally, before jitter.
const PAUSE_AFTER_WATCH: Duration = Duration::from_secs(1);

/// The task that watches the Lease. Dropping this value ends the task.
pub(super) struct LeaseWatch {
    observations: Arc<LeaseObservations>,
    _task: JoinSet<()>,
}

/// The latest observation of the watch.
#[derive(Clone, Debug)]
pub(super) enum LeaseEvent {
    /// The Lease with which a watch began: its state at some time after the watch was requested.
    Opened { lease: LeaseObject, requested_at: Instant, seen_at: Instant },
    /// The changed Lease, and when the watch delivered it.
    Changed(LeaseObject, Instant),
    /// The Lease does not exist any more.
    Deleted,
}

#[derive(Default)]
struct LeaseObservations {
    state: Mutex<WatchState>,
    /// Is notified of each event, and when the watch fails.
    changed: Notify,
}

#[derive(Default)]
struct WatchState {
    /// The last event that the election has not processed yet.
    event: Option<LeaseEvent>,
    /// The time at which the deleted Lease expires; `None` unless the Lease was deleted while a candidate held it.
    deleted_lease_expires_at: Option<Instant>,
    /// Whether the watch delivers each change of the Lease.
    is_connected: bool,
}

impl LeaseWatch {
    pub(super) fn new(api: &Api, settings: &ElectionSettings) -> Self {
        let observations = Arc::new(LeaseObservations::default());
        let mut task = JoinSet::new();
        task.spawn(watch_lease(api.clone(), settings.clone(), Arc::clone(&observations)));
        Self { observations, _task: task }
    }

    /// Waits for an event or a failure since the last wait. Cancel safe.
    pub(super) async fn changed(&self) {
        self.observations.changed.notified().await;
    }

    /// Whether the watch delivers each change of the Lease. If not, the Lease has to be polled.
    pub(super) fn is_connected(&self) -> bool {
        self.observations.state.lock().is_connected
    }

    /// Returns the last event; `None` if there was none since the last call.
    pub(super) fn take_event(&self) -> Option<LeaseEvent> {
        self.observations.state.lock().event.take()
    }

    /// Returns the time at which the deleted Lease expires; `None` unless the Lease was deleted while a candidate held it.
    pub(super) fn deleted_lease_expires_at(&self) -> Option<Instant> {
        self.observations.state.lock().deleted_lease_expires_at
    }
}

impl LeaseObservations {
    fn set_connected(&self, is_connected: bool) {
        let was_connected = std::mem::replace(&mut self.state.lock().is_connected, is_connected);
        if was_connected != is_connected {
            self.changed.notify_one();
        }
    }
}

async fn watch_lease(api: Api, settings: ElectionSettings, observations: Arc<LeaseObservations>) {
    let clock: Clock = api.clock().clone();
    loop {
        let pause = match watch_lease_once(&api, &settings, &observations).await {
            Ok(()) => PAUSE_AFTER_WATCH,
            Err(error) => {
                tracing::debug!(err = %error, "Cannot watch the lease, polling it");
                observations.set_connected(false);
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
) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let requested_at = api.clock().monotonic_now();
    let timeout = api.clock().jitter(WATCH_DURATION, 1.0).as_secs();
    // Without a `resourceVersion` the watch begins with the current Lease.
    let query = format!("watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={timeout}", settings.name);
    let opening = async { api.watch(&LEASES, &settings.namespace, &query, "application/json").await };
    let opened = tokio::time::timeout(settings.request_timeout(), opening).await;
    let mut lines = opened.unwrap_or_else(|_| Err(Error::Unsent("the watch was not opened in time".to_owned())))?;
    observations.set_connected(true);
    let mut is_first = true;
    while let Some(line) = lines.next_frame().await? {
        let event: Event<'_> = serde_json::from_slice(&line)?;
        let failed = |problem: String| Error::OutcomeUnknown(format!("the watch failed: {problem}"));
        let lease = match event.kind {
            "ADDED" | "MODIFIED" | "DELETED" => decode_lease(event.object.get().as_bytes()).map_err(failed)?,
            "ERROR" => return Err(failed(event.object.get().to_owned())),
            _ => continue,
        };
        let now = api.clock().monotonic_now();
        let mut state = observations.state.lock();
        if event.kind == "DELETED" {
            // No standby could wait for the end of a long Lease, so its leader writes no longer than that of a short one.
            let is_long = lease.standby_duration_seconds().is_some();
            let stated = if is_long { Duration::ZERO } else { lease.record.stated_duration() };
            let duration = stated.max(settings.lease_duration);
            state.deleted_lease_expires_at = lease.record.is_led().then(|| now + duration);
            state.event = Some(LeaseEvent::Deleted);
        } else if is_first {
            state.event = Some(LeaseEvent::Opened { lease, requested_at, seen_at: now });
        } else {
            state.event = Some(LeaseEvent::Changed(lease, now));
        }
        drop(state);
        is_first = false;
        observations.changed.notify_one();
    }
    Ok(())
}
