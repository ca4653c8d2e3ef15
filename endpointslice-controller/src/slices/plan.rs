//! The plan for the slices of a Service.

use std::sync::Arc;

use common::controller::Explain;

use crate::{
    memory::Memory,
    objects::Slice,
    plan::{self, PutOff, SliceMetadata, Writes},
};

/// The kind of hints of a Service, as labels of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Whether hints follow the capacity of zones.
    pub by_capacity: bool,
    /// The value of `spec.trafficDistribution`, if it has an effect.
    pub distribution: Option<&'static str>,
}

/// The wanted writes of one sync, and the memory for the next one.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether this loop manages the slices: the Service has a selector and is not an `ExternalName`.
    pub is_ours: bool,
    /// The metadata of every written slice.
    pub slice_metadata: SliceMetadata,
    /// Writes for each address type of the Service.
    pub writes: Vec<Writes>,
    /// Slices of other address types, which are deleted last.
    pub unsupported: Vec<Arc<Slice>>,
    /// The new memory of the Service.
    pub memory: Memory,
    /// The kind of hints, for metrics.
    pub spread: Spread,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        if !self.is_ours {
            return "the Service has no selector or is an ExternalName: its slices are not managed".to_owned();
        }
        plan::situation(&self.writes)
    }

    fn waiting(&self) -> Vec<String> {
        let mut out = Vec::new();
        for writes in &self.writes {
            out.extend(writes.left_out.iter().cloned());
            let PutOff { endpoints, slices } = writes.put_off;
            if writes.put_off != PutOff::default() {
                let kind = writes.kind;
                out.push(format!(
                    "the number of ports in the new slices of one sync is limited: {endpoints} {kind} endpoints and {slices} \
                     slices are deferred to the next sync"
                ));
            }
        }
        out
    }
}
