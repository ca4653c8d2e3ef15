//! Why a sync fails.

use common::{
    api, claim,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The set, or one of its Pods or revisions, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Pods could not be adopted or released.
    #[error("cannot claim Pods: {0}")]
    Pods(#[source] claim::Error),
    /// Revisions could not be adopted or released.
    #[error("failed to construct revisions of DaemonSet: {0}")]
    Revisions(#[source] claim::Error),
    /// A revision was gone, or had another controller, before it could be written.
    #[error("failed to construct revisions of DaemonSet: ControllerRevision {0} is gone or has another controller")]
    Gone(String),
    /// The revision of the template is stored with another hash than the plan was made with. The next sync uses that hash.
    #[error(
        "failed to construct revisions of DaemonSet: the revision is stored with hash {stored} instead of {planned}"
    )]
    OtherHash {
        /// The hash of the plan.
        planned: String,
        /// The hash of the stored revision.
        stored: String,
    },
    /// The name of a new revision is taken by a revision of another template. The next name is tried with the next sync.
    #[error("failed to construct revisions of DaemonSet: {0}")]
    Collision(#[source] api::Error),
    /// The status in the cache does not have the number of collisions that the server has.
    #[error(
        "found a stale collision count ({cached:?}, expected {live:?}) of DaemonSet {name:?} while processing; will retry until it is updated"
    )]
    StaleCollisions {
        /// The name of the set.
        name: String,
        /// As the cache has it.
        cached: Option<i32>,
        /// As the server has it.
        live: Option<i32>,
    },
    /// A request failed.
    #[error("{what}: {source}")]
    Request {
        /// What it was to do.
        what: String,
        /// Why it failed.
        source: api::Error,
    },
    /// Something could not be made from what the set holds.
    #[error("cannot make {0}")]
    Template(String),
}

impl Error {
    pub(crate) fn request(what: impl Into<String>, source: impl Into<api::Error>) -> Self {
        Self::Request { what: what.into(), source: source.into() }
    }

    pub(crate) fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Unreadable(_)
            | Self::Gone(_)
            | Self::OtherHash { .. }
            | Self::StaleCollisions { .. }
            | Self::Template(_) => None,
            Self::Pods(error) | Self::Revisions(error) => error.api(),
            Self::Collision(source) | Self::Request { source, .. } => Some(source),
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
            Self::Gone(_) => "gone",
            Self::OtherHash { .. } => "other_hash",
            Self::Collision(_) | Self::StaleCollisions { .. } => "collision",
            Self::Pods(error) | Self::Revisions(error) => error.label(),
            Self::Request { source, .. } => source.label(),
        }
    }
}
