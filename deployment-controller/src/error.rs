//! Why a sync fails.

use std::fmt;

use common::{
    api,
    controller::{Failure, Retry},
    object::Unreadable,
    selector::SelectorError,
};

use crate::decide::limits::LimitsError;

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Deployment, or one of its ReplicaSets, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The Deployment, or one of its ReplicaSets, says what no server should have accepted.
    #[error("{0}")]
    Invalid(String),
    /// The limits of its strategy make no sense.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// Its selector makes no sense.
    #[error("spec.{0}")]
    Selector(#[from] SelectorError),
    /// The plan ends in failure.
    #[error("{0}")]
    Plan(String),
    /// Read live before ReplicaSets were adopted, the Deployment turned out to be another one or to be going away.
    #[error("cannot adopt ReplicaSets: {0}")]
    NotOurs(String),
    /// An object has changed since it was looked at.
    #[error("cannot {0}: it has changed in the meantime")]
    Changed(String),
    /// A request failed.
    #[error("cannot {what}: {source}")]
    Request {
        /// What it was to do.
        what: String,
        /// Why it failed.
        source: api::Error,
    },
    /// Several things failed that do not depend on each other.
    #[error("{}", Joined(.0))]
    Several(Vec<Error>),
}

struct Joined<'a>(&'a [Error]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Error {
    /// One error of several; none of none.
    pub(crate) fn of(mut errors: Vec<Self>) -> Option<Self> {
        if errors.len() > 1 { Some(Self::Several(errors)) } else { errors.pop() }
    }

    /// Whether it failed only because this process no longer leads.
    pub(crate) fn is_not_leader(&self) -> bool {
        match self {
            Self::Request { source, .. } => matches!(source, api::Error::NotLeader),
            Self::Several(errors) => errors.iter().any(Self::is_not_leader),
            _ => false,
        }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            _ if self.is_not_leader() => Retry::Stop,
            Self::Request { source, .. } if source.is_namespace_terminating() => Retry::Forget,
            _ => Retry::Backoff,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Invalid(_) | Self::Limits(_) | Self::Selector(_) => "malformed",
            Self::Plan(_) => "plan",
            Self::NotOurs(_) => "not_ours",
            Self::Changed(_) => "conflict",
            Self::Request { source, .. } => source.label(),
            Self::Several(errors) => errors.first().map_or("several", Failure::label),
        }
    }
}
