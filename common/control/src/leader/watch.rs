//! Notices at once that the Lease was released, or that a standby asks for it.
//!
//! A released Lease has an empty holder, or is gone. Nothing else a watch brings matters here: whether another's Lease has run
//! out is judged by reading it, as always, and so is whether a question is granted. Without the right to watch, polling does.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Notify, task::JoinSet};

use super::{HOLDER_OF_HOLDS, LEASES, Settings, probation};
use crate::{
    api::{Api, Error, MAX_RETRY_AFTER},
    clock::{Clock, Instant},
};

/// How long one watch is asked to last, before jitter.
const WATCH: Duration = Duration::from_mins(5);
/// Pause after a watch that failed, before jitter.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause between two watches that ended well.
const BREATH: Duration = Duration::from_secs(1);

/// Watches the Lease for as long as it lives.
pub(super) struct LeaseWatch {
    pub(super) seen: Arc<Seen>,
    _task: JoinSet<()>,
}

/// What was seen and not waited for yet.
#[derive(Default)]
pub(super) struct Seen {
    /// When the Lease would have expired that was seen to be deleted while somebody held it; nothing if none was.
    pub(super) deleted_until: Mutex<Option<Instant>>,
    /// The Lease is free.
    pub(super) release: Notify,
    /// A standby asks for the Lease.
    pub(super) question: Notify,
}

impl LeaseWatch {
    pub(super) fn new(api: &Api, settings: &Settings) -> Self {
        let seen = Arc::new(Seen::default());
        let mut task = JoinSet::new();
        task.spawn(watch(api.clone(), settings.clone(), Arc::clone(&seen)));
        Self { seen, _task: task }
    }
}

async fn watch(api: Api, settings: Settings, seen: Arc<Seen>) {
    let clock: Clock = api.clock().clone();
    // Whether the Lease was free when last looked at: only becoming free is news.
    let mut free = None;
    loop {
        let pause = match one_watch(&api, &settings, &seen, &mut free).await {
            Ok(()) => BREATH,
            Err(error) => {
                tracing::debug!(err = %error, "Cannot watch the lease, polling it");
                // A server that says when to come back is heeded: polling goes on meanwhile.
                error.retry_after().unwrap_or_default().clamp(PAUSE, MAX_RETRY_AFTER)
            }
        };
        clock.sleep(clock.jitter(pause, 1.0)).await;
    }
}

async fn one_watch(api: &Api, settings: &Settings, seen: &Seen, free: &mut Option<bool>) -> Result<(), Error> {
    let timeout = api.clock().jitter(WATCH, 1.0).as_secs();
    // Without a version the watch begins with the Lease as it is now.
    let query = format!("watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={timeout}", settings.name);
    let mut lines = api.watch(LEASES, &settings.namespace, &query, "application/json").await?;
    while let Some(line) = lines.next().await? {
        let event: Value = serde_json::from_slice(&line)?;
        let spec = &event["object"]["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let now_free = match event["type"].as_str() {
            Some("DELETED") => {
                let is_led = !holder.is_empty() && holder != HOLDER_OF_HOLDS;
                let duration = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or_default());
                *seen.deleted_until.lock() = is_led.then(|| api.clock().instant() + duration);
                !is_led
            }
            Some("ADDED" | "MODIFIED") => holder.is_empty(),
            Some("ERROR") => return Err(Error::Lost(format!("the watch failed: {}", event["object"]["message"]))),
            _ => continue,
        };
        if now_free && *free != Some(true) {
            seen.release.notify_one();
        }
        if event["object"]["metadata"]["annotations"][probation::ASKS].is_string() {
            seen.question.notify_one();
        }
        *free = Some(now_free);
    }
    Ok(())
}
