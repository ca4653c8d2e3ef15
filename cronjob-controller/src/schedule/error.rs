//! The error of a schedule that cannot be read.

/// Why a schedule cannot be read, in the words of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(super) String);

impl ParseError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
