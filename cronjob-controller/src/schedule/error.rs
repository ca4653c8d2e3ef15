//! The error of [`Schedule::parse`](super::Schedule::parse).

/// Why a schedule cannot be parsed, in the words of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(super) String);

impl ParseError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
