//! Protobuf schemas of Pods and Pod templates.

use super::{
    container::{
        APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS, SE_LINUX_OPTIONS, SECCOMP_PROFILE,
        WINDOWS_SECURITY_CONTEXT_OPTIONS,
    },
    meta::{LABEL_SELECTOR, OBJECT_META},
    volume::VOLUME,
};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, Object, Quantity, Text, Time},
    field_always_in_json, list_field, map_field, nullable, omitempty_field, opaque_field, optional_field,
};

/// Schema of `core/v1.Pod` with its nested messages.
pub static POD: MessageSchema = MessageSchema {
    name: "core/v1.Pod",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&POD_SPEC)),
        field_always_in_json(3, "status", Object(&POD_STATUS)),
    ],
};

/// Schema of `core/v1.PodTemplateSpec` with all its nested messages.
pub static POD_TEMPLATE_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PodTemplateSpec",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&POD_SPEC)),
    ],
};

/// Schema of `core/v1.PodSpec` with all its nested messages.
pub static POD_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PodSpec",
    fields: &[
        list_field(1, "volumes", Object(&VOLUME)),
        nullable(list_field(2, "containers", Object(&CONTAINER))),
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
        optional_field(14, "securityContext", Object(&POD_SECURITY_CONTEXT)),
        list_field(15, "imagePullSecrets", Object(&LOCAL_OBJECT_REFERENCE)),
        omitempty_field(16, "hostname", Text),
        omitempty_field(17, "subdomain", Text),
        optional_field(18, "affinity", Object(&AFFINITY)),
        omitempty_field(19, "schedulerName", Text),
        list_field(20, "initContainers", Object(&CONTAINER)),
        optional_field(21, "automountServiceAccountToken", Bool),
        list_field(22, "tolerations", Object(&TOLERATION)),
        list_field(23, "hostAliases", Object(&HOST_ALIAS)),
        omitempty_field(24, "priorityClassName", Text),
        optional_field(25, "priority", Int),
        optional_field(26, "dnsConfig", Object(&POD_DNS_CONFIG)),
        optional_field(27, "shareProcessNamespace", Bool),
        list_field(28, "readinessGates", Object(&POD_READINESS_GATE)),
        optional_field(29, "runtimeClassName", Text),
        optional_field(30, "enableServiceLinks", Bool),
        optional_field(31, "preemptionPolicy", Text),
        map_field(32, "overhead", Quantity),
        list_field(33, "topologySpreadConstraints", Object(&TOPOLOGY_SPREAD_CONSTRAINT)),
        list_field(34, "ephemeralContainers", Object(&EPHEMERAL_CONTAINER)),
        optional_field(35, "setHostnameAsFQDN", Bool),
        optional_field(36, "os", Object(&POD_OS)),
        optional_field(37, "hostUsers", Bool),
        list_field(38, "schedulingGates", Object(&POD_SCHEDULING_GATE)),
        list_field(39, "resourceClaims", Object(&POD_RESOURCE_CLAIM)),
        optional_field(40, "resources", Object(&RESOURCE_REQUIREMENTS)),
        optional_field(41, "hostnameOverride", Text),
        optional_field(43, "schedulingGroup", Object(&POD_SCHEDULING_GROUP)),
    ],
};

