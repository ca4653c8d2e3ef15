//! Protobuf schemas of Pods, containers, volumes and affinities.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, Object, Quantity, Text, Time},
    field_always_in_json, inlined_message_field, list_field, map_field, omitempty_field, opaque_field, optional_field,
};

/// Schema of `core/v1.Pod` with its nested messages, as far as projections read them.
pub static POD: MessageSchema = MessageSchema {
    name: "core/v1.Pod",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&POD_SPEC)),
        field_always_in_json(3, "status", Object(&POD_STATUS)),
    ],
};

pub(super) static POD_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PodSpec",
    fields: &[
        list_field(1, "volumes", Object(&VOLUME)),
        list_field(2, "containers", Object(&CONTAINER)),
        omitempty_field(3, "restartPolicy", Text),
        optional_field(4, "terminationGracePeriodSeconds", Int),
        optional_field(5, "activeDeadlineSeconds", Int),
        omitempty_field(6, "dnsPolicy", Text),
        map_field(7, "nodeSelector", Text),
        omitempty_field(8, "serviceAccountName", Text),
        omitempty_field(9, "serviceAccount", Text),
        omitempty_field(10, "nodeName", Text),
        omitempty_field(11, "hostNetwork", Bool),
        omitempty_field(12, "hostPID", Bool),
        omitempty_field(13, "hostIPC", Bool),
        opaque_field(14, "securityContext"),
        opaque_field(15, "imagePullSecrets"),
        omitempty_field(16, "hostname", Text),
        omitempty_field(17, "subdomain", Text),
        optional_field(18, "affinity", Object(&AFFINITY)),
        omitempty_field(19, "schedulerName", Text),
        list_field(20, "initContainers", Object(&CONTAINER)),
        optional_field(21, "automountServiceAccountToken", Bool),
        list_field(22, "tolerations", Object(&TOLERATION)),
        opaque_field(23, "hostAliases"),
        omitempty_field(24, "priorityClassName", Text),
        optional_field(25, "priority", Int),
        opaque_field(26, "dnsConfig"),
        optional_field(27, "shareProcessNamespace", Bool),
        opaque_field(28, "readinessGates"),
        optional_field(29, "runtimeClassName", Text),
        optional_field(30, "enableServiceLinks", Bool),
        optional_field(31, "preemptionPolicy", Text),
        map_field(32, "overhead", Quantity),
        opaque_field(33, "topologySpreadConstraints"),
        opaque_field(34, "ephemeralContainers"),
        optional_field(35, "setHostnameAsFQDN", Bool),
        opaque_field(36, "os"),
        optional_field(37, "hostUsers", Bool),
        opaque_field(38, "schedulingGates"),
        opaque_field(39, "resourceClaims"),
        opaque_field(40, "resources"),
        optional_field(41, "hostnameOverride", Text),
        opaque_field(43, "schedulingGroup"),
    ],
};

pub(super) static VOLUME: MessageSchema = MessageSchema {
    name: "core/v1.Volume",
    fields: &[field_always_in_json(1, "name", Text), inlined_message_field(2, &VOLUME_SOURCE)],
};

