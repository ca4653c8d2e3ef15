//! Protobuf schemas of Nodes and Leases.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, MicroTime, Object, Quantity, Text, Time},
    field_always_in_json, list_field, map_field, omitempty_field, opaque_field, optional_field,
};

/// Schema of `core/v1.Node` with its nested messages. No projection reads most lists in `status`.
pub static NODE: MessageSchema = MessageSchema {
    name: "core/v1.Node",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&NODE_SPEC)),
        field_always_in_json(3, "status", Object(&NODE_STATUS)),
    ],
};

/// Schema of `core/v1.Namespace`, of which only the metadata are read.
pub static NAMESPACE: MessageSchema = MessageSchema {
    name: "core/v1.Namespace",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        opaque_field(2, "spec"),
        opaque_field(3, "status"),
    ],
};

pub(super) static NODE_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.NodeSpec",
    fields: &[
        omitempty_field(1, "podCIDR", Text),
        omitempty_field(2, "externalID", Text),
        omitempty_field(3, "providerID", Text),
        omitempty_field(4, "unschedulable", Bool),
        list_field(5, "taints", Object(&TAINT)),
        opaque_field(6, "configSource"),
        list_field(7, "podCIDRs", Text),
    ],
};

pub(super) static TAINT: MessageSchema = MessageSchema {
    name: "core/v1.Taint",
    fields: &[
        field_always_in_json(1, "key", Text),
        omitempty_field(2, "value", Text),
        field_always_in_json(3, "effect", Text),
        optional_field(4, "timeAdded", Time),
    ],
};

pub(super) static NODE_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.NodeStatus",
    fields: &[
        map_field(1, "capacity", Quantity),
        map_field(2, "allocatable", Quantity),
        omitempty_field(3, "phase", Text),
        list_field(4, "conditions", Object(&NODE_CONDITION)),
        opaque_field(5, "addresses"),
        opaque_field(6, "daemonEndpoints"),
        opaque_field(7, "nodeInfo"),
        opaque_field(8, "images"),
        list_field(9, "volumesInUse", Text),
        opaque_field(10, "volumesAttached"),
        opaque_field(11, "config"),
        opaque_field(12, "runtimeHandlers"),
        opaque_field(13, "features"),
        list_field(14, "declaredFeatures", Text),
    ],
};

pub(super) static NODE_CONDITION: MessageSchema = MessageSchema {
    name: "core/v1.NodeCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastHeartbeatTime", Time),
        field_always_in_json(4, "lastTransitionTime", Time),
        omitempty_field(5, "reason", Text),
        omitempty_field(6, "message", Text),
    ],
};

/// Schema of `coordination/v1.Lease`. Projections can read all fields.
pub static LEASE: MessageSchema = MessageSchema {
    name: "coordination/v1.Lease",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&LEASE_SPEC)),
    ],
};

pub(super) static LEASE_SPEC: MessageSchema = MessageSchema {
    name: "coordination/v1.LeaseSpec",
    fields: &[
        optional_field(1, "holderIdentity", Text),
        optional_field(2, "leaseDurationSeconds", Int),
        optional_field(3, "acquireTime", MicroTime),
        optional_field(4, "renewTime", MicroTime),
        optional_field(5, "leaseTransitions", Int),
        optional_field(6, "strategy", Text),
        optional_field(7, "preferredHolder", Text),
    ],
};
