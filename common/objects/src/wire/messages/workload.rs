//! Protobuf schemas of Jobs, ControllerRevisions and `PersistentVolumeClaims`.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Int, Json, Object, Quantity, Text, Time},
    field_always_in_json, list_field, map_field, omitempty_field, opaque_field, optional_field,
};

/// Schema of `apps/v1.ControllerRevision`; `data` is JSON text.
pub static CONTROLLER_REVISION: MessageSchema = MessageSchema {
    name: "apps/v1.ControllerRevision",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "data", Json),
        field_always_in_json(3, "revision", Int),
    ],
};

/// Schema of `batch/v1.Job`. No projection reads `spec`.
pub static JOB: MessageSchema = MessageSchema {
    name: "batch/v1.Job",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        opaque_field(2, "spec"),
        field_always_in_json(3, "status", Object(&JOB_STATUS)),
    ],
};

pub(super) static JOB_STATUS: MessageSchema = MessageSchema {
    name: "batch/v1.JobStatus",
    fields: &[
        list_field(1, "conditions", Object(&JOB_CONDITION)),
        optional_field(2, "startTime", Time),
        optional_field(3, "completionTime", Time),
        omitempty_field(4, "active", Int),
        omitempty_field(5, "succeeded", Int),
        omitempty_field(6, "failed", Int),
        omitempty_field(7, "completedIndexes", Text),
        opaque_field(8, "uncountedTerminatedPods"),
        optional_field(9, "ready", Int),
        optional_field(10, "failedIndexes", Text),
        optional_field(11, "terminating", Int),
    ],
};

pub(super) static JOB_CONDITION: MessageSchema = MessageSchema {
    name: "batch/v1.JobCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastProbeTime", Time),
        field_always_in_json(4, "lastTransitionTime", Time),
        omitempty_field(5, "reason", Text),
        omitempty_field(6, "message", Text),
    ],
};

/// Schema of `core/v1.PersistentVolumeClaim`. No projection reads `status`.
pub static PERSISTENT_VOLUME_CLAIM: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaim",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
        opaque_field(3, "status"),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimSpec",
    fields: &[
        list_field(1, "accessModes", Text),
        field_always_in_json(2, "resources", Object(&VOLUME_RESOURCE_REQUIREMENTS)),
        omitempty_field(3, "volumeName", Text),
        opaque_field(4, "selector"),
        optional_field(5, "storageClassName", Text),
        optional_field(6, "volumeMode", Text),
        opaque_field(7, "dataSource"),
        opaque_field(8, "dataSourceRef"),
        optional_field(9, "volumeAttributesClassName", Text),
    ],
};

pub(super) static VOLUME_RESOURCE_REQUIREMENTS: MessageSchema = MessageSchema {
    name: "core/v1.VolumeResourceRequirements",
    fields: &[map_field(1, "limits", Quantity), map_field(2, "requests", Quantity)],
};
