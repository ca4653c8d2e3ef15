//! Why a sync fails.

use common::{
    api,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CronJob, or one of its Jobs, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A Job could not be deleted to make place for the next.
    #[error("could not replace job {0}: {1}")]
    Replace(String, #[source] api::Error),
    /// A request failed.
    #[error("cannot {what}: {source}")]
    Request {
        /// What it was to do.
        what: String,
        /// Why it failed.
        source: api::Error,
    },
}

impl Error {
    pub(crate) fn request(what: impl Into<String>, source: impl Into<api::Error>) -> Self {
        Self::Request { what: what.into(), source: source.into() }
    }

    fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Unreadable(_) => None,
            Self::Replace(_, source) | Self::Request { source, .. } => Some(source),
        }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self.api() {
            Some(api::Error::NotLeader) => Retry::Stop,
            Some(error) if error.is_namespace_terminating() => Retry::Forget,
            _ => Retry::Backoff,
        }
    }

    fn label(&self) -> &'static str {
        self.api().map_or("unreadable", api::Error::label)
    }
}
