//! Protobuf schemas of object metadata, list metadata and `Status`.

use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, Json, Object, Text, Time},
    always_in_json, list_field, map_field, omitempty, opaque_field, optional_field,
};

/// Schema of `meta/v1.ObjectMeta`, which is field 1 of every object.
pub static OBJECT_META: MessageSchema = MessageSchema {
    name: "meta/v1.ObjectMeta",
    fields: &[
        omitempty(1, "name", Text),
        omitempty(2, "generateName", Text),
        omitempty(3, "namespace", Text),
        omitempty(4, "selfLink", Text),
        omitempty(5, "uid", Text),
        omitempty(6, "resourceVersion", Text),
        omitempty(7, "generation", Int),
        always_in_json(8, "creationTimestamp", Time),
        optional_field(9, "deletionTimestamp", Time),
        optional_field(10, "deletionGracePeriodSeconds", Int),
        map_field(11, "labels", Text),
        map_field(12, "annotations", Text),
        list_field(13, "ownerReferences", Object(&OWNER_REFERENCE)),
        list_field(14, "finalizers", Text),
        list_field(17, "managedFields", Object(&MANAGED_FIELDS_ENTRY)),
    ],
};

pub(super) static OWNER_REFERENCE: MessageSchema = MessageSchema {
    name: "meta/v1.OwnerReference",
    fields: &[
        always_in_json(1, "kind", Text),
        always_in_json(3, "name", Text),
        always_in_json(4, "uid", Text),
        always_in_json(5, "apiVersion", Text),
        optional_field(6, "controller", Bool),
        optional_field(7, "blockOwnerDeletion", Bool),
    ],
};

pub(super) static MANAGED_FIELDS_ENTRY: MessageSchema = MessageSchema {
    name: "meta/v1.ManagedFieldsEntry",
    fields: &[
        omitempty(1, "manager", Text),
        omitempty(2, "operation", Text),
        omitempty(3, "apiVersion", Text),
        optional_field(4, "time", Time),
        omitempty(6, "fieldsType", Text),
        optional_field(7, "fieldsV1", Json),
        omitempty(8, "subresource", Text),
    ],
};

/// Schema of `meta/v1.ListMeta`. No projection reads `shardInfo`.
pub static LIST_META: MessageSchema = MessageSchema {
    name: "meta/v1.ListMeta",
    fields: &[
        omitempty(1, "selfLink", Text),
        omitempty(2, "resourceVersion", Text),
        omitempty(3, "continue", Text),
        optional_field(4, "remainingItemCount", Int),
        opaque_field(5, "shardInfo"),
    ],
};

/// Schema of `meta/v1.Status`, the body of an error.
pub static STATUS: MessageSchema = MessageSchema {
    name: "meta/v1.Status",
    fields: &[
        always_in_json(1, "metadata", Object(&LIST_META)),
        omitempty(2, "status", Text),
        omitempty(3, "message", Text),
        omitempty(4, "reason", Text),
        optional_field(5, "details", Object(&STATUS_DETAILS)),
        omitempty(6, "code", Int),
    ],
};

pub(super) static STATUS_DETAILS: MessageSchema = MessageSchema {
    name: "meta/v1.StatusDetails",
    fields: &[
        omitempty(1, "name", Text),
        omitempty(2, "group", Text),
        omitempty(3, "kind", Text),
        list_field(4, "causes", Object(&STATUS_CAUSE)),
        omitempty(5, "retryAfterSeconds", Int),
        omitempty(6, "uid", Text),
    ],
};

pub(super) static STATUS_CAUSE: MessageSchema = MessageSchema {
    name: "meta/v1.StatusCause",
    fields: &[omitempty(1, "reason", Text), omitempty(2, "message", Text), omitempty(3, "field", Text)],
};

/// Schema to read only the metadata of an object: field 1 of every kind, and the only field of `PartialObjectMetadata`.
pub static ANY_OBJECT: MessageSchema =
    MessageSchema { name: "object", fields: &[always_in_json(1, "metadata", Object(&OBJECT_META))] };