pub(super) static POD_SECURITY_CONTEXT: MessageSchema = MessageSchema {
    name: "core/v1.PodSecurityContext",
    fields: &[
        optional_field(1, "seLinuxOptions", Object(&SE_LINUX_OPTIONS)),
        optional_field(2, "runAsUser", Int),
        optional_field(3, "runAsNonRoot", Bool),
        list_field(4, "supplementalGroups", Int),
        optional_field(5, "fsGroup", Int),
        optional_field(6, "runAsGroup", Int),
        list_field(7, "sysctls", Object(&SYSCTL)),
        optional_field(8, "windowsOptions", Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        optional_field(9, "fsGroupChangePolicy", Text),
        optional_field(10, "seccompProfile", Object(&SECCOMP_PROFILE)),
        optional_field(11, "appArmorProfile", Object(&APP_ARMOR_PROFILE)),
        optional_field(12, "supplementalGroupsPolicy", Text),
        optional_field(13, "seLinuxChangePolicy", Text),
    ],
};

pub(super) static LOCAL_OBJECT_REFERENCE: MessageSchema =
    MessageSchema { name: "core/v1.LocalObjectReference", fields: &[omitempty_field(1, "name", Text)] };

/// Schema of `core/v1.Affinity`.
pub static AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.Affinity",
    fields: &[
        optional_field(1, "nodeAffinity", Object(&NODE_AFFINITY)),
        optional_field(2, "podAffinity", Object(&POD_AFFINITY)),
        optional_field(3, "podAntiAffinity", Object(&POD_ANTI_AFFINITY)),
    ],
};

/// Schema of `core/v1.Toleration`.
pub static TOLERATION: MessageSchema = MessageSchema {
    name: "core/v1.Toleration",
    fields: &[
        omitempty_field(1, "key", Text),
        omitempty_field(2, "operator", Text),
        omitempty_field(3, "value", Text),
        omitempty_field(4, "effect", Text),
        optional_field(5, "tolerationSeconds", Int),
    ],
};

pub(super) static HOST_ALIAS: MessageSchema = MessageSchema {
    name: "core/v1.HostAlias",
    fields: &[field_always_in_json(1, "ip", Text), list_field(2, "hostnames", Text)],
};

pub(super) static POD_DNS_CONFIG: MessageSchema = MessageSchema {
    name: "core/v1.PodDNSConfig",
    fields: &[
        list_field(1, "nameservers", Text),
        list_field(2, "searches", Text),
        list_field(3, "options", Object(&POD_DNS_CONFIG_OPTION)),
    ],
};

pub(super) static POD_READINESS_GATE: MessageSchema =
    MessageSchema { name: "core/v1.PodReadinessGate", fields: &[field_always_in_json(1, "conditionType", Text)] };

pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: MessageSchema = MessageSchema {
    name: "core/v1.TopologySpreadConstraint",
    fields: &[
        field_always_in_json(1, "maxSkew", Int),
        field_always_in_json(2, "topologyKey", Text),
        field_always_in_json(3, "whenUnsatisfiable", Text),
        optional_field(4, "labelSelector", Object(&LABEL_SELECTOR)),
        optional_field(5, "minDomains", Int),
        optional_field(6, "nodeAffinityPolicy", Text),
        optional_field(7, "nodeTaintsPolicy", Text),
        list_field(8, "matchLabelKeys", Text),
    ],
};

pub(super) static POD_OS: MessageSchema =
    MessageSchema { name: "core/v1.PodOS", fields: &[field_always_in_json(1, "name", Text)] };

pub(super) static POD_SCHEDULING_GATE: MessageSchema =
    MessageSchema { name: "core/v1.PodSchedulingGate", fields: &[field_always_in_json(1, "name", Text)] };

pub(super) static POD_RESOURCE_CLAIM: MessageSchema = MessageSchema {
    name: "core/v1.PodResourceClaim",
    fields: &[
        field_always_in_json(1, "name", Text),
        optional_field(3, "resourceClaimName", Text),
        optional_field(4, "resourceClaimTemplateName", Text),
    ],
};

pub(super) static POD_SCHEDULING_GROUP: MessageSchema =
    MessageSchema { name: "core/v1.PodSchedulingGroup", fields: &[optional_field(1, "podGroupName", Text)] };

pub(super) static SYSCTL: MessageSchema = MessageSchema {
    name: "core/v1.Sysctl",
    fields: &[field_always_in_json(1, "name", Text), field_always_in_json(2, "value", Text)],
};

/// Schema of `core/v1.NodeAffinity`.
pub static NODE_AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.NodeAffinity",
    fields: &[
        optional_field(1, "requiredDuringSchedulingIgnoredDuringExecution", Object(&NODE_SELECTOR)),
        list_field(2, "preferredDuringSchedulingIgnoredDuringExecution", Object(&PREFERRED_SCHEDULING_TERM)),
    ],
};

