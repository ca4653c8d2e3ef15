//! What one sync does about the slices of a Service.

use std::sync::Arc;

use common::controller::Explain;

use crate::{
    memory::Memory,
    objects::Slice,
    plan::{self, PutOff, SliceMetadata, Writes},
};

/// How the endpoints of a Service are spread, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Whether by the capacity of zones.
    pub by_capacity: bool,
    /// What `spec.trafficDistribution` says, if it counts.
    pub distribution: Option<&'static str>,
}

/// What one sync does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the Service has a selector.
    pub is_ours: bool,
    /// The metadata of every slice that is written.
    pub slice_metadata: SliceMetadata,
    /// By address type.
    pub writes: Vec<Writes>,
    /// Slices of other address types, which go last.
    pub unsupported: Vec<Arc<Slice>>,
    /// What the next sync is to know.
    pub memory: Memory,
    /// How endpoints are spread.
    pub spread: Spread,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        if !self.is_ours {
            return "the Service has no selector, or is a name for another one: its slices are left alone".to_owned();
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
                    "the new slices of one sync may have a limited number of ports: {endpoints} {kind} endpoints and {slices} \
                     slices are left to the next sync"
                ));
            }
        }
        out
    }
}
