//! Protobuf schemas of object metadata, list metadata and `Status`.

use crate::wire::schema::{
    Message,
    Shape::{Bool, Int, Json, Object, Text, Time},
    always, list, map, nonzero, opaque, optional,
};

/// Schema of `meta/v1.ObjectMeta`, which is field 1 of every object.
pub static OBJECT_META: Message = Message {
    name: "meta/v1.ObjectMeta",
    fields: &[
        nonzero(1, "name", Text),
        nonzero(2, "generateName", Text),
        nonzero(3, "namespace", Text),
        nonzero(4, "selfLink", Text),
        nonzero(5, "uid", Text),
        nonzero(6, "resourceVersion", Text),
        nonzero(7, "generation", Int),
        always(8, "creationTimestamp", Time),
        optional(9, "deletionTimestamp", Time),
        optional(10, "deletionGracePeriodSeconds", Int),
        map(11, "labels", Text),
        map(12, "annotations", Text),
        list(13, "ownerReferences", Object(&OWNER_REFERENCE)),
        list(14, "finalizers", Text),
        list(17, "managedFields", Object(&MANAGED_FIELDS_ENTRY)),
    ],
};

pub(super) static OWNER_REFERENCE: Message = Message {
    name: "meta/v1.OwnerReference",
    fields: &[
        always(1, "kind", Text),
        always(3, "name", Text),
        always(4, "uid", Text),
        always(5, "apiVersion", Text),
        optional(6, "controller", Bool),
        optional(7, "blockOwnerDeletion", Bool),
    ],
};

pub(super) static MANAGED_FIELDS_ENTRY: Message = Message {
    name: "meta/v1.ManagedFieldsEntry",
    fields: &[
        nonzero(1, "manager", Text),
        nonzero(2, "operation", Text),
        nonzero(3, "apiVersion", Text),
        optional(4, "time", Time),
        nonzero(6, "fieldsType", Text),
        optional(7, "fieldsV1", Json),
        nonzero(8, "subresource", Text),
    ],
};

/// Schema of `meta/v1.ListMeta`. No projection reads `shardInfo`.
pub static LIST_META: Message = Message {
    name: "meta/v1.ListMeta",
    fields: &[
        nonzero(1, "selfLink", Text),
        nonzero(2, "resourceVersion", Text),
        nonzero(3, "continue", Text),
        optional(4, "remainingItemCount", Int),
        opaque(5, "shardInfo"),
    ],
};

/// Schema of `meta/v1.Status`, the body of an error.
pub static STATUS: Message = Message {
    name: "meta/v1.Status",
    fields: &[
        always(1, "metadata", Object(&LIST_META)),
        nonzero(2, "status", Text),
        nonzero(3, "message", Text),
        nonzero(4, "reason", Text),
        optional(5, "details", Object(&STATUS_DETAILS)),
        nonzero(6, "code", Int),
    ],
};

pub(super) static STATUS_DETAILS: Message = Message {
    name: "meta/v1.StatusDetails",
    fields: &[
        nonzero(1, "name", Text),
        nonzero(2, "group", Text),
        nonzero(3, "kind", Text),
        list(4, "causes", Object(&STATUS_CAUSE)),
        nonzero(5, "retryAfterSeconds", Int),
        nonzero(6, "uid", Text),
    ],
};

pub(super) static STATUS_CAUSE: Message = Message {
    name: "meta/v1.StatusCause",
    fields: &[nonzero(1, "reason", Text), nonzero(2, "message", Text), nonzero(3, "field", Text)],
};

/// Schema to read only the metadata of an object: field 1 of every kind, and the only field of `PartialObjectMetadata`.
pub static OBJECT: Message = Message { name: "object", fields: &[always(1, "metadata", Object(&OBJECT_META))] };