pub(super) static POD_AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.PodAffinity",
    fields: &[
        list_field(1, "requiredDuringSchedulingIgnoredDuringExecution", Object(&POD_AFFINITY_TERM)),
        list_field(2, "preferredDuringSchedulingIgnoredDuringExecution", Object(&WEIGHTED_POD_AFFINITY_TERM)),
    ],
};

pub(super) static POD_ANTI_AFFINITY: MessageSchema = MessageSchema {
    name: "core/v1.PodAntiAffinity",
    fields: &[
        list_field(1, "requiredDuringSchedulingIgnoredDuringExecution", Object(&POD_AFFINITY_TERM)),
        list_field(2, "preferredDuringSchedulingIgnoredDuringExecution", Object(&WEIGHTED_POD_AFFINITY_TERM)),
    ],
};

pub(super) static POD_DNS_CONFIG_OPTION: MessageSchema = MessageSchema {
    name: "core/v1.PodDNSConfigOption",
    fields: &[omitempty_field(1, "name", Text), optional_field(2, "value", Text)],
};

pub(super) static NODE_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.NodeSelector",
    fields: &[nullable(list_field(1, "nodeSelectorTerms", Object(&NODE_SELECTOR_TERM)))],
};

pub(super) static PREFERRED_SCHEDULING_TERM: MessageSchema = MessageSchema {
    name: "core/v1.PreferredSchedulingTerm",
    fields: &[
        field_always_in_json(1, "weight", Int),
        field_always_in_json(2, "preference", Object(&NODE_SELECTOR_TERM)),
    ],
};

pub(super) static POD_AFFINITY_TERM: MessageSchema = MessageSchema {
    name: "core/v1.PodAffinityTerm",
    fields: &[
        optional_field(1, "labelSelector", Object(&LABEL_SELECTOR)),
        list_field(2, "namespaces", Text),
        field_always_in_json(3, "topologyKey", Text),
        optional_field(4, "namespaceSelector", Object(&LABEL_SELECTOR)),
        list_field(5, "matchLabelKeys", Text),
        list_field(6, "mismatchLabelKeys", Text),
    ],
};

pub(super) static WEIGHTED_POD_AFFINITY_TERM: MessageSchema = MessageSchema {
    name: "core/v1.WeightedPodAffinityTerm",
    fields: &[
        field_always_in_json(1, "weight", Int),
        field_always_in_json(2, "podAffinityTerm", Object(&POD_AFFINITY_TERM)),
    ],
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
        optional_field(18, "extendedResourceClaimStatus", Object(&POD_EXTENDED_RESOURCE_CLAIM_STATUS)),
        map_field(19, "allocatedResources", Quantity),
        opaque_field(20, "resources"),
        opaque_field(21, "nodeAllocatableResourceClaimStatuses"),
    ],
};

pub(super) static POD_EXTENDED_RESOURCE_CLAIM_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.PodExtendedResourceClaimStatus",
    fields: &[opaque_field(1, "requestMappings"), field_always_in_json(2, "resourceClaimName", Text)],
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
        optional_field(11, "resources", Object(&RESOURCE_REQUIREMENTS)),
        opaque_field(12, "volumeMounts"),
        opaque_field(13, "user"),
        opaque_field(14, "allocatedResourcesStatus"),
        optional_field(15, "stopSignal", Text),
    ],
};

pub(super) static CONTAINER_STATE: MessageSchema = MessageSchema {
    name: "core/v1.ContainerState",
    fields: &[
        optional_field(1, "waiting", Object(&CONTAINER_STATE_WAITING)),
        opaque_field(2, "running"),
        optional_field(3, "terminated", Object(&CONTAINER_STATE_TERMINATED)),
    ],
};

pub(super) static CONTAINER_STATE_WAITING: MessageSchema = MessageSchema {
    name: "core/v1.ContainerStateWaiting",
    fields: &[omitempty_field(1, "reason", Text), omitempty_field(2, "message", Text)],
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
