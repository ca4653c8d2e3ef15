//! Protobuf schemas of object metadata, list metadata, label selectors, `Status` and the options of deletions.

use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, Json, Object, Text, Time},
    field_always_in_json, list_field, map_field, omitempty_field, opaque_field, optional_field,
};

/// Schema of `meta/v1.ObjectMeta`, which is field 1 of every object.
pub static OBJECT_META: MessageSchema = MessageSchema {
    name: "meta/v1.ObjectMeta",
    fields: &[
        omitempty_field(1, "name", Text),
        omitempty_field(2, "generateName", Text),
        omitempty_field(3, "namespace", Text),
        omitempty_field(4, "selfLink", Text),
        omitempty_field(5, "uid", Text),
        omitempty_field(6, "resourceVersion", Text),
        omitempty_field(7, "generation", Int),
        omitempty_field(8, "creationTimestamp", Time),
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
        field_always_in_json(1, "kind", Text),
        field_always_in_json(3, "name", Text),
        field_always_in_json(4, "uid", Text),
        field_always_in_json(5, "apiVersion", Text),
        optional_field(6, "controller", Bool),
        optional_field(7, "blockOwnerDeletion", Bool),
    ],
};

pub(super) static MANAGED_FIELDS_ENTRY: MessageSchema = MessageSchema {
    name: "meta/v1.ManagedFieldsEntry",
    fields: &[
        omitempty_field(1, "manager", Text),
        omitempty_field(2, "operation", Text),
        omitempty_field(3, "apiVersion", Text),
        optional_field(4, "time", Time),
        omitempty_field(6, "fieldsType", Text),
        optional_field(7, "fieldsV1", Json),
        omitempty_field(8, "subresource", Text),
    ],
};

/// Schema of `meta/v1.LabelSelector`.
pub static LABEL_SELECTOR: MessageSchema = MessageSchema {
    name: "meta/v1.LabelSelector",
    fields: &[
        map_field(1, "matchLabels", Text),
        list_field(2, "matchExpressions", Object(&LABEL_SELECTOR_REQUIREMENT)),
    ],
};

pub(super) static LABEL_SELECTOR_REQUIREMENT: MessageSchema = MessageSchema {
    name: "meta/v1.LabelSelectorRequirement",
    fields: &[
        field_always_in_json(1, "key", Text),
        field_always_in_json(2, "operator", Text),
        list_field(3, "values", Text),
    ],
};

/// Schema of `meta/v1.ListMeta`. No projection reads `shardInfo`.
pub static LIST_META: MessageSchema = MessageSchema {
    name: "meta/v1.ListMeta",
    fields: &[
        omitempty_field(1, "selfLink", Text),
        omitempty_field(2, "resourceVersion", Text),
        omitempty_field(3, "continue", Text),
        optional_field(4, "remainingItemCount", Int),
        opaque_field(5, "shardInfo"),
    ],
};

/// Schema of `meta/v1.Status`, the body of an error.
pub static STATUS: MessageSchema = MessageSchema {
    name: "meta/v1.Status",
    fields: &[
        field_always_in_json(1, "metadata", Object(&LIST_META)),
        omitempty_field(2, "status", Text),
        omitempty_field(3, "message", Text),
        omitempty_field(4, "reason", Text),
        optional_field(5, "details", Object(&STATUS_DETAILS)),
        omitempty_field(6, "code", Int),
    ],
};

pub(super) static STATUS_DETAILS: MessageSchema = MessageSchema {
    name: "meta/v1.StatusDetails",
    fields: &[
        omitempty_field(1, "name", Text),
        omitempty_field(2, "group", Text),
        omitempty_field(3, "kind", Text),
        list_field(4, "causes", Object(&STATUS_CAUSE)),
        omitempty_field(5, "retryAfterSeconds", Int),
        omitempty_field(6, "uid", Text),
    ],
};

pub(super) static STATUS_CAUSE: MessageSchema = MessageSchema {
    name: "meta/v1.StatusCause",
    fields: &[
        omitempty_field(1, "reason", Text),
        omitempty_field(2, "message", Text),
        omitempty_field(3, "field", Text),
    ],
};

/// Schema of `meta/v1.DeleteOptions`, the body of a deletion.
pub static DELETE_OPTIONS: MessageSchema = MessageSchema {
    name: "meta/v1.DeleteOptions",
    fields: &[
        optional_field(1, "gracePeriodSeconds", Int),
        optional_field(2, "preconditions", Object(&PRECONDITIONS)),
        optional_field(3, "orphanDependents", Bool),
        optional_field(4, "propagationPolicy", Text),
        list_field(5, "dryRun", Text),
        optional_field(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Bool),
    ],
};

static PRECONDITIONS: MessageSchema = MessageSchema {
    name: "meta/v1.Preconditions",
    fields: &[optional_field(1, "uid", Text), optional_field(2, "resourceVersion", Text)],
};

pub(super) static CONDITION: MessageSchema = MessageSchema {
    name: "meta/v1.Condition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        omitempty_field(3, "observedGeneration", Int),
        field_always_in_json(4, "lastTransitionTime", Time),
        field_always_in_json(5, "reason", Text),
        field_always_in_json(6, "message", Text),
    ],
};

/// Schema to read only the metadata of an object: field 1 of every kind, and the only field of `PartialObjectMetadata`.
pub static METADATA_ONLY_OBJECT: MessageSchema =
    MessageSchema { name: "object", fields: &[field_always_in_json(1, "metadata", Object(&OBJECT_META))] };
