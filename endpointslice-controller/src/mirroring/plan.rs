//! The plan for the slices that mirror one Endpoints object.

use common::controller::Explain;

use crate::plan::{self, Event, SliceMetadata, Writes};

/// The wanted writes of one sync, with Events and numbers for metrics.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the Endpoints exist and are to be mirrored; otherwise all their slices are deleted.
    pub mirrors: bool,
    /// The labels, annotations and owner of every written slice.
    pub slice_metadata: SliceMetadata,
    /// The writes for each address type; if nothing is mirrored, one entry with the deletes.
    pub writes: Vec<Writes>,
    /// Events about the Endpoints, to emit before the writes.
    pub events: Vec<Event>,
    /// The number of addresses that are not mirrored, because they are invalid or beyond a limit.
    pub skipped: usize,
    /// The number of existing endpoints with changed content.
    pub updated: usize,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        if self.mirrors { plan::situation(&self.writes) } else { "there is nothing to mirror".to_owned() }
    }
}
