//! Protobuf schemas of workloads and ControllerRevisions.

use super::{
    meta::{LABEL_SELECTOR, OBJECT_META},
    pod::POD_TEMPLATE_SPEC,
    volume::PERSISTENT_VOLUME_CLAIM,
};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, IntOrString, Json, Object, Text, Time},
    field_always_in_json, list_field, map_field, nullable, omitempty_field, optional_field,
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

/// Schema of `apps/v1.ReplicaSet`.
pub static REPLICA_SET: MessageSchema = MessageSchema {
    name: "apps/v1.ReplicaSet",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&REPLICA_SET_SPEC)),
        field_always_in_json(3, "status", Object(&REPLICA_SET_STATUS)),
    ],
};

/// Schema of `apps/v1.Deployment`.
pub static DEPLOYMENT: MessageSchema = MessageSchema {
    name: "apps/v1.Deployment",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&DEPLOYMENT_SPEC)),
        field_always_in_json(3, "status", Object(&DEPLOYMENT_STATUS)),
    ],
};

/// Schema of `apps/v1.StatefulSet`.
pub static STATEFUL_SET: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSet",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&STATEFUL_SET_SPEC)),
        field_always_in_json(3, "status", Object(&STATEFUL_SET_STATUS)),
    ],
};

/// Schema of `apps/v1.DaemonSet`.
pub static DAEMON_SET: MessageSchema = MessageSchema {
    name: "apps/v1.DaemonSet",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&DAEMON_SET_SPEC)),
        field_always_in_json(3, "status", Object(&DAEMON_SET_STATUS)),
    ],
};

/// Schema of `core/v1.ReplicationController`.
pub static REPLICATION_CONTROLLER: MessageSchema = MessageSchema {
    name: "core/v1.ReplicationController",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&REPLICATION_CONTROLLER_SPEC)),
        field_always_in_json(3, "status", Object(&REPLICATION_CONTROLLER_STATUS)),
    ],
};

/// Schema of `batch/v1.Job`.
pub static JOB: MessageSchema = MessageSchema {
    name: "batch/v1.Job",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&JOB_SPEC)),
        field_always_in_json(3, "status", Object(&JOB_STATUS)),
    ],
};

pub(super) static REPLICA_SET_SPEC: MessageSchema = MessageSchema {
    name: "apps/v1.ReplicaSetSpec",
    fields: &[
        optional_field(1, "replicas", Int),
        nullable(optional_field(2, "selector", Object(&LABEL_SELECTOR))),
        field_always_in_json(3, "template", Object(&POD_TEMPLATE_SPEC)),
        omitempty_field(4, "minReadySeconds", Int),
    ],
};

pub(super) static REPLICA_SET_STATUS: MessageSchema = MessageSchema {
    name: "apps/v1.ReplicaSetStatus",
    fields: &[
        field_always_in_json(1, "replicas", Int),
        omitempty_field(2, "fullyLabeledReplicas", Int),
        omitempty_field(3, "observedGeneration", Int),
        omitempty_field(4, "readyReplicas", Int),
        omitempty_field(5, "availableReplicas", Int),
        list_field(6, "conditions", Object(&REPLICA_SET_CONDITION)),
        optional_field(7, "terminatingReplicas", Int),
    ],
};

pub(super) static DEPLOYMENT_SPEC: MessageSchema = MessageSchema {
    name: "apps/v1.DeploymentSpec",
    fields: &[
        optional_field(1, "replicas", Int),
        nullable(optional_field(2, "selector", Object(&LABEL_SELECTOR))),
        field_always_in_json(3, "template", Object(&POD_TEMPLATE_SPEC)),
        field_always_in_json(4, "strategy", Object(&DEPLOYMENT_STRATEGY)),
        omitempty_field(5, "minReadySeconds", Int),
        optional_field(6, "revisionHistoryLimit", Int),
        omitempty_field(7, "paused", Bool),
        optional_field(9, "progressDeadlineSeconds", Int),
    ],
};

pub(super) static DEPLOYMENT_STATUS: MessageSchema = MessageSchema {
    name: "apps/v1.DeploymentStatus",
    fields: &[
        omitempty_field(1, "observedGeneration", Int),
        omitempty_field(2, "replicas", Int),
        omitempty_field(3, "updatedReplicas", Int),
        omitempty_field(4, "availableReplicas", Int),
        omitempty_field(5, "unavailableReplicas", Int),
        list_field(6, "conditions", Object(&DEPLOYMENT_CONDITION)),
        omitempty_field(7, "readyReplicas", Int),
        optional_field(8, "collisionCount", Int),
        optional_field(9, "terminatingReplicas", Int),
    ],
};

