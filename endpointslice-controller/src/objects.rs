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

/// The key of the slice label with the name of the Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The key of the slice label with the name of the writer.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The writes that only one manager should make: a second manager that sets `endpoints` of slices is reported.
pub(crate) const SLICE_WRITES: OwnedWrites =
    OwnedWrites { field: "f:endpoints", ..OwnedWrites::object("discovery.k8s.io", "endpointslices") };
/// The key of the label that marks slices and Endpoints of headless Services.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation key for the time of the change that caused the last write.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The key of the Node label with the name of the zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The value of [`MANAGED_BY`] on slices of Services with a selector.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The value of [`MANAGED_BY`] on slices that mirror hand-made Endpoints.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
