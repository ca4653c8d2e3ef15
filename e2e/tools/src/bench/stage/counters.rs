//! Counters of the detailed measurements.

use crate::{
    bench::report::{NodeWaits, Wait},
    nodes::{Nodes, WaitCounts},
};

/// Counters of the waits for the simulated scheduler and for the kubelets.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    scheduler: WaitCounts,
    kubelet: WaitCounts,
}

impl Waits {
    /// The counters so far; empty without simulated nodes.
    pub(super) fn of(nodes: Option<&Nodes>) -> Self {
        let counts = |nodes: &Nodes| Self {
            scheduler: nodes.scheduler_waits().counts(),
            kubelet: nodes.kubelet_waits().counts(),
        };
        nodes.map(counts).unwrap_or_default()
    }

    /// The waits since an earlier state.
    pub(super) fn since(&self, before: &Self) -> NodeWaits {
        NodeWaits {
            scheduler: Wait::of(&self.scheduler.since(&before.scheduler)),
            kubelet: Wait::of(&self.kubelet.since(&before.kubelet)),
        }
    }
}

/// Bytes that a process has received, and the part of them in bodies of answers that are not watches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    pub(super) received: u64,
    pub(super) answered: u64,
}
