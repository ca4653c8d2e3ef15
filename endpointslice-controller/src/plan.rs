//! What one sync does about the slices of a Service.

use std::{fmt, sync::Arc};

use common::{
    controller::{Explain, Explanation},
    events::EventType,
    intern::{Labels, Text},
    meta::{Annotations, OwnerRef, Uid, Version},
};

use crate::{
    memory::Memory,
    objects::{AddressType, Endpoint, Port, Slice},
};

/// An Event on the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub kind: EventType,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The wanted state of a slice.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The slice that is changed; `None` if it is new.
    pub base: Option<Arc<Slice>>,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Its ports; slices share the list.
    pub ports: Arc<[Port]>,
}

impl Draft {
    /// A new, empty slice.
    pub fn new(ports: Arc<[Port]>) -> Self {
        Self { base: None, endpoints: Vec::new(), ports }
    }

    /// A copy of a slice.
    pub fn of(slice: &Arc<Slice>) -> Self {
        Self { base: Some(Arc::clone(slice)), endpoints: slice.endpoints.clone(), ports: Arc::clone(&slice.ports) }
    }
}

/// The metadata that all written slices of a Service share.
#[derive(Clone, Debug, Default)]
pub struct SliceMetadata {
    /// The beginning of the names of new ones.
    pub generate_name: String,
    /// Their namespace.
    pub namespace: Text,
    /// Their labels.
    pub labels: Labels,
    /// Their annotations, where those are copies of somebody else's.
    pub annotations: Annotations,
    /// The Service, as the owner of new ones.
    pub owner: OwnerRef,
    /// The time of the change that this sync reacts to, if it is known.
    pub trigger_time: Option<String>,
}

/// A slice to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The version that was decided on.
    pub resource_version: Version,
}

impl Doomed {
    /// That slice.
    pub fn new(slice: &Slice) -> Self {
        let meta = &slice.metadata;
        Self { name: Arc::clone(&meta.name), uid: meta.uid.clone(), resource_version: meta.resource_version }
    }
}

/// What is done about the slices of one address type, in this order.
#[derive(Clone, Debug)]
pub struct Writes {
    /// The address type.
    pub kind: AddressType,
    /// New slices.
    pub create: Vec<Draft>,
    /// New states of existing slices.
    pub update: Vec<Draft>,
    /// Slices to delete.
    pub delete: Vec<Doomed>,
    /// Pods that were left out, and why.
    pub left_out: Vec<String>,
    /// Endpoints and slices that the next sync deals with, because of [`crate::snapshot::Snapshot::max_new_ports`].
    pub put_off: PutOff,
    /// Events to emit afterwards.
    pub events: Vec<Event>,
    /// The numbers for metrics.
    pub counts: Counts,
}

/// What one sync leaves to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOff {
    /// Endpoints for which no slice is created yet.
    pub endpoints: usize,
    /// Slices that stay as they are, because they have endpoints that are in no other slice yet.
    pub slices: usize,
}

/// The numbers of one address type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints that were added.
    pub added: usize,
    /// Endpoints that were removed.
    pub removed: usize,
    /// Wanted endpoints.
    pub endpoints: usize,
    /// Wanted slices.
    pub slices: usize,
    /// Slices that would be enough.
    pub enough: usize,
}

impl Writes {
    /// The number of requests.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The requests in words.
    pub fn actions(&self) -> Vec<String> {
        let kind = self.kind;
        let create = self.create.iter().map(|draft| format!("create an {kind} slice: {}", shown(draft)));
        let named = |draft: &Draft| draft.base.as_ref().map(|base| Arc::clone(&base.metadata.name)).unwrap_or_default();
        let update = self.update.iter().map(|draft| format!("update {}: {}", named(draft), shown(draft)));
        let delete = self.delete.iter().map(|slice| format!("delete {}: nothing is to be in it", slice.name));
        create.chain(update).chain(delete).collect()
    }
}

/// How the endpoints of a Service are spread, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    pub unsupported: Vec<Doomed>,
    /// What the next sync is to know.
    pub memory: Memory,
    /// How endpoints are spread.
    pub spread: Spread,
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { endpoints, slices, .. } = self.counts;
        write!(f, "{endpoints} {} endpoints in {slices} slices", self.kind)
    }
}

/// The endpoints of a slice in words.
fn shown(draft: &Draft) -> String {
    let ready = draft.endpoints.iter().filter(|endpoint| endpoint.is_ready()).count();
    format!("{} endpoints, {ready} of them ready", draft.endpoints.len())
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        if !self.is_ours {
            let situation = "the Service has no selector, or is a name for another one: its slices are left alone";
            return Explanation { situation: situation.to_owned(), ..Explanation::default() };
        }
        let mut out = Explanation::default();
        let situations: Vec<String> = self.writes.iter().map(ToString::to_string).collect();
        out.situation = situations.join(", ");
        for writes in &self.writes {
            out.actions.extend(writes.actions());
            out.waiting.extend(writes.left_out.iter().cloned());
            let PutOff { endpoints, slices } = writes.put_off;
            if writes.put_off != PutOff::default() {
                let kind = writes.kind;
                out.waiting.push(format!(
                    "the new slices of one sync may have a limited number of ports: {endpoints} {kind} endpoints and {slices} \
                     slices are left to the next sync"
                ));
            }
        }
        let unsupported = |slice: &Doomed| format!("delete {}: the Service has no such addresses", slice.name);
        out.actions.extend(self.unsupported.iter().map(unsupported));
        out
    }

    fn acts(&self) -> bool {
        !self.unsupported.is_empty() || self.writes.iter().any(|w| !w.is_empty() || !w.left_out.is_empty())
    }
}
