//! The outcome of a sync, and the time at which its key comes back.

use std::time::Duration;

use super::request::{Class, Refusal};
use crate::{api, object::Unreadable};

/// The time at which a key comes back after a successful sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When the plan is due, or with the next event.
    AsPlanned,
    /// After this delay, which replaces the delay of the plan.
    After(Duration),
    /// After the back-off of a failure, or when the plan is due if that is earlier.
    RateLimited,
    /// At once after the first conflict in a row, otherwise after the back-off: a write was refused because its object has
    /// changed, and the cache is about to show the change.
    ///
    /// The back-off protects a server that answers every write with a conflict.
    Conflict,
    /// After this delay, without resetting the failures in a row: the sync did only a part of its work, and waits because of an
    /// earlier failure.
    Unfinished(Duration),
}

/// The treatment of a key after a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The key comes back after its back-off.
    Backoff,
    /// The key comes back with the next event only, or when its plan is due.
    Forget,
    /// The key does not come back, because this process may no longer write.
    Stop,
}

/// The failure of a sync.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    text: String,
    label: &'static str,
    is_denied: bool,
    pub(crate) retry: Retry,
}

impl Failed {
    /// Creates a failure other than a refused request. `label` is its name in metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), label, is_denied: false, retry: Retry::Backoff }
    }

    /// Creates a failure from a refused request. `what` describes the operation; empty if the server's message is sufficient.
    pub fn request(what: &str, refusal: &Refusal) -> Self {
        let error = &refusal.error;
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = refusal.class == Class::Refused && error.is_denied();
        Self { text, label: error.label(), is_denied, retry: Retry::Backoff }
    }

    /// Puts a description of the operation before the text.
    #[must_use]
    pub fn while_doing(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// Returns the name for metrics, one of a small number.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Whether the server, a policy or a webhook denies the request, so that a retry succeeds only after a right or a
    /// policy has changed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Sets the treatment of the key.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Creates the failure of a process that may no longer write.
    pub(super) fn stopped() -> Self {
        let error = api::Error::NotLeader;
        Self { text: error.to_string(), label: error.label(), is_denied: false, retry: Retry::Stop }
    }
}

/// Converts an object in the cache that cannot be decoded.
impl From<Unreadable> for Failed {
    fn from(error: Unreadable) -> Self {
        Self::new("unreadable", error.to_string())
    }
}
