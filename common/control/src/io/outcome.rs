//! How a sync ends, and when its key comes back.

use std::time::Duration;

use super::request::{Class, Refusal};
use crate::{api, object::Unreadable};

/// When a key comes back after a sync that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When its plan is due, or with the next event.
    AsPlanned,
    /// After this long, whatever the plan said.
    After(Duration),
    /// After its back-off, as after a failure, or when its plan is due.
    RateLimited,
    /// At once after the first conflict in a row, after its back-off after a further one: a write was refused because its object has
    /// changed, and the cache is about to show the change.
    ///
    /// A server that answers every write with a conflict would otherwise be asked for ever without back-off.
    Conflict,
    /// After this long, without forgetting the failures in a row: the sync did a part of its work only, and waits for something that
    /// failed before.
    Unfinished(Duration),
}

/// What becomes of a key after a sync that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It comes back after its back-off.
    Backoff,
    /// It comes back with the next event only.
    Forget,
    /// This process may no longer write: nothing comes back here.
    Stop,
}

/// Why a sync failed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    text: String,
    label: &'static str,
    is_denied: bool,
    pub(crate) retry: Retry,
}

impl Failed {
    /// A failure that is no answer of the server. `label` names it in metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), label, is_denied: false, retry: Retry::Backoff }
    }

    /// A refused request; `what` was being done, nothing if the server's message says enough.
    pub fn request(what: &str, refusal: &Refusal) -> Self {
        let error = &refusal.error;
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = refusal.class == Class::Refused && error.is_denied();
        Self { text, label: error.label(), is_denied, retry: Retry::Backoff }
    }

    /// The same with what was being done before the text.
    #[must_use]
    pub fn while_doing(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// The name for metrics, one of few.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Whether the server, a policy or a webhook denies the request for what it holds: a right or a policy has to change before it
    /// can succeed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// The same with another fate of the key.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// This process may not write any more.
    pub(super) fn stopped() -> Self {
        let error = api::Error::NotLeader;
        Self { text: error.to_string(), label: error.label(), is_denied: false, retry: Retry::Stop }
    }
}

/// An object in the cache that cannot be read.
impl From<Unreadable> for Failed {
    fn from(error: Unreadable) -> Self {
        Self::new("unreadable", error.to_string())
    }
}
