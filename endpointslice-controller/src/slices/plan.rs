//! What one sync of a Service writes, remembers and reports: slices to write or delete, the memory, and metric labels.

use std::sync::Arc;

use common::controller::SyncPlan;

use crate::{
    memory::ServiceMemory,
    objects::Slice,
    plan::{self, DeferredWriteCounts, SliceMetadata, SliceWrites},
};

/// The kind of hints of a Service, as labels of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintMetricLabels {
    /// Whether hints follow the capacity of zones.
    pub is_hinted_by_capacity: bool,
    /// The value of `spec.trafficDistribution`; `None` if it has no effect.
    pub traffic_distribution: Option<&'static str>,
}

/// The wanted writes of one sync, and the memory for the next sync.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether this loop manages the slices: the Service has a selector and is not an `ExternalName`.
    pub is_managed_service: bool,
    /// The metadata of every written slice.
    pub slice_metadata: SliceMetadata,
    /// Writes for each address type of the Service.
    pub slice_writes: Vec<SliceWrites>,
    /// Slices with an address type that the Service does not use. They are deleted last.
    pub slices_of_unused_address_types: Vec<Arc<Slice>>,
    /// The memory of the Service for the next sync.
    pub memory: ServiceMemory,
    /// The kind of hints, for metrics.
    pub hint_metric_labels: HintMetricLabels,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if !self.is_managed_service {
            return "the Service has no selector or is an ExternalName: its slices are not managed".to_owned();
        }
        plan::describe_wanted_counts(&self.slice_writes)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let mut out = Vec::new();
        for writes in &self.slice_writes {
            out.extend(writes.omitted_pod_messages.iter().cloned());
            let DeferredWriteCounts { endpoint_count: endpoints, slice_count: slices } = writes.deferred_write_counts;
            if writes.deferred_write_counts != DeferredWriteCounts::default() {
                let kind = writes.address_type;
                out.push(format!(
                    "the number of ports in the new slices of one sync is limited: {endpoints} {kind} endpoints and {slices} \
                     slices are deferred to the next sync"
                ));
            }
        }
        out
    }
}
