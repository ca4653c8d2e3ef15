//! Why a sync fails.

use common::{
    api,
    controller::{Failure, Retry},
    object::Unreadable,
};

/// What was being done when a sync failed, and what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that decides cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A request failed.
    #[error("{what}: {source}")]
    Request {
        /// What it was to do.
        what: String,
        /// Why it failed.
        source: api::Error,
    },
    /// A Pod was left out.
    #[error("{0}")]
    LeftOut(String),
    /// Several things went wrong, and the rest was done.
    #[error("{}", joined(.0))]
    Several(Vec<Error>),
}

/// Several as upstream puts them together: each text once.
fn joined(errors: &[Error]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}

impl Error {
    pub(crate) fn request(what: impl Into<String>, source: impl Into<api::Error>) -> Self {
        Self::Request { what: what.into(), source: source.into() }
    }

    /// Nothing if nothing went wrong.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether a write was held back because this process does not lead.
    pub(crate) fn is_not_leader(&self) -> bool {
        match self {
            Self::Request { source, .. } => matches!(source, api::Error::NotLeader),
            Self::Several(errors) => errors.iter().any(Self::is_not_leader),
            Self::Unreadable(_) | Self::LeftOut(_) => false,
        }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        if self.is_not_leader() { Retry::Stop } else { Retry::Backoff }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Request { source, .. } => source.label(),
            Self::LeftOut(_) => "node_not_found",
            Self::Several(errors) => errors.first().map_or("several", Self::label),
        }
    }
}
