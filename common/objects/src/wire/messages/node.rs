//! Protobuf schemas of Nodes and Leases.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    Message,
    Shape::{Bool, Int, MicroTime, Object, Quantity, Text, Time},
    always, list, map, nonzero, opaque, optional,
};

/// Schema of `core/v1.Node` with its nested messages. No projection reads most lists in `status`.
pub static NODE: Message = Message {
    name: "core/v1.Node",
    fields: &[
        always(1, "metadata", Object(&OBJECT_META)),
        always(2, "spec", Object(&NODE_SPEC)),
        always(3, "status", Object(&NODE_STATUS)),
    ],
};

pub(super) static NODE_SPEC: Message = Message {
    name: "core/v1.NodeSpec",
    fields: &[
        nonzero(1, "podCIDR", Text),
        nonzero(2, "externalID", Text),
        nonzero(3, "providerID", Text),
        nonzero(4, "unschedulable", Bool),
        list(5, "taints", Object(&TAINT)),
        opaque(6, "configSource"),
        list(7, "podCIDRs", Text),
    ],
};

pub(super) static TAINT: Message = Message {
    name: "core/v1.Taint",
    fields: &[
        always(1, "key", Text),
        nonzero(2, "value", Text),
        always(3, "effect", Text),
        optional(4, "timeAdded", Time),
    ],
};

pub(super) static NODE_STATUS: Message = Message {
    name: "core/v1.NodeStatus",
    fields: &[
        map(1, "capacity", Quantity),
        map(2, "allocatable", Quantity),
        nonzero(3, "phase", Text),
        list(4, "conditions", Object(&NODE_CONDITION)),
        opaque(5, "addresses"),
        opaque(6, "daemonEndpoints"),
        opaque(7, "nodeInfo"),
        opaque(8, "images"),
        list(9, "volumesInUse", Text),
        opaque(10, "volumesAttached"),
        opaque(11, "config"),
        opaque(12, "runtimeHandlers"),
        opaque(13, "features"),
        list(14, "declaredFeatures", Text),
    ],
};

pub(super) static NODE_CONDITION: Message = Message {
    name: "core/v1.NodeCondition",
    fields: &[
        always(1, "type", Text),
        always(2, "status", Text),
        always(3, "lastHeartbeatTime", Time),
        always(4, "lastTransitionTime", Time),
        nonzero(5, "reason", Text),
        nonzero(6, "message", Text),
    ],
};

/// Schema of `coordination/v1.Lease`. Projections can read all fields.
pub static LEASE: Message = Message {
    name: "coordination/v1.Lease",
    fields: &[always(1, "metadata", Object(&OBJECT_META)), always(2, "spec", Object(&LEASE_SPEC))],
};

pub(super) static LEASE_SPEC: Message = Message {
    name: "coordination/v1.LeaseSpec",
    fields: &[
        optional(1, "holderIdentity", Text),
        optional(2, "leaseDurationSeconds", Int),
        optional(3, "acquireTime", MicroTime),
        optional(4, "renewTime", MicroTime),
        optional(5, "leaseTransitions", Int),
        optional(6, "strategy", Text),
        optional(7, "preferredHolder", Text),
    ],
};