pub(super) static VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.VolumeSource",
    fields: &[
        opaque_field(1, "hostPath"),
        opaque_field(2, "emptyDir"),
        opaque_field(3, "gcePersistentDisk"),
        opaque_field(4, "awsElasticBlockStore"),
        opaque_field(5, "gitRepo"),
        opaque_field(6, "secret"),
        opaque_field(7, "nfs"),
        opaque_field(8, "iscsi"),
        opaque_field(9, "glusterfs"),
        optional_field(10, "persistentVolumeClaim", Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        opaque_field(11, "rbd"),
        opaque_field(12, "flexVolume"),
        opaque_field(13, "cinder"),
        opaque_field(14, "cephfs"),
        opaque_field(15, "flocker"),
        opaque_field(16, "downwardAPI"),
        opaque_field(17, "fc"),
        opaque_field(18, "azureFile"),
        opaque_field(19, "configMap"),
        opaque_field(20, "vsphereVolume"),
        opaque_field(21, "quobyte"),
        opaque_field(22, "azureDisk"),
        opaque_field(23, "photonPersistentDisk"),
        opaque_field(24, "portworxVolume"),
        opaque_field(25, "scaleIO"),
        opaque_field(26, "projected"),
        opaque_field(27, "storageos"),
        opaque_field(28, "csi"),
        opaque_field(29, "ephemeral"),
        opaque_field(30, "image"),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimVolumeSource",
    fields: &[field_always_in_json(1, "claimName", Text), omitempty_field(2, "readOnly", Bool)],
};

pub(super) static CONTAINER: MessageSchema = MessageSchema {
    name: "core/v1.Container",
    fields: &[
        field_always_in_json(1, "name", Text),
        omitempty_field(2, "image", Text),
        list_field(3, "command", Text),
        list_field(4, "args", Text),
        omitempty_field(5, "workingDir", Text),
        list_field(6, "ports", Object(&CONTAINER_PORT)),
        opaque_field(7, "env"),
        opaque_field(8, "resources"),
        opaque_field(9, "volumeMounts"),
        opaque_field(10, "livenessProbe"),
        opaque_field(11, "readinessProbe"),
        opaque_field(12, "lifecycle"),
        omitempty_field(13, "terminationMessagePath", Text),
        omitempty_field(14, "imagePullPolicy", Text),
        opaque_field(15, "securityContext"),
        omitempty_field(16, "stdin", Bool),
        omitempty_field(17, "stdinOnce", Bool),
        omitempty_field(18, "tty", Bool),
        opaque_field(19, "envFrom"),
        omitempty_field(20, "terminationMessagePolicy", Text),
        opaque_field(21, "volumeDevices"),
        opaque_field(22, "startupProbe"),
        opaque_field(23, "resizePolicy"),
        optional_field(24, "restartPolicy", Text),
        opaque_field(25, "restartPolicyRules"),
    ],
};

pub(super) static CONTAINER_PORT: MessageSchema = MessageSchema {
    name: "core/v1.ContainerPort",
    fields: &[
        omitempty_field(1, "name", Text),
        omitempty_field(2, "hostPort", Int),
        field_always_in_json(3, "containerPort", Int),
        omitempty_field(4, "protocol", Text),
        omitempty_field(5, "hostIP", Text),
    ],
};

pub(super) static TOLERATION: MessageSchema = MessageSchema {
    name: "core/v1.Toleration",
    fields: &[
        omitempty_field(1, "key", Text),
        omitempty_field(2, "operator", Text),
        omitempty_field(3, "value", Text),
        omitempty_field(4, "effect", Text),
        optional_field(5, "tolerationSeconds", Int),
    ],
};

pub(super) static AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.Affinity",
    fields: &[
        optional_field(1, "nodeAffinity", Object(&NODE_AFFINITY)),
        opaque_field(2, "podAffinity"),
        opaque_field(3, "podAntiAffinity"),
    ],
};

pub(super) static NODE_AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.NodeAffinity",
    fields: &[
        optional_field(1, "requiredDuringSchedulingIgnoredDuringExecution", Object(&NODE_SELECTOR)),
        opaque_field(2, "preferredDuringSchedulingIgnoredDuringExecution"),
    ],
};

pub(super) static NODE_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.NodeSelector",
    fields: &[list_field(1, "nodeSelectorTerms", Object(&NODE_SELECTOR_TERM))],
};

pub(super) static NODE_SELECTOR_TERM: MessageSchema = MessageSchema {
    name: "core/v1.NodeSelectorTerm",
    fields: &[
        list_field(1, "matchExpressions", Object(&NODE_SELECTOR_REQUIREMENT)),
        list_field(2, "matchFields", Object(&NODE_SELECTOR_REQUIREMENT)),
    ],
};

