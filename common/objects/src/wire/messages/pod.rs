//! Protobuf schemas of Pods, containers, volumes and affinities.

use super::meta::OBJECT_META;
use crate::wire::schema::{
    Message,
    Shape::{Bool, Int, Object, Quantity, Text, Time},
    always, inlined, list, map, nonzero, opaque, optional,
};

/// Schema of `core/v1.Pod` with its nested messages, as far as projections read them.
pub static POD: Message = Message {
    name: "core/v1.Pod",
    fields: &[
        always(1, "metadata", Object(&OBJECT_META)),
        always(2, "spec", Object(&POD_SPEC)),
        always(3, "status", Object(&POD_STATUS)),
    ],
};

pub(super) static POD_SPEC: Message = Message {
    name: "core/v1.PodSpec",
    fields: &[
        list(1, "volumes", Object(&VOLUME)),
        list(2, "containers", Object(&CONTAINER)),
        nonzero(3, "restartPolicy", Text),
        optional(4, "terminationGracePeriodSeconds", Int),
        optional(5, "activeDeadlineSeconds", Int),
        nonzero(6, "dnsPolicy", Text),
        map(7, "nodeSelector", Text),
        nonzero(8, "serviceAccountName", Text),
        nonzero(9, "serviceAccount", Text),
        nonzero(10, "nodeName", Text),
        nonzero(11, "hostNetwork", Bool),
        nonzero(12, "hostPID", Bool),
        nonzero(13, "hostIPC", Bool),
        opaque(14, "securityContext"),
        opaque(15, "imagePullSecrets"),
        nonzero(16, "hostname", Text),
        nonzero(17, "subdomain", Text),
        optional(18, "affinity", Object(&AFFINITY)),
        nonzero(19, "schedulerName", Text),
        list(20, "initContainers", Object(&CONTAINER)),
        optional(21, "automountServiceAccountToken", Bool),
        list(22, "tolerations", Object(&TOLERATION)),
        opaque(23, "hostAliases"),
        nonzero(24, "priorityClassName", Text),
        optional(25, "priority", Int),
        opaque(26, "dnsConfig"),
        optional(27, "shareProcessNamespace", Bool),
        opaque(28, "readinessGates"),
        optional(29, "runtimeClassName", Text),
        optional(30, "enableServiceLinks", Bool),
        optional(31, "preemptionPolicy", Text),
        map(32, "overhead", Quantity),
        opaque(33, "topologySpreadConstraints"),
        opaque(34, "ephemeralContainers"),
        optional(35, "setHostnameAsFQDN", Bool),
        opaque(36, "os"),
        optional(37, "hostUsers", Bool),
        opaque(38, "schedulingGates"),
        opaque(39, "resourceClaims"),
        opaque(40, "resources"),
        optional(41, "hostnameOverride", Text),
        opaque(43, "schedulingGroup"),
    ],
};

pub(super) static VOLUME: Message =
    Message { name: "core/v1.Volume", fields: &[always(1, "name", Text), inlined(2, &VOLUME_SOURCE)] };

