//! Projections of Services, Pods, Nodes, EndpointSlices and Endpoints.

mod endpoint;
mod endpoints;
mod node;
mod pod;
mod service;
mod slice;

use common::second_writer::OwnedWrites;

pub use endpoint::{Endpoint, EndpointConditions, EndpointIdentity, Hint, Hints, TargetRef};
pub(crate) use endpoints::endpoints_object_ref;
pub use endpoints::{ENDPOINTS, EndpointAddress, Endpoints, Subset, SubsetPort};
pub use node::{NODES, Node};
pub use pod::{NameSortedPods, Pod, PodPort};
pub use service::{SERVICES, Service, ServicePort, ServiceSpec};
pub(crate) use slice::service_index_value;
pub use slice::{AddressType, ENDPOINT_SLICES, Slice, SlicePort, SlicesByService};

/// The key of the label that names the Service of a slice.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The key of the label that names the manager of a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The writes to slices that only their manager should make. A second manager that sets the field `endpoints` of slices is
/// reported. `managed_by` is the value of [`MANAGED_BY_LABEL`] on the slices.
pub(crate) const fn owned_slice_writes(managed_by: &'static str) -> OwnedWrites {
    OwnedWrites {
        required_label: Some((MANAGED_BY_LABEL, managed_by)),
        required_fields_v1_text: "f:endpoints",
        ..OwnedWrites::of_object("discovery.k8s.io", "endpointslices")
    }
}
/// The key of the label that marks slices and Endpoints of headless Services.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The key of the annotation with the time of the change that caused the last write.
pub const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The key of the label that names the zone of a Node.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The value of [`MANAGED_BY_LABEL`] on slices of Services with a selector.
pub const MANAGED_BY_SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The value of [`MANAGED_BY_LABEL`] on slices that mirror hand-made Endpoints.
pub const MANAGED_BY_MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