pub(super) static STATEFUL_SET_SPEC: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSetSpec",
    fields: &[
        optional_field(1, "replicas", Int),
        nullable(optional_field(2, "selector", Object(&LABEL_SELECTOR))),
        field_always_in_json(3, "template", Object(&POD_TEMPLATE_SPEC)),
        list_field(4, "volumeClaimTemplates", Object(&PERSISTENT_VOLUME_CLAIM)),
        field_always_in_json(5, "serviceName", Text),
        omitempty_field(6, "podManagementPolicy", Text),
        field_always_in_json(7, "updateStrategy", Object(&STATEFUL_SET_UPDATE_STRATEGY)),
        optional_field(8, "revisionHistoryLimit", Int),
        omitempty_field(9, "minReadySeconds", Int),
        optional_field(
            10,
            "persistentVolumeClaimRetentionPolicy",
            Object(&STATEFUL_SET_PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY),
        ),
        optional_field(11, "ordinals", Object(&STATEFUL_SET_ORDINALS)),
    ],
};

pub(super) static STATEFUL_SET_STATUS: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSetStatus",
    fields: &[
        omitempty_field(1, "observedGeneration", Int),
        field_always_in_json(2, "replicas", Int),
        omitempty_field(3, "readyReplicas", Int),
        omitempty_field(4, "currentReplicas", Int),
        omitempty_field(5, "updatedReplicas", Int),
        omitempty_field(6, "currentRevision", Text),
        omitempty_field(7, "updateRevision", Text),
        optional_field(9, "collisionCount", Int),
        list_field(10, "conditions", Object(&STATEFUL_SET_CONDITION)),
        field_always_in_json(11, "availableReplicas", Int),
    ],
};

pub(super) static DAEMON_SET_SPEC: MessageSchema = MessageSchema {
    name: "apps/v1.DaemonSetSpec",
    fields: &[
        nullable(optional_field(1, "selector", Object(&LABEL_SELECTOR))),
        field_always_in_json(2, "template", Object(&POD_TEMPLATE_SPEC)),
        field_always_in_json(3, "updateStrategy", Object(&DAEMON_SET_UPDATE_STRATEGY)),
        omitempty_field(4, "minReadySeconds", Int),
        optional_field(6, "revisionHistoryLimit", Int),
    ],
};

pub(super) static DAEMON_SET_STATUS: MessageSchema = MessageSchema {
    name: "apps/v1.DaemonSetStatus",
    fields: &[
        field_always_in_json(1, "currentNumberScheduled", Int),
        field_always_in_json(2, "numberMisscheduled", Int),
        field_always_in_json(3, "desiredNumberScheduled", Int),
        field_always_in_json(4, "numberReady", Int),
        omitempty_field(5, "observedGeneration", Int),
        omitempty_field(6, "updatedNumberScheduled", Int),
        omitempty_field(7, "numberAvailable", Int),
        omitempty_field(8, "numberUnavailable", Int),
        optional_field(9, "collisionCount", Int),
        list_field(10, "conditions", Object(&DAEMON_SET_CONDITION)),
    ],
};

pub(super) static REPLICATION_CONTROLLER_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.ReplicationControllerSpec",
    fields: &[
        optional_field(1, "replicas", Int),
        map_field(2, "selector", Text),
        optional_field(3, "template", Object(&POD_TEMPLATE_SPEC)),
        omitempty_field(4, "minReadySeconds", Int),
    ],
};

pub(super) static REPLICATION_CONTROLLER_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.ReplicationControllerStatus",
    fields: &[
        field_always_in_json(1, "replicas", Int),
        omitempty_field(2, "fullyLabeledReplicas", Int),
        omitempty_field(3, "observedGeneration", Int),
        omitempty_field(4, "readyReplicas", Int),
        omitempty_field(5, "availableReplicas", Int),
        list_field(6, "conditions", Object(&REPLICATION_CONTROLLER_CONDITION)),
    ],
};

pub(super) static JOB_SPEC: MessageSchema = MessageSchema {
    name: "batch/v1.JobSpec",
    fields: &[
        optional_field(1, "parallelism", Int),
        optional_field(2, "completions", Int),
        optional_field(3, "activeDeadlineSeconds", Int),
        optional_field(4, "selector", Object(&LABEL_SELECTOR)),
        optional_field(5, "manualSelector", Bool),
        field_always_in_json(6, "template", Object(&POD_TEMPLATE_SPEC)),
        optional_field(7, "backoffLimit", Int),
        optional_field(8, "ttlSecondsAfterFinished", Int),
        optional_field(9, "completionMode", Text),
        optional_field(10, "suspend", Bool),
        optional_field(11, "podFailurePolicy", Object(&POD_FAILURE_POLICY)),
        optional_field(12, "backoffLimitPerIndex", Int),
        optional_field(13, "maxFailedIndexes", Int),
        optional_field(14, "podReplacementPolicy", Text),
        optional_field(15, "managedBy", Text),
        optional_field(16, "successPolicy", Object(&SUCCESS_POLICY)),
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
        optional_field(8, "uncountedTerminatedPods", Object(&UNCOUNTED_TERMINATED_PODS)),
        optional_field(9, "ready", Int),
        optional_field(10, "failedIndexes", Text),
        optional_field(11, "terminating", Int),
    ],
};

pub(super) static REPLICA_SET_CONDITION: MessageSchema = MessageSchema {
    name: "apps/v1.ReplicaSetCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastTransitionTime", Time),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "message", Text),
    ],
};

