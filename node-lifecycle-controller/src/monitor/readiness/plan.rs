//! Whether a Pod is marked as not ready, and why.

use common::controller::Explain;

/// What one sync of a Pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether its condition `Ready` becomes `False`.
    pub(crate) marks: bool,
    pub(crate) why: &'static str,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        self.why.to_owned()
    }
}
