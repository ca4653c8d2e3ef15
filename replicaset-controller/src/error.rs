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
    /// The set, or one of its Pods, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The set could not be read live before Pods were adopted, so none was.
    #[error("cannot adopt Pods: {0}")]
    Recheck(#[source] api::Error),
    /// Read live before Pods were adopted, the set turned out to be another one or to be going away.
    #[error("cannot adopt Pods: {0}")]
    NotOurs(String),
    /// Pods could not be adopted or released.
    #[error("{0}")]
    Claim(ClaimErrors),
    /// A Pod could not be created. The text is the server's, as it appears in the condition.
    #[error("{0}")]
    Create(#[source] api::Error),
    /// The template makes no Pod that the set could call its own.
    #[error("unable to create pods, {0}")]
    Template(&'static str),
    /// A Pod could not be deleted.
    #[error("unable to delete pods: {0}")]
    Delete(#[source] api::Error),
    /// The status could not be written.
    #[error("cannot write the status: {0}")]
    Status(#[source] api::Error),
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
            Self::Recheck(e) | Self::Create(e) | Self::Delete(e) | Self::Status(e) => Some(e),
            Self::Claim(ClaimErrors(list)) => list.first().map(|(_, e)| e),
            Self::Unreadable(_) | Self::NotOurs(_) | Self::Template(_) => None,
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
            _ => self.api().map_or("claim", api::Error::label),
        }
    }
}
