//! The plan of one sync of the orphan loop.

use common::controller::SyncPlan;

use crate::jobs::snapshot::SharedPod;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) pods_to_remove_finalizer_from: Vec<SharedPod>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        format!(
            "{} Pods carry the finalizer and have no Job that counts them",
            self.pods_to_remove_finalizer_from.len()
        )
    }
}
