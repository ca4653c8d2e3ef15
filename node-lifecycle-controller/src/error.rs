//! Why a sync fails.

use common::{
    api,
    controller::{Failure, Retry},
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    /// What was being done.
    pub what: String,
    /// What went wrong.
    #[source]
    pub source: api::Error,
}

impl Error {
    /// That `what` failed.
    pub(crate) fn new(what: impl Into<String>, source: api::Error) -> Self {
        Self { what: what.into(), source }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        if matches!(self.source, api::Error::NotLeader) { Retry::Stop } else { Retry::Backoff }
    }

    fn label(&self) -> &'static str {
        self.source.label()
    }
}
