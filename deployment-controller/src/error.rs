//! Why a Deployment cannot be observed.

use common::{
    controller::{Failure, Retry},
    object::Unreadable,
    selector::SelectorError,
};

use crate::decide::limits::LimitsError;

/// A Deployment or a ReplicaSet in the cache cannot be read, or contradicts itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One of them cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// One of them says what no server should have accepted.
    #[error("{0}")]
    Invalid(String),
    /// The limits of the strategy make no sense.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The selector makes no sense.
    #[error("spec.{0}")]
    Selector(#[from] SelectorError),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Invalid(_) | Self::Limits(_) | Self::Selector(_) => "malformed",
        }
    }
}
