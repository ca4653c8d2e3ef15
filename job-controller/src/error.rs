//! Why a sync fails.

use common::{
    api, claim,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Job, or one of its Pods, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Pods could not be adopted or released.
    #[error("cannot claim Pods: {0}")]
    Claim(#[from] claim::Error),
    /// The Workload or the `PodGroup` of the Job's Pods could not be created.
    #[error("ensuring Workload and PodGroup for Job {0}: {1}")]
    Gang(String, #[source] api::Error),
    /// A Pod could not be created.
    #[error("{0}")]
    Create(#[source] api::Error),
    /// The template makes no Pod.
    #[error("unable to create pods, {0}")]
    Template(String),
    /// A Pod could not be deleted.
    #[error("unable to delete pods: {0}")]
    Delete(#[source] api::Error),
    /// The status that names terminated Pods could not be written.
    #[error("tracking status: adding uncounted pods to status: {0}")]
    Name(#[source] api::Error),
    /// The finalizer of a terminated Pod could not be removed.
    #[error("tracking status: removing the finalizer of pod {0}: {1}")]
    Finalizer(String, #[source] api::Error),
    /// The status that counts terminated Pods could not be written.
    #[error("tracking status: removing uncounted pods from status: {0}")]
    Count(#[source] api::Error),
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
            Self::Gang(_, e)
            | Self::Create(e)
            | Self::Delete(e)
            | Self::Name(e)
            | Self::Finalizer(_, e)
            | Self::Count(e)
            | Self::Orphan(_, e)
            | Self::Live(e)
            | Self::Remove(e) => Some(e),
            Self::Claim(error) => error.api(),
            Self::Unreadable(_) | Self::Template(_) | Self::NoFinishTime(_) => None,
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
            Self::Claim(error) => error.label(),
            Self::Template(_) => "template",
            Self::NoFinishTime(_) => "no_finish_time",
            _ => self.api().map_or("other", api::Error::label),
        }
    }
}
