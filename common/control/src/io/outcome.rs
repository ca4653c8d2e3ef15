//! The outcome of a sync, and the time at which its key comes back.

use std::time::Duration;

use super::request::{Refusal, RefusalClass};
use crate::{api, object::UnreadableObject};

/// The time at which a key comes back after a successful sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// After the delay of the plan, or with the next event.
    AfterPlannedDelay,
    /// After this delay, which replaces the delay of the plan.
    After(Duration),
    /// After a back-off as after a failure, or after the delay of the plan if that is shorter.
    AfterBackoff,
    /// At once after the first conflict in a row, and after a back-off after each further one. A conflict means that an object
    /// has changed since the snapshot; the cache is about to show the change.
    ///
    /// The back-off protects a server that answers every write with a conflict.
    Conflict,
    /// After this delay, without resetting the count of failures: an earlier failure makes the sync wait, and only a part of
    /// its work is done.
    AfterPartialWork(Duration),
}

/// The treatment of a key after a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// The key comes back after its back-off.
    Backoff,
    /// The key comes back with the next event only, or when its plan is due.
    NextEvent,
    /// The key does not come back, because this process may no longer write.
    Never,
}

/// The error of a sync, with its metric label and the treatment of the key.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SyncError {
    text: String,
    label: &'static str,
    is_denied: bool,
    pub(crate) retry: RetryPolicy,
}

impl SyncError {
    /// Creates a failure other than a refused request. `label` is its name in metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), label, is_denied: false, retry: RetryPolicy::Backoff }
    }

    /// Creates a failure from a refused request. `what` describes the operation; empty if the server's message is sufficient.
    pub fn from_refusal(what: &str, refusal: &Refusal) -> Self {
        let error = &refusal.error;
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = refusal.class == RefusalClass::NotWritten && error.is_denied();
        Self { text, label: error.label(), is_denied, retry: RetryPolicy::Backoff }
    }

    /// Puts a description of the operation before the text.
    #[must_use]
    pub fn with_context(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// Returns the metric label of the failure, one of a small number.
    pub fn metric_label(&self) -> &'static str {
        self.label
    }

    /// Whether the server, a policy or a webhook denies the request. A retry then succeeds only after a permission or a policy
    /// has changed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Sets when the key comes back after this failure; after its back-off by default.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Creates the failure of a process that may no longer write.
    pub(super) fn not_leader() -> Self {
        let error = api::Error::NotLeader;
        Self { text: error.to_string(), label: error.label(), is_denied: false, retry: RetryPolicy::Never }
    }
}

/// Converts an object in the cache that cannot be decoded.
impl From<UnreadableObject> for SyncError {
    fn from(error: UnreadableObject) -> Self {
        Self::new("unreadable", error.to_string())
    }
}
