//! Protobuf schemas of Jobs, ControllerRevisions and `PersistentVolumeClaims`.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    Message,
    Shape::{Int, Json, Object, Quantity, Text, Time},
    always, list, map, nonzero, opaque, optional,
};

/// Schema of `apps/v1.ControllerRevision`; `data` is JSON text.
pub static CONTROLLER_REVISION: Message = Message {
    name: "apps/v1.ControllerRevision",
    fields: &[always(1, "metadata", Object(&OBJECT_META)), always(2, "data", Json), always(3, "revision", Int)],
};

/// Schema of `batch/v1.Job`. No projection reads `spec`.
pub static JOB: Message = Message {
    name: "batch/v1.Job",
    fields: &[always(1, "metadata", Object(&OBJECT_META)), opaque(2, "spec"), always(3, "status", Object(&JOB_STATUS))],
};

pub(super) static JOB_STATUS: Message = Message {
    name: "batch/v1.JobStatus",
    fields: &[
        list(1, "conditions", Object(&JOB_CONDITION)),
        optional(2, "startTime", Time),
        optional(3, "completionTime", Time),
        nonzero(4, "active", Int),
        nonzero(5, "succeeded", Int),
        nonzero(6, "failed", Int),
        nonzero(7, "completedIndexes", Text),
        opaque(8, "uncountedTerminatedPods"),
        optional(9, "ready", Int),
        optional(10, "failedIndexes", Text),
        optional(11, "terminating", Int),
    ],
};

pub(super) static JOB_CONDITION: Message = Message {
    name: "batch/v1.JobCondition",
    fields: &[
        always(1, "type", Text),
        always(2, "status", Text),
        always(3, "lastProbeTime", Time),
        always(4, "lastTransitionTime", Time),
        nonzero(5, "reason", Text),
        nonzero(6, "message", Text),
    ],
};

/// Schema of `core/v1.PersistentVolumeClaim`. No projection reads `status`.
pub static PERSISTENT_VOLUME_CLAIM: Message = Message {
    name: "core/v1.PersistentVolumeClaim",
    fields: &[
        always(1, "metadata", Object(&OBJECT_META)),
        always(2, "spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
        opaque(3, "status"),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: Message = Message {
    name: "core/v1.PersistentVolumeClaimSpec",
    fields: &[
        list(1, "accessModes", Text),
        always(2, "resources", Object(&VOLUME_RESOURCE_REQUIREMENTS)),
        nonzero(3, "volumeName", Text),
        opaque(4, "selector"),
        optional(5, "storageClassName", Text),
        optional(6, "volumeMode", Text),
        opaque(7, "dataSource"),
        opaque(8, "dataSourceRef"),
        optional(9, "volumeAttributesClassName", Text),
    ],
};

pub(super) static VOLUME_RESOURCE_REQUIREMENTS: Message = Message {
    name: "core/v1.VolumeResourceRequirements",
    fields: &[map(1, "limits", Quantity), map(2, "requests", Quantity)],
};
