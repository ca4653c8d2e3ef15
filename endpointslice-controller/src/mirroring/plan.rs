//! The plan for the slices that mirror one Endpoints object.

use common::controller::Explain;

use crate::plan::{self, Event, SliceMetadata, Writes};

/// The wanted writes of one sync, with Events and numbers for metrics.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the Endpoints exist and are to be mirrored.
    pub mirrors: bool,
    /// Labels, annotations and owner of every slice.
    pub slice_metadata: SliceMetadata,
    /// Writes for each address type.
    pub writes: Vec<Writes>,
    /// Events about the Endpoints.
    pub events: Vec<Event>,
    /// Addresses that are not mirrored.
    pub skipped: usize,
    /// Endpoints with changed content.
    pub updated: usize,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        if self.mirrors { plan::situation(&self.writes) } else { "there is nothing to mirror".to_owned() }
    }
}