pub(super) static DEPLOYMENT_STRATEGY: MessageSchema = MessageSchema {
    name: "apps/v1.DeploymentStrategy",
    fields: &[omitempty_field(1, "type", Text), optional_field(2, "rollingUpdate", Object(&ROLLING_UPDATE_DEPLOYMENT))],
};

pub(super) static DEPLOYMENT_CONDITION: MessageSchema = MessageSchema {
    name: "apps/v1.DeploymentCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "message", Text),
        field_always_in_json(6, "lastUpdateTime", Time),
        field_always_in_json(7, "lastTransitionTime", Time),
    ],
};

pub(super) static STATEFUL_SET_UPDATE_STRATEGY: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSetUpdateStrategy",
    fields: &[
        omitempty_field(1, "type", Text),
        optional_field(2, "rollingUpdate", Object(&ROLLING_UPDATE_STATEFUL_SET_STRATEGY)),
    ],
};

pub(super) static STATEFUL_SET_PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
    fields: &[omitempty_field(1, "whenDeleted", Text), omitempty_field(2, "whenScaled", Text)],
};

pub(super) static STATEFUL_SET_ORDINALS: MessageSchema =
    MessageSchema { name: "apps/v1.StatefulSetOrdinals", fields: &[field_always_in_json(1, "start", Int)] };

pub(super) static STATEFUL_SET_CONDITION: MessageSchema = MessageSchema {
    name: "apps/v1.StatefulSetCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastTransitionTime", Time),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "message", Text),
    ],
};

pub(super) static DAEMON_SET_UPDATE_STRATEGY: MessageSchema = MessageSchema {
    name: "apps/v1.DaemonSetUpdateStrategy",
    fields: &[omitempty_field(1, "type", Text), optional_field(2, "rollingUpdate", Object(&ROLLING_UPDATE_DAEMON_SET))],
};

pub(super) static DAEMON_SET_CONDITION: MessageSchema = MessageSchema {
    name: "apps/v1.DaemonSetCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastTransitionTime", Time),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "message", Text),
    ],
};

pub(super) static REPLICATION_CONTROLLER_CONDITION: MessageSchema = MessageSchema {
    name: "core/v1.ReplicationControllerCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastTransitionTime", Time),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "message", Text),
    ],
};

pub(super) static POD_FAILURE_POLICY: MessageSchema = MessageSchema {
    name: "batch/v1.PodFailurePolicy",
    fields: &[nullable(list_field(1, "rules", Object(&POD_FAILURE_POLICY_RULE)))],
};

pub(super) static SUCCESS_POLICY: MessageSchema = MessageSchema {
    name: "batch/v1.SuccessPolicy",
    fields: &[nullable(list_field(1, "rules", Object(&SUCCESS_POLICY_RULE)))],
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

pub(super) static UNCOUNTED_TERMINATED_PODS: MessageSchema = MessageSchema {
    name: "batch/v1.UncountedTerminatedPods",
    fields: &[list_field(1, "succeeded", Text), list_field(2, "failed", Text)],
};

pub(super) static ROLLING_UPDATE_DEPLOYMENT: MessageSchema = MessageSchema {
    name: "apps/v1.RollingUpdateDeployment",
    fields: &[optional_field(1, "maxUnavailable", IntOrString), optional_field(2, "maxSurge", IntOrString)],
};

pub(super) static ROLLING_UPDATE_STATEFUL_SET_STRATEGY: MessageSchema = MessageSchema {
    name: "apps/v1.RollingUpdateStatefulSetStrategy",
    fields: &[optional_field(1, "partition", Int), optional_field(2, "maxUnavailable", IntOrString)],
};

pub(super) static ROLLING_UPDATE_DAEMON_SET: MessageSchema = MessageSchema {
    name: "apps/v1.RollingUpdateDaemonSet",
    fields: &[optional_field(1, "maxUnavailable", IntOrString), optional_field(2, "maxSurge", IntOrString)],
};

pub(super) static POD_FAILURE_POLICY_RULE: MessageSchema = MessageSchema {
    name: "batch/v1.PodFailurePolicyRule",
    fields: &[
        field_always_in_json(1, "action", Text),
        optional_field(2, "onExitCodes", Object(&POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT)),
        list_field(3, "onPodConditions", Object(&POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN)),
    ],
};

pub(super) static SUCCESS_POLICY_RULE: MessageSchema = MessageSchema {
    name: "batch/v1.SuccessPolicyRule",
    fields: &[optional_field(1, "succeededIndexes", Text), optional_field(2, "succeededCount", Int)],
};

pub(super) static POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT: MessageSchema = MessageSchema {
    name: "batch/v1.PodFailurePolicyOnExitCodesRequirement",
    fields: &[
        optional_field(1, "containerName", Text),
        field_always_in_json(2, "operator", Text),
        nullable(list_field(3, "values", Int)),
    ],
};

pub(super) static POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN: MessageSchema = MessageSchema {
    name: "batch/v1.PodFailurePolicyOnPodConditionsPattern",
    fields: &[field_always_in_json(1, "type", Text), field_always_in_json(2, "status", Text)],
};
