//! The outcome of a sync, and the time at which its key comes back.

use std::time::Duration;

use super::request::{Refusal, RefusalClass};
use crate::{api, object::CachedObjectError};

/// The time at which a key comes back after a successful sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// After the delay of the plan. If the plan has no delay, only with the next event.
    AfterPlannedDelay,
    /// After this delay, which replaces the delay of the plan.
    After(Duration),
    /// After the same back-off as a failure, or after the delay of the plan if that is shorter.
    AfterBackoff,
    /// At once after a first conflict, and after a back-off for each further conflict in a row. A conflict means that an object
    /// has changed since the snapshot; the cache is about to show the change.
    ///
    /// The back-off protects a server that answers every write with a conflict.
    Conflict,
    /// The key comes back after this delay, and its failures stay counted. For a sync that did only a part of its work because
    /// an earlier failure still delays the rest.
    AfterPartialWork(Duration),
}

/// The treatment of a key after a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// The key comes back after its back-off.
    Backoff,
    /// The key is not retried. The next event, or the delay of its plan, brings the key back.
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
    pub(crate) retry_policy: RetryPolicy,
}

impl SyncError {
    /// Creates an error for a cause other than a refused request. `label` is the class of the error in metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), label, is_denied: false, retry_policy: RetryPolicy::Backoff }
    }

    /// Creates a failure from a refused request. `what` describes the operation; empty if the server's message is sufficient.
    pub fn from_refusal(what: &str, refusal: &Refusal) -> Self {
        let error = &refusal.error;
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = refusal.class == RefusalClass::NotWritten && error.is_denied();
        Self { text, label: error.metric_label(), is_denied, retry_policy: RetryPolicy::Backoff }
    }

    /// Prefixes the text with a description of the failed operation.
    #[must_use]
    pub fn with_context(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// Returns the class of the error for metrics. The set of classes is small and fixed.
    pub fn metric_label(&self) -> &'static str {
        self.label
    }

    /// Whether the server, a policy or a webhook denies the request. A retry then succeeds only after a permission or a policy
    /// has changed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Sets the treatment of the key after this error; by default a retry after the back-off.
    #[must_use]
    pub fn with_retry_policy(self, retry: RetryPolicy) -> Self {
        Self { retry_policy: retry, ..self }
    }

    /// Creates the error for a sync that ended because this process may no longer write.
    pub(super) fn not_leader() -> Self {
        let error = api::Error::NotLeader;
        Self {
            text: error.to_string(),
            label: error.metric_label(),
            is_denied: false,
            retry_policy: RetryPolicy::Never,
        }
    }
}

impl From<CachedObjectError> for SyncError {
    fn from(error: CachedObjectError) -> Self {
        Self::new("unreadable", error.to_string())
    }
}
