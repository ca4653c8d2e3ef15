//! Protobuf schemas of Services, Endpoints and EndpointSlices.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    Message,
    Shape::{Bool, Int, IntOrString, Object, Text},
    always, list, map, nonzero, opaque, optional,
};

/// Schema of `core/v1.Service`. No projection reads `status`.
pub static SERVICE: Message = Message {
    name: "core/v1.Service",
    fields: &[
        always(1, "metadata", Object(&OBJECT_META)),
        always(2, "spec", Object(&SERVICE_SPEC)),
        opaque(3, "status"),
    ],
};

pub(super) static SERVICE_SPEC: Message = Message {
    name: "core/v1.ServiceSpec",
    fields: &[
        list(1, "ports", Object(&SERVICE_PORT)),
        map(2, "selector", Text),
        nonzero(3, "clusterIP", Text),
        nonzero(4, "type", Text),
        list(5, "externalIPs", Text),
        nonzero(7, "sessionAffinity", Text),
        nonzero(8, "loadBalancerIP", Text),
        list(9, "loadBalancerSourceRanges", Text),
        nonzero(10, "externalName", Text),
        nonzero(11, "externalTrafficPolicy", Text),
        nonzero(12, "healthCheckNodePort", Int),
        nonzero(13, "publishNotReadyAddresses", Bool),
        opaque(14, "sessionAffinityConfig"),
        optional(17, "ipFamilyPolicy", Text),
        list(18, "clusterIPs", Text),
        list(19, "ipFamilies", Text),
        optional(20, "allocateLoadBalancerNodePorts", Bool),
        optional(21, "loadBalancerClass", Text),
        optional(22, "internalTrafficPolicy", Text),
        optional(23, "trafficDistribution", Text),
    ],
};

pub(super) static SERVICE_PORT: Message = Message {
    name: "core/v1.ServicePort",
    fields: &[
        nonzero(1, "name", Text),
        nonzero(2, "protocol", Text),
        always(3, "port", Int),
        always(4, "targetPort", IntOrString),
        nonzero(5, "nodePort", Int),
        optional(6, "appProtocol", Text),
    ],
};

/// Schema of `core/v1.Endpoints`. Projections can read all fields.
pub static ENDPOINTS: Message = Message {
    name: "core/v1.Endpoints",
    fields: &[always(1, "metadata", Object(&OBJECT_META)), list(2, "subsets", Object(&ENDPOINT_SUBSET))],
};

pub(super) static ENDPOINT_SUBSET: Message = Message {
    name: "core/v1.EndpointSubset",
    fields: &[
        list(1, "addresses", Object(&ENDPOINT_ADDRESS)),
        list(2, "notReadyAddresses", Object(&ENDPOINT_ADDRESS)),
        list(3, "ports", Object(&ENDPOINT_PORT)),
    ],
};

pub(super) static ENDPOINT_ADDRESS: Message = Message {
    name: "core/v1.EndpointAddress",
    fields: &[
        always(1, "ip", Text),
        optional(2, "targetRef", Object(&OBJECT_REFERENCE)),
        nonzero(3, "hostname", Text),
        optional(4, "nodeName", Text),
    ],
};

pub(super) static ENDPOINT_PORT: Message = Message {
    name: "core/v1.EndpointPort",
    fields: &[
        nonzero(1, "name", Text),
        always(2, "port", Int),
        nonzero(3, "protocol", Text),
        optional(4, "appProtocol", Text),
    ],
};

pub(super) static OBJECT_REFERENCE: Message = Message {
    name: "core/v1.ObjectReference",
    fields: &[
        nonzero(1, "kind", Text),
        nonzero(2, "namespace", Text),
        nonzero(3, "name", Text),
        nonzero(4, "uid", Text),
        nonzero(5, "apiVersion", Text),
        nonzero(6, "resourceVersion", Text),
        nonzero(7, "fieldPath", Text),
    ],
};

/// Schema of `discovery/v1.EndpointSlice`. Projections can read all fields.
pub static ENDPOINT_SLICE: Message = Message {
    name: "discovery/v1.EndpointSlice",
    fields: &[
        always(1, "metadata", Object(&OBJECT_META)),
        list(2, "endpoints", Object(&ENDPOINT)),
        list(3, "ports", Object(&SLICE_PORT)),
        always(4, "addressType", Text),
    ],
};

pub(super) static ENDPOINT: Message = Message {
    name: "discovery/v1.Endpoint",
    fields: &[
        list(1, "addresses", Text),
        always(2, "conditions", Object(&ENDPOINT_CONDITIONS)),
        optional(3, "hostname", Text),
        optional(4, "targetRef", Object(&OBJECT_REFERENCE)),
        map(5, "deprecatedTopology", Text),
        optional(6, "nodeName", Text),
        optional(7, "zone", Text),
        optional(8, "hints", Object(&ENDPOINT_HINTS)),
    ],
};

pub(super) static ENDPOINT_CONDITIONS: Message = Message {
    name: "discovery/v1.EndpointConditions",
    fields: &[optional(1, "ready", Bool), optional(2, "serving", Bool), optional(3, "terminating", Bool)],
};

pub(super) static ENDPOINT_HINTS: Message = Message {
    name: "discovery/v1.EndpointHints",
    fields: &[list(1, "forZones", Object(&FOR_ZONE)), list(2, "forNodes", Object(&FOR_NODE))],
};

pub(super) static FOR_ZONE: Message = Message { name: "discovery/v1.ForZone", fields: &[always(1, "name", Text)] };

pub(super) static FOR_NODE: Message = Message { name: "discovery/v1.ForNode", fields: &[always(1, "name", Text)] };

pub(super) static SLICE_PORT: Message = Message {
    name: "discovery/v1.EndpointPort",
    fields: &[
        optional(1, "name", Text),
        optional(2, "protocol", Text),
        optional(3, "port", Int),
        optional(4, "appProtocol", Text),
    ],
};
