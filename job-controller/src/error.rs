//! Why a sync fails.

use common::{
    api,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Job, or one of its Pods, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The finalizer of a Pod that is no Job's any more could not be removed.
    #[error("removing the finalizer of orphaned pod {0}: {1}")]
    Orphan(String, #[source] api::Error),
    /// The Job to remove could not be read live.
    #[error("reading the finished Job: {0}")]
    Live(#[source] api::Error),
    /// The Job to remove has finished, and nobody wrote when.
    #[error("unable to find the time when the Job {0} finished")]
    NoFinishTime(String),
    /// The Job could not be removed.
    #[error("removing the finished Job: {0}")]
    Remove(#[source] api::Error),
}

impl Error {
    fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Orphan(_, e) | Self::Live(e) | Self::Remove(e) => Some(e),
            Self::Unreadable(_) | Self::NoFinishTime(_) => None,
        }
    }

    /// Whether it failed only because this process no longer leads.
    pub fn is_not_leader(&self) -> bool {
        matches!(self.api(), Some(api::Error::NotLeader))
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        if self.is_not_leader() { Retry::Stop } else { Retry::Backoff }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::NoFinishTime(_) => "no_finish_time",
            _ => self.api().map_or("other", api::Error::label),
        }
    }
}
