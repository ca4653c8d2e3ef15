//! The plan of one sync.

use common::controller::Explain;

use crate::jobs::snapshot::PodRef;

/// The Pods that lose their finalizer.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Orphans with the finalizer.
    pub(crate) pods: Vec<PodRef>,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        format!("{} Pods carry the finalizer and have no Job that counts them", self.pods.len())
    }
}
