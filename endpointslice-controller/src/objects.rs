//! Projections of Services, Pods, Nodes, EndpointSlices and Endpoints.

mod endpoint;
mod endpoints;
mod node;
mod pod;
mod service;
mod slice;

use common::second_writer::OwnedWrites;

pub use endpoint::{Conditions, Endpoint, Hint, Hints, Identity, TargetRef};
pub(crate) use endpoints::object_ref;
pub use endpoints::{Address, ENDPOINTS, Endpoints, Subset, SubsetPort};
pub use node::{NODES, Node};
pub use pod::{Pod, PodPort};
pub use service::{SERVICES, Service, ServicePort, Spec};
pub(crate) use slice::service_value;
pub use slice::{AddressType, ByService, ENDPOINT_SLICES, Port, Slice};

/// The label of a slice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice that names its writer.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Writes of EndpointSlices that set endpoints.
pub(crate) const SLICE_WRITES: OwnedWrites =
    OwnedWrites { field: "f:endpoints", ..OwnedWrites::object("discovery.k8s.io", "endpointslices") };
/// The label of slices of headless Services.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation with the time of the change that led to this state.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of a Node with its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The writer of slices of Services with a selector.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The writer of slices that mirror hand-made Endpoints.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
