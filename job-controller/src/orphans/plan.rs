//! What one sync does.

use common::controller::Explain;

use crate::jobs::snapshot::PodRef;

/// Takes the finalizer off Pods.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The Pods.
    pub(crate) pods: Vec<PodRef>,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        format!("{} Pods carry the finalizer and have no Job that counts them", self.pods.len())
    }
}
