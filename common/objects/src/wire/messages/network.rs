//! Protobuf schemas of Services, Endpoints and EndpointSlices.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, IntOrString, Object, Text},
    field_always_in_json, list_field, map_field, omitempty_field, opaque_field, optional_field,
};

/// Schema of `core/v1.Service`. No projection reads `status`.
pub static SERVICE: MessageSchema = MessageSchema {
    name: "core/v1.Service",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&SERVICE_SPEC)),
        opaque_field(3, "status"),
    ],
};

pub(super) static SERVICE_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.ServiceSpec",
    fields: &[
        list_field(1, "ports", Object(&SERVICE_PORT)),
        map_field(2, "selector", Text),
        omitempty_field(3, "clusterIP", Text),
        omitempty_field(4, "type", Text),
        list_field(5, "externalIPs", Text),
        omitempty_field(7, "sessionAffinity", Text),
        omitempty_field(8, "loadBalancerIP", Text),
        list_field(9, "loadBalancerSourceRanges", Text),
        omitempty_field(10, "externalName", Text),
        omitempty_field(11, "externalTrafficPolicy", Text),
        omitempty_field(12, "healthCheckNodePort", Int),
        omitempty_field(13, "publishNotReadyAddresses", Bool),
        opaque_field(14, "sessionAffinityConfig"),
        optional_field(17, "ipFamilyPolicy", Text),
        list_field(18, "clusterIPs", Text),
        list_field(19, "ipFamilies", Text),
        optional_field(20, "allocateLoadBalancerNodePorts", Bool),
        optional_field(21, "loadBalancerClass", Text),
        optional_field(22, "internalTrafficPolicy", Text),
        optional_field(23, "trafficDistribution", Text),
    ],
};

pub(super) static SERVICE_PORT: MessageSchema = MessageSchema {
    name: "core/v1.ServicePort",
    fields: &[
        omitempty_field(1, "name", Text),
        omitempty_field(2, "protocol", Text),
        field_always_in_json(3, "port", Int),
        field_always_in_json(4, "targetPort", IntOrString),
        omitempty_field(5, "nodePort", Int),
        optional_field(6, "appProtocol", Text),
    ],
};

/// Schema of `core/v1.Endpoints`. Projections can read all fields.
pub static ENDPOINTS: MessageSchema = MessageSchema {
    name: "core/v1.Endpoints",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        list_field(2, "subsets", Object(&ENDPOINT_SUBSET)),
    ],
};

pub(super) static ENDPOINT_SUBSET: MessageSchema = MessageSchema {
    name: "core/v1.EndpointSubset",
    fields: &[
        list_field(1, "addresses", Object(&ENDPOINT_ADDRESS)),
        list_field(2, "notReadyAddresses", Object(&ENDPOINT_ADDRESS)),
        list_field(3, "ports", Object(&ENDPOINT_PORT)),
    ],
};

pub(super) static ENDPOINT_ADDRESS: MessageSchema = MessageSchema {
    name: "core/v1.EndpointAddress",
    fields: &[
        field_always_in_json(1, "ip", Text),
        optional_field(2, "targetRef", Object(&OBJECT_REFERENCE)),
        omitempty_field(3, "hostname", Text),
        optional_field(4, "nodeName", Text),
    ],
};

pub(super) static ENDPOINT_PORT: MessageSchema = MessageSchema {
    name: "core/v1.EndpointPort",
    fields: &[
        omitempty_field(1, "name", Text),
        field_always_in_json(2, "port", Int),
        omitempty_field(3, "protocol", Text),
        optional_field(4, "appProtocol", Text),
    ],
};

pub(super) static OBJECT_REFERENCE: MessageSchema = MessageSchema {
    name: "core/v1.ObjectReference",
    fields: &[
        omitempty_field(1, "kind", Text),
        omitempty_field(2, "namespace", Text),
        omitempty_field(3, "name", Text),
        omitempty_field(4, "uid", Text),
        omitempty_field(5, "apiVersion", Text),
        omitempty_field(6, "resourceVersion", Text),
        omitempty_field(7, "fieldPath", Text),
    ],
};

/// Schema of `discovery/v1.EndpointSlice`. Projections can read all fields.
pub static ENDPOINT_SLICE: MessageSchema = MessageSchema {
    name: "discovery/v1.EndpointSlice",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        list_field(2, "endpoints", Object(&ENDPOINT)),
        list_field(3, "ports", Object(&ENDPOINT_SLICE_PORT)),
        field_always_in_json(4, "addressType", Text),
    ],
};

pub(super) static ENDPOINT: MessageSchema = MessageSchema {
    name: "discovery/v1.Endpoint",
    fields: &[
        list_field(1, "addresses", Text),
        field_always_in_json(2, "conditions", Object(&ENDPOINT_CONDITIONS)),
        optional_field(3, "hostname", Text),
        optional_field(4, "targetRef", Object(&OBJECT_REFERENCE)),
        map_field(5, "deprecatedTopology", Text),
        optional_field(6, "nodeName", Text),
        optional_field(7, "zone", Text),
        optional_field(8, "hints", Object(&ENDPOINT_HINTS)),
    ],
};

pub(super) static ENDPOINT_CONDITIONS: MessageSchema = MessageSchema {
    name: "discovery/v1.EndpointConditions",
    fields: &[
        optional_field(1, "ready", Bool),
        optional_field(2, "serving", Bool),
        optional_field(3, "terminating", Bool),
    ],
};

pub(super) static ENDPOINT_HINTS: MessageSchema = MessageSchema {
    name: "discovery/v1.EndpointHints",
    fields: &[list_field(1, "forZones", Object(&FOR_ZONE)), list_field(2, "forNodes", Object(&FOR_NODE))],
};

pub(super) static FOR_ZONE: MessageSchema =
    MessageSchema { name: "discovery/v1.ForZone", fields: &[field_always_in_json(1, "name", Text)] };

pub(super) static FOR_NODE: MessageSchema =
    MessageSchema { name: "discovery/v1.ForNode", fields: &[field_always_in_json(1, "name", Text)] };

pub(super) static ENDPOINT_SLICE_PORT: MessageSchema = MessageSchema {
    name: "discovery/v1.EndpointPort",
    fields: &[
        optional_field(1, "name", Text),
        optional_field(2, "protocol", Text),
        optional_field(3, "port", Int),
        optional_field(4, "appProtocol", Text),
    ],
};
