//! The outcome of a sync, and the time at which its key comes back.

use std::{sync::Arc, time::Duration};

use super::request::{Refusal, RefusalClass};
use crate::{api, gate::WithheldWrite, object::CachedObjectError};

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
    /// The key does not come back, because this process does not lead.
    Never,
}

/// The class of a sync's error, which is its label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncErrorClass {
    /// A request was refused or not answered. The label is that of the request's error.
    Request(&'static str),
    /// An error in this program.
    Bug,
    /// An object changes before each attempt to write it.
    Changing,
    /// A name is taken by another object.
    Collision,
    /// An object has changed since the snapshot.
    Conflict,
    /// An object no longer exists.
    Gone,
    /// A request with this content would be invalid.
    Malformed,
    /// A field is missing that the name of an object depends on.
    Name,
    /// The status does not contain the finish time.
    NoFinishTime,
    /// The node does not exist.
    NodeNotFound,
    /// The owner is terminating or has been replaced, so that nothing is adopted.
    NotOurs,
    /// A stored revision has another hash.
    OtherHash,
    /// Nothing can be decided for the object.
    Plan,
    /// Objects exist that should have been deleted.
    Remaining,
    /// An owner reference crosses namespaces.
    Scope,
    /// The template of the object cannot be used.
    Template,
    /// A cached object cannot be decoded.
    Unreadable,
    /// The server does not serve a kind.
    Unserved,
}

impl SyncErrorClass {
    /// Returns the label in metrics, such as `template`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request(label) => label,
            Self::Bug => "bug",
            Self::Changing => "changing",
            Self::Collision => "collision",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Malformed => "malformed",
            Self::Name => "name",
            Self::NoFinishTime => "no_finish_time",
            Self::NodeNotFound => "node_not_found",
            Self::NotOurs => "not_ours",
            Self::OtherHash => "other_hash",
            Self::Plan => "plan",
            Self::Remaining => "remaining",
            Self::Scope => "scope",
            Self::Template => "template",
            Self::Unreadable => "unreadable",
            Self::Unserved => "unserved",
        }
    }
}

/// The error of a sync, with its class and the treatment of the key.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SyncError {
    text: String,
    class: SyncErrorClass,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    is_denied: bool,
    pub(crate) retry_policy: RetryPolicy,
}

impl SyncError {
    /// Creates an error for a cause other than a refused request.
    pub fn new(class: SyncErrorClass, text: impl Into<String>) -> Self {
        Self { text: text.into(), class, source: None, is_denied: false, retry_policy: RetryPolicy::Backoff }
    }

    /// Creates a failure from a refused request. `what` describes the operation; empty if the server's message is sufficient.
    pub fn from_refusal(what: &str, Refusal { class, error }: &Refusal) -> Self {
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = *class == RefusalClass::NotWritten && error.is_denied();
        Self {
            source: Some(Arc::<api::Error>::clone(error)),
            is_denied,
            ..Self::new(SyncErrorClass::Request(error.metric_label()), text)
        }
    }

    /// Creates a failure from a refused request, as [`Self::from_refusal`]. In a terminating namespace, the sync is not retried,
    /// because no object can be created there, and each deletion enqueues the owner.
    pub fn from_refusal_in_namespace(what: &str, refusal: &Refusal) -> Self {
        let error = Self::from_refusal(what, refusal);
        let is_terminating = refusal.class == RefusalClass::NamespaceTerminating;
        if is_terminating { error.with_retry_policy(RetryPolicy::NextEvent) } else { error }
    }

    /// Prefixes the text with a description of the failed operation.
    #[must_use]
    pub fn with_context(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> SyncErrorClass {
        self.class
    }

    /// Whether the server, a policy or a webhook denies the request. A retry then succeeds only after a permission or a policy
    /// has changed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Sets the treatment of the key after this error; by default a retry after the back-off.
    #[must_use]
    pub fn with_retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self { retry_policy, ..self }
    }

    /// Creates the error for a sync that ended because a write was withheld.
    pub(super) fn withheld(withheld: WithheldWrite) -> Self {
        let retry_policy = match withheld {
            WithheldWrite::NotLeader => RetryPolicy::Never,
            WithheldWrite::OldDecision => RetryPolicy::Backoff,
        };
        Self::from_refusal("", &api::Error::Withheld(withheld).into()).with_retry_policy(retry_policy)
    }
}

impl From<CachedObjectError> for SyncError {
    fn from(error: CachedObjectError) -> Self {
        let text = error.to_string();
        Self { source: Some(Arc::new(error)), ..Self::new(SyncErrorClass::Unreadable, text) }
    }
}
