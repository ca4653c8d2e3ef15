//! The plan to mark a Pod as not ready, with its reason.

use common::controller::Explain;

/// Action of one sync of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether the condition `Ready` of the Pod becomes `False`.
    pub(crate) marks: bool,
    pub(crate) why: &'static str,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        self.why.to_owned()
    }
}