pub(super) static VOLUME_SOURCE: Message = Message {
    name: "core/v1.VolumeSource",
    fields: &[
        opaque(1, "hostPath"),
        opaque(2, "emptyDir"),
        opaque(3, "gcePersistentDisk"),
        opaque(4, "awsElasticBlockStore"),
        opaque(5, "gitRepo"),
        opaque(6, "secret"),
        opaque(7, "nfs"),
        opaque(8, "iscsi"),
        opaque(9, "glusterfs"),
        optional(10, "persistentVolumeClaim", Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        opaque(11, "rbd"),
        opaque(12, "flexVolume"),
        opaque(13, "cinder"),
        opaque(14, "cephfs"),
        opaque(15, "flocker"),
        opaque(16, "downwardAPI"),
        opaque(17, "fc"),
        opaque(18, "azureFile"),
        opaque(19, "configMap"),
        opaque(20, "vsphereVolume"),
        opaque(21, "quobyte"),
        opaque(22, "azureDisk"),
        opaque(23, "photonPersistentDisk"),
        opaque(24, "portworxVolume"),
        opaque(25, "scaleIO"),
        opaque(26, "projected"),
        opaque(27, "storageos"),
        opaque(28, "csi"),
        opaque(29, "ephemeral"),
        opaque(30, "image"),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Message = Message {
    name: "core/v1.PersistentVolumeClaimVolumeSource",
    fields: &[always(1, "claimName", Text), nonzero(2, "readOnly", Bool)],
};

pub(super) static CONTAINER: Message = Message {
    name: "core/v1.Container",
    fields: &[
        always(1, "name", Text),
        nonzero(2, "image", Text),
        list(3, "command", Text),
        list(4, "args", Text),
        nonzero(5, "workingDir", Text),
        list(6, "ports", Object(&CONTAINER_PORT)),
        opaque(7, "env"),
        opaque(8, "resources"),
        opaque(9, "volumeMounts"),
        opaque(10, "livenessProbe"),
        opaque(11, "readinessProbe"),
        opaque(12, "lifecycle"),
        nonzero(13, "terminationMessagePath", Text),
        nonzero(14, "imagePullPolicy", Text),
        opaque(15, "securityContext"),
        nonzero(16, "stdin", Bool),
        nonzero(17, "stdinOnce", Bool),
        nonzero(18, "tty", Bool),
        opaque(19, "envFrom"),
        nonzero(20, "terminationMessagePolicy", Text),
        opaque(21, "volumeDevices"),
        opaque(22, "startupProbe"),
        opaque(23, "resizePolicy"),
        optional(24, "restartPolicy", Text),
        opaque(25, "restartPolicyRules"),
    ],
};

pub(super) static CONTAINER_PORT: Message = Message {
    name: "core/v1.ContainerPort",
    fields: &[
        nonzero(1, "name", Text),
        nonzero(2, "hostPort", Int),
        always(3, "containerPort", Int),
        nonzero(4, "protocol", Text),
        nonzero(5, "hostIP", Text),
    ],
};

pub(super) static TOLERATION: Message = Message {
    name: "core/v1.Toleration",
    fields: &[
        nonzero(1, "key", Text),
        nonzero(2, "operator", Text),
        nonzero(3, "value", Text),
        nonzero(4, "effect", Text),
        optional(5, "tolerationSeconds", Int),
    ],
};

pub(super) static AFFINITY: Message = Message {
    name: "core/v1.Affinity",
    fields: &[
        optional(1, "nodeAffinity", Object(&NODE_AFFINITY)),
        opaque(2, "podAffinity"),
        opaque(3, "podAntiAffinity"),
    ],
};

pub(super) static NODE_AFFINITY: Message = Message {
    name: "core/v1.NodeAffinity",
    fields: &[
        optional(1, "requiredDuringSchedulingIgnoredDuringExecution", Object(&NODE_SELECTOR)),
        opaque(2, "preferredDuringSchedulingIgnoredDuringExecution"),
    ],
};

pub(super) static NODE_SELECTOR: Message =
    Message { name: "core/v1.NodeSelector", fields: &[list(1, "nodeSelectorTerms", Object(&NODE_SELECTOR_TERM))] };

pub(super) static NODE_SELECTOR_TERM: Message = Message {
    name: "core/v1.NodeSelectorTerm",
    fields: &[
        list(1, "matchExpressions", Object(&NODE_SELECTOR_REQUIREMENT)),
        list(2, "matchFields", Object(&NODE_SELECTOR_REQUIREMENT)),
    ],
};

pub(super) static NODE_SELECTOR_REQUIREMENT: Message = Message {
    name: "core/v1.NodeSelectorRequirement",
    fields: &[always(1, "key", Text), always(2, "operator", Text), list(3, "values", Text)],
};

pub(super) static POD_STATUS: Message = Message {
    name: "core/v1.PodStatus",
    fields: &[
        nonzero(1, "phase", Text),
        list(2, "conditions", Object(&POD_CONDITION)),
        nonzero(3, "message", Text),
        nonzero(4, "reason", Text),
        nonzero(5, "hostIP", Text),
        nonzero(6, "podIP", Text),
        optional(7, "startTime", Time),
        list(8, "containerStatuses", Object(&CONTAINER_STATUS)),
        nonzero(9, "qosClass", Text),
        list(10, "initContainerStatuses", Object(&CONTAINER_STATUS)),
        nonzero(11, "nominatedNodeName", Text),
        list(12, "podIPs", Object(&POD_IP)),
        list(13, "ephemeralContainerStatuses", Object(&CONTAINER_STATUS)),
        nonzero(14, "resize", Text),
        opaque(15, "resourceClaimStatuses"),
        opaque(16, "hostIPs"),
        nonzero(17, "observedGeneration", Int),
        opaque(18, "extendedResourceClaimStatus"),
        map(19, "allocatedResources", Quantity),
        opaque(20, "resources"),
        opaque(21, "nodeAllocatableResourceClaimStatuses"),
    ],
};

pub(super) static POD_CONDITION: Message = Message {
    name: "core/v1.PodCondition",
    fields: &[
        always(1, "type", Text),
        always(2, "status", Text),
        always(3, "lastProbeTime", Time),
        always(4, "lastTransitionTime", Time),
        nonzero(5, "reason", Text),
        nonzero(6, "message", Text),
        nonzero(7, "observedGeneration", Int),
    ],
};

pub(super) static CONTAINER_STATUS: Message = Message {
    name: "core/v1.ContainerStatus",
    fields: &[
        always(1, "name", Text),
        always(2, "state", Object(&CONTAINER_STATE)),
        always(3, "lastState", Object(&CONTAINER_STATE)),
        always(4, "ready", Bool),
        always(5, "restartCount", Int),
        always(6, "image", Text),
        always(7, "imageID", Text),
        nonzero(8, "containerID", Text),
        optional(9, "started", Bool),
        map(10, "allocatedResources", Quantity),
        opaque(11, "resources"),
        opaque(12, "volumeMounts"),
        opaque(13, "user"),
        opaque(14, "allocatedResourcesStatus"),
        optional(15, "stopSignal", Text),
    ],
};

pub(super) static CONTAINER_STATE: Message = Message {
    name: "core/v1.ContainerState",
    fields: &[
        opaque(1, "waiting"),
        opaque(2, "running"),
        optional(3, "terminated", Object(&CONTAINER_STATE_TERMINATED)),
    ],
};

pub(super) static CONTAINER_STATE_TERMINATED: Message = Message {
    name: "core/v1.ContainerStateTerminated",
    fields: &[
        always(1, "exitCode", Int),
        nonzero(2, "signal", Int),
        nonzero(3, "reason", Text),
        nonzero(4, "message", Text),
        always(5, "startedAt", Time),
        always(6, "finishedAt", Time),
        nonzero(7, "containerID", Text),
    ],
};

pub(super) static POD_IP: Message = Message { name: "core/v1.PodIP", fields: &[always(1, "ip", Text)] };
