//! Why a CronJob cannot be observed.

use common::{
    controller::{Failure, Retry},
    object::Unreadable,
};

/// A CronJob or a Job in the cache cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Unreadable);

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    fn label(&self) -> &'static str {
        "unreadable"
    }
}
