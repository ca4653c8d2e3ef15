//! Why a sync fails.

use common::{
    api, claim,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The set, or something of its, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Pods could not be adopted or released.
    #[error("cannot claim Pods: {0}")]
    Pods(#[source] claim::Error),
    /// Revisions could not be adopted.
    #[error("can't adopt ControllerRevisions: {0}")]
    Revisions(#[source] claim::Error),
    /// A revision was gone before it could be adopted.
    #[error("can't adopt ControllerRevisions: {0} is gone")]
    Gone(String),
    /// Claims that a Pod needs could not be created, or are terminating.
    #[error("{0}")]
    Claims(String, #[source] Option<api::Error>),
    /// The owner references of a claim could not be written.
    #[error("could not update claim {claim} for delete policy ownerRefs: {source}")]
    Owners {
        /// The name of the claim.
        claim: String,
        /// The server's answer.
        source: api::Error,
    },
    /// A request failed.
    #[error("cannot {what}: {source}")]
    Request {
        /// What it was to do.
        what: String,
        /// Why it failed.
        source: api::Error,
    },
    /// Something could not be made from what the set or a revision holds.
    #[error("cannot make {0}")]
    Template(String),
}

impl Error {
    pub(crate) fn request(what: impl Into<String>, source: impl Into<api::Error>) -> Self {
        Self::Request { what: what.into(), source: source.into() }
    }

    pub(crate) fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Unreadable(_) | Self::Gone(_) | Self::Template(_) => None,
            Self::Pods(error) | Self::Revisions(error) => error.api(),
            Self::Claims(_, error) => error.as_ref(),
            Self::Owners { source, .. } | Self::Request { source, .. } => Some(source),
        }
    }

    /// Whether it failed only because this process no longer leads.
    pub fn is_not_leader(&self) -> bool {
        matches!(self.api(), Some(api::Error::NotLeader))
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self.api() {
            Some(api::Error::NotLeader) => Retry::Stop,
            // Nothing can be created there any more, and every deletion enqueues the set.
            Some(error) if error.is_namespace_terminating() => Retry::Forget,
            _ => Retry::Backoff,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Template(_) => "template",
            Self::Pods(error) | Self::Revisions(error) => error.label(),
            _ => self.api().map_or("gone", api::Error::label),
        }
    }
}
