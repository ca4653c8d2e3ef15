//! Protobuf schema of Events.

use super::{meta::OBJECT_META, network::OBJECT_REFERENCE};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Int, MicroTime, Object, Text, Time},
    field_always_in_json, omitempty_field, opaque_field, optional_field,
};

/// Schema of `core/v1.Event`. No body has `series`.
pub static EVENT: MessageSchema = MessageSchema {
    name: "core/v1.Event",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "involvedObject", Object(&OBJECT_REFERENCE)),
        omitempty_field(3, "reason", Text),
        omitempty_field(4, "message", Text),
        field_always_in_json(5, "source", Object(&EVENT_SOURCE)),
        field_always_in_json(6, "firstTimestamp", Time),
        field_always_in_json(7, "lastTimestamp", Time),
        omitempty_field(8, "count", Int),
        omitempty_field(9, "type", Text),
        field_always_in_json(10, "eventTime", MicroTime),
        opaque_field(11, "series"),
        omitempty_field(12, "action", Text),
        optional_field(13, "related", Object(&OBJECT_REFERENCE)),
        field_always_in_json(14, "reportingComponent", Text),
        field_always_in_json(15, "reportingInstance", Text),
    ],
};

static EVENT_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.EventSource",
    fields: &[omitempty_field(1, "component", Text), omitempty_field(2, "host", Text)],
};
