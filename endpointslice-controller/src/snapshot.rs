//! Everything one sync of a Service may look at.

use std::sync::Arc;

use crate::{
    decide::zones::Ratios,
    memory::Memory,
    objects::{Node, Pod, Service, Slice},
};

/// Where a Pod is.
#[derive(Clone, Debug)]
pub enum Place {
    /// Not assigned to a node, or on a node that is not in the cache.
    Unknown,
    /// On a node.
    On(Arc<Node>),
}

/// A Pod that the Service selects.
#[derive(Clone, Debug)]
pub struct Member {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// Where it is.
    pub place: Place,
}

/// A Service, its Pods and its slices.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Service.
    pub service: Arc<Service>,
    /// The Pods it selects, by name.
    pub members: Vec<Member>,
    /// The slices written for it, by name; none that is going.
    pub slices: Vec<Arc<Slice>>,
    /// What was remembered.
    pub memory: Memory,
    /// The shares of zones; none if they cannot be told. Only where hints by the capacity of zones are asked for.
    pub ratios: Option<Arc<Ratios>>,
    /// The most endpoints that a slice is filled with.
    pub most: usize,
}
