//! The plan for the slices that mirror one Endpoints object.

use common::controller::SyncPlan;

use crate::plan::{self, PlannedEvent, SliceMetadata, SliceWrites};

/// The wanted writes of one sync, with Events and counts for metrics.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the Endpoints exist and are to be mirrored; otherwise all their slices are deleted.
    pub are_endpoints_mirrored: bool,
    /// The labels, annotations and owner of every written slice.
    pub slice_metadata: SliceMetadata,
    /// The writes for each address type. If the Endpoints are not mirrored, one element with the deletions of both types.
    pub slice_writes: Vec<SliceWrites>,
    /// Events about the Endpoints, to emit before the writes.
    pub events: Vec<PlannedEvent>,
    /// The number of addresses that are not mirrored, because they are invalid or beyond a limit.
    pub skipped_address_count: usize,
    /// The number of endpoints that are in the slice before and after the sync, with different content.
    pub updated_endpoint_count: usize,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.are_endpoints_mirrored {
            plan::describe_wanted_counts(&self.slice_writes)
        } else {
            "there is nothing to mirror".to_owned()
        }
    }
}
