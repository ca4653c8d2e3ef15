//! Why a sync fails.

use common::{
    api,
    controller::{Failure, Retry},
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object, or one of its owners, could not be read live.
    #[error("reading {0}: {1}")]
    Read(String, #[source] api::Error),
    /// The object could not be deleted.
    #[error("deleting {0}: {1}")]
    Delete(String, #[source] api::Error),
    /// Owner references of the object could not be changed.
    #[error("changing the owner references of {0}: {1}")]
    Patch(String, #[source] api::Error),
    /// A finalizer of the object could not be removed.
    #[error("removing a finalizer of {0}: {1}")]
    Finalizer(String, #[source] api::Error),
    /// The object changes faster than it can be judged.
    #[error("{0} was changed each time it was to be written")]
    Changing(String),
    /// No resource of a kind is served.
    #[error("kind {0} is not served")]
    Unserved(String),
    /// The object is cluster-scoped and names a namespaced owner.
    #[error("{0} is cluster-scoped and names a namespaced owner")]
    Scope(String),
}

impl Error {
    fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Read(_, e) | Self::Delete(_, e) | Self::Patch(_, e) | Self::Finalizer(_, e) => Some(e),
            Self::Changing(_) | Self::Unserved(_) | Self::Scope(_) => None,
        }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Scope(_) => Retry::Forget,
            _ if matches!(self.api(), Some(api::Error::NotLeader)) => Retry::Stop,
            _ => Retry::Backoff,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Changing(_) => "changing",
            Self::Unserved(_) => "unserved",
            Self::Scope(_) => "scope",
            _ => self.api().map_or("other", api::Error::label),
        }
    }
}

/// Whether the server says that there is no object of that name.
///
/// A server that does not serve the path at all, because a definition was added or removed this moment, answers 404, too.
pub(crate) fn says_absent(error: &api::Error) -> bool {
    matches!(error, api::Error::Status(status)
        if status.reason == "NotFound" && !status.message.starts_with("the server could not find the requested resource"))
}
