//! Why a sync fails.

use std::fmt;

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
    /// The Job could not be read live before Pods were adopted, so none was.
    #[error("cannot adopt Pods: can't recheck DeletionTimestamp: {0}")]
    Recheck(#[source] api::Error),
    /// Read live before Pods were adopted, the Job turned out to be another one or to be going away.
    #[error("cannot adopt Pods: can't recheck DeletionTimestamp: {0}")]
    NotOurs(String),
    /// Pods could not be adopted or released.
    #[error("{0}")]
    Claim(ClaimErrors),
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

/// What went wrong with each Pod that was to be adopted or released.
#[derive(Debug)]
pub struct ClaimErrors(pub Vec<(String, api::Error)>);

impl fmt::Display for ClaimErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (what, error)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}cannot {what}: {error}")?;
        }
        Ok(())
    }
}

impl Error {
    fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Recheck(e)
            | Self::Gang(_, e)
            | Self::Create(e)
            | Self::Delete(e)
            | Self::Name(e)
            | Self::Finalizer(_, e)
            | Self::Count(e)
            | Self::Orphan(_, e)
            | Self::Live(e)
            | Self::Remove(e) => Some(e),
            Self::Claim(ClaimErrors(list)) => list.first().map(|(_, e)| e),
            Self::Unreadable(_) | Self::NotOurs(_) | Self::Template(_) | Self::NoFinishTime(_) => None,
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
            Self::NotOurs(_) => "not_ours",
            Self::Template(_) => "template",
            Self::NoFinishTime(_) => "no_finish_time",
            _ => self.api().map_or("claim", api::Error::label),
        }
    }
}
