//! What is read of Services, Pods, Nodes, EndpointSlices and Endpoints.

mod endpoint;
mod endpoints;
mod node;
mod pod;
mod service;
mod slice;

pub use endpoint::{Conditions, Endpoint, Hint, Hints, Identity, TargetRef};
pub use endpoints::{Address, ENDPOINTS, Endpoints, Subset, SubsetPort};
pub use node::{NODES, Node};
pub use pod::{Pod, PodPort};
pub use service::{SERVICES, Service, ServicePort, Spec};
pub use slice::{AddressType, ENDPOINT_SLICES, Port, Slice};

/// The label of a slice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice that says who writes it.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that says that the Service has no IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation that says when the newest change behind this state happened.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of a Node that says where it is.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// What writes slices of Services with a selector.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// What writes slices of Endpoints that somebody else wrote.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