pub(super) static NODE_SELECTOR_REQUIREMENT: MessageSchema = MessageSchema {
    name: "core/v1.NodeSelectorRequirement",
    fields: &[
        field_always_in_json(1, "key", Text),
        field_always_in_json(2, "operator", Text),
        list_field(3, "values", Text),
    ],
};

pub(super) static POD_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.PodStatus",
    fields: &[
        omitempty_field(1, "phase", Text),
        list_field(2, "conditions", Object(&POD_CONDITION)),
        omitempty_field(3, "message", Text),
        omitempty_field(4, "reason", Text),
        omitempty_field(5, "hostIP", Text),
        omitempty_field(6, "podIP", Text),
        optional_field(7, "startTime", Time),
        list_field(8, "containerStatuses", Object(&CONTAINER_STATUS)),
        omitempty_field(9, "qosClass", Text),
        list_field(10, "initContainerStatuses", Object(&CONTAINER_STATUS)),
        omitempty_field(11, "nominatedNodeName", Text),
        list_field(12, "podIPs", Object(&POD_IP)),
        list_field(13, "ephemeralContainerStatuses", Object(&CONTAINER_STATUS)),
        omitempty_field(14, "resize", Text),
        opaque_field(15, "resourceClaimStatuses"),
        opaque_field(16, "hostIPs"),
        omitempty_field(17, "observedGeneration", Int),
        opaque_field(18, "extendedResourceClaimStatus"),
        map_field(19, "allocatedResources", Quantity),
        opaque_field(20, "resources"),
        opaque_field(21, "nodeAllocatableResourceClaimStatuses"),
    ],
};

pub(super) static POD_CONDITION: MessageSchema = MessageSchema {
    name: "core/v1.PodCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastProbeTime", Time),
        field_always_in_json(4, "lastTransitionTime", Time),
        omitempty_field(5, "reason", Text),
        omitempty_field(6, "message", Text),
        omitempty_field(7, "observedGeneration", Int),
    ],
};

pub(super) static CONTAINER_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.ContainerStatus",
    fields: &[
        field_always_in_json(1, "name", Text),
        field_always_in_json(2, "state", Object(&CONTAINER_STATE)),
        field_always_in_json(3, "lastState", Object(&CONTAINER_STATE)),
        field_always_in_json(4, "ready", Bool),
        field_always_in_json(5, "restartCount", Int),
        field_always_in_json(6, "image", Text),
        field_always_in_json(7, "imageID", Text),
        omitempty_field(8, "containerID", Text),
        optional_field(9, "started", Bool),
        map_field(10, "allocatedResources", Quantity),
        opaque_field(11, "resources"),
        opaque_field(12, "volumeMounts"),
        opaque_field(13, "user"),
        opaque_field(14, "allocatedResourcesStatus"),
        optional_field(15, "stopSignal", Text),
    ],
};

pub(super) static CONTAINER_STATE: MessageSchema = MessageSchema {
    name: "core/v1.ContainerState",
    fields: &[
        opaque_field(1, "waiting"),
        opaque_field(2, "running"),
        optional_field(3, "terminated", Object(&CONTAINER_STATE_TERMINATED)),
    ],
};

pub(super) static CONTAINER_STATE_TERMINATED: MessageSchema = MessageSchema {
    name: "core/v1.ContainerStateTerminated",
    fields: &[
        field_always_in_json(1, "exitCode", Int),
        omitempty_field(2, "signal", Int),
        omitempty_field(3, "reason", Text),
        omitempty_field(4, "message", Text),
        field_always_in_json(5, "startedAt", Time),
        field_always_in_json(6, "finishedAt", Time),
        omitempty_field(7, "containerID", Text),
    ],
};

pub(super) static POD_IP: MessageSchema =
    MessageSchema { name: "core/v1.PodIP", fields: &[field_always_in_json(1, "ip", Text)] };
