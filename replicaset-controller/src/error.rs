//! Why a sync fails.

use common::{
    api, claim,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The set, or one of its Pods, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Pods could not be adopted or released.
    #[error("cannot claim Pods: {0}")]
    Claim(#[from] claim::Error),
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

impl Error {
    fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Create(e) | Self::Delete(e) | Self::Status(e) => Some(e),
            Self::Claim(error) => error.api(),
            Self::Unreadable(_) | Self::Template(_) => None,
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
            _ => self.api().map_or("other", api::Error::label),
        }
    }
}
