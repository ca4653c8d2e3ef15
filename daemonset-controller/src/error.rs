//! Why a set cannot be observed.

use common::{
    controller::{Failure, Retry},
    object::Unreadable,
};

/// Why a set cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The set, or one of its Pods or revisions, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// No revision can be made from the template of the set.
    #[error("cannot make {0}")]
    Template(String),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Template(_) => "template",
        }
    }
}
