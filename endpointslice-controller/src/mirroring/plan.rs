//! What one sync does about mirrored slices.

use common::controller::Explain;

use crate::plan::{self, Event, SliceMetadata, Writes};

/// What one sync does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether there is something to mirror.
    pub mirrors: bool,
    /// What is written into every slice.
    pub slice_metadata: SliceMetadata,
    /// By address type.
    pub writes: Vec<Writes>,
    /// What is said of the Endpoints.
    pub events: Vec<Event>,
    /// Addresses that were left out.
    pub skipped: usize,
    /// Endpoints whose content changes.
    pub updated: usize,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        if self.mirrors { plan::situation(&self.writes) } else { "there is nothing to mirror".to_owned() }
    }
}
