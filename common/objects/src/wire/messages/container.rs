//! Protobuf schemas of the containers of Pods.

use super::pod::LOCAL_OBJECT_REFERENCE;
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, IntOrString, Object, Quantity, Text},
    field_always_in_json, inlined_message_field, list_field, map_field, nullable, omitempty_field, optional_field,
};

/// Schema of `core/v1.Container`.
pub static CONTAINER: MessageSchema = MessageSchema {
    name: "core/v1.Container",
    fields: &[
        field_always_in_json(1, "name", Text),
        omitempty_field(2, "image", Text),
        list_field(3, "command", Text),
        list_field(4, "args", Text),
        omitempty_field(5, "workingDir", Text),
        list_field(6, "ports", Object(&CONTAINER_PORT)),
        list_field(7, "env", Object(&ENV_VAR)),
        field_always_in_json(8, "resources", Object(&RESOURCE_REQUIREMENTS)),
        list_field(9, "volumeMounts", Object(&VOLUME_MOUNT)),
        optional_field(10, "livenessProbe", Object(&PROBE)),
        optional_field(11, "readinessProbe", Object(&PROBE)),
        optional_field(12, "lifecycle", Object(&LIFECYCLE)),
        omitempty_field(13, "terminationMessagePath", Text),
        omitempty_field(14, "imagePullPolicy", Text),
        optional_field(15, "securityContext", Object(&SECURITY_CONTEXT)),
        omitempty_field(16, "stdin", Bool),
        omitempty_field(17, "stdinOnce", Bool),
        omitempty_field(18, "tty", Bool),
        list_field(19, "envFrom", Object(&ENV_FROM_SOURCE)),
        omitempty_field(20, "terminationMessagePolicy", Text),
        list_field(21, "volumeDevices", Object(&VOLUME_DEVICE)),
        optional_field(22, "startupProbe", Object(&PROBE)),
        list_field(23, "resizePolicy", Object(&CONTAINER_RESIZE_POLICY)),
        optional_field(24, "restartPolicy", Text),
        list_field(25, "restartPolicyRules", Object(&CONTAINER_RESTART_RULE)),
    ],
};

pub(super) static EPHEMERAL_CONTAINER: MessageSchema = MessageSchema {
    name: "core/v1.EphemeralContainer",
    fields: &[inlined_message_field(1, &EPHEMERAL_CONTAINER_COMMON), omitempty_field(2, "targetContainerName", Text)],
};

pub(super) static EPHEMERAL_CONTAINER_COMMON: MessageSchema = MessageSchema {
    name: "core/v1.EphemeralContainerCommon",
    fields: &[
        field_always_in_json(1, "name", Text),
        omitempty_field(2, "image", Text),
        list_field(3, "command", Text),
        list_field(4, "args", Text),
        omitempty_field(5, "workingDir", Text),
        list_field(6, "ports", Object(&CONTAINER_PORT)),
        list_field(7, "env", Object(&ENV_VAR)),
        field_always_in_json(8, "resources", Object(&RESOURCE_REQUIREMENTS)),
        list_field(9, "volumeMounts", Object(&VOLUME_MOUNT)),
        optional_field(10, "livenessProbe", Object(&PROBE)),
        optional_field(11, "readinessProbe", Object(&PROBE)),
        optional_field(12, "lifecycle", Object(&LIFECYCLE)),
        omitempty_field(13, "terminationMessagePath", Text),
        omitempty_field(14, "imagePullPolicy", Text),
        optional_field(15, "securityContext", Object(&SECURITY_CONTEXT)),
        omitempty_field(16, "stdin", Bool),
        omitempty_field(17, "stdinOnce", Bool),
        omitempty_field(18, "tty", Bool),
        list_field(19, "envFrom", Object(&ENV_FROM_SOURCE)),
        omitempty_field(20, "terminationMessagePolicy", Text),
        list_field(21, "volumeDevices", Object(&VOLUME_DEVICE)),
        optional_field(22, "startupProbe", Object(&PROBE)),
        list_field(23, "resizePolicy", Object(&CONTAINER_RESIZE_POLICY)),
        optional_field(24, "restartPolicy", Text),
        list_field(25, "restartPolicyRules", Object(&CONTAINER_RESTART_RULE)),
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

pub(super) static ENV_FROM_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.EnvFromSource",
    fields: &[
        omitempty_field(1, "prefix", Text),
        optional_field(2, "configMapRef", Object(&CONFIG_MAP_ENV_SOURCE)),
        optional_field(3, "secretRef", Object(&SECRET_ENV_SOURCE)),
    ],
};

pub(super) static CONFIG_MAP_ENV_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ConfigMapEnvSource",
    fields: &[inlined_message_field(1, &LOCAL_OBJECT_REFERENCE), optional_field(2, "optional", Bool)],
};

pub(super) static SECRET_ENV_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.SecretEnvSource",
    fields: &[inlined_message_field(1, &LOCAL_OBJECT_REFERENCE), optional_field(2, "optional", Bool)],
};

/// Schema of `core/v1.EnvVar`.
pub static ENV_VAR: MessageSchema = MessageSchema {
    name: "core/v1.EnvVar",
    fields: &[
        field_always_in_json(1, "name", Text),
        omitempty_field(2, "value", Text),
        optional_field(3, "valueFrom", Object(&ENV_VAR_SOURCE)),
    ],
};

pub(super) static ENV_VAR_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.EnvVarSource",
    fields: &[
        optional_field(1, "fieldRef", Object(&OBJECT_FIELD_SELECTOR)),
        optional_field(2, "resourceFieldRef", Object(&RESOURCE_FIELD_SELECTOR)),
        optional_field(3, "configMapKeyRef", Object(&CONFIG_MAP_KEY_SELECTOR)),
        optional_field(4, "secretKeyRef", Object(&SECRET_KEY_SELECTOR)),
        optional_field(5, "fileKeyRef", Object(&FILE_KEY_SELECTOR)),
    ],
};

pub(super) static OBJECT_FIELD_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.ObjectFieldSelector",
    fields: &[omitempty_field(1, "apiVersion", Text), field_always_in_json(2, "fieldPath", Text)],
};

pub(super) static RESOURCE_FIELD_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.ResourceFieldSelector",
    fields: &[
        omitempty_field(1, "containerName", Text),
        field_always_in_json(2, "resource", Text),
        field_always_in_json(3, "divisor", Quantity),
    ],
};

pub(super) static CONFIG_MAP_KEY_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.ConfigMapKeySelector",
    fields: &[
        inlined_message_field(1, &LOCAL_OBJECT_REFERENCE),
        field_always_in_json(2, "key", Text),
        optional_field(3, "optional", Bool),
    ],
};

pub(super) static SECRET_KEY_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.SecretKeySelector",
    fields: &[
        inlined_message_field(1, &LOCAL_OBJECT_REFERENCE),
        field_always_in_json(2, "key", Text),
        optional_field(3, "optional", Bool),
    ],
};

pub(super) static FILE_KEY_SELECTOR: MessageSchema = MessageSchema {
    name: "core/v1.FileKeySelector",
    fields: &[
        field_always_in_json(1, "volumeName", Text),
        field_always_in_json(2, "path", Text),
        field_always_in_json(3, "key", Text),
        optional_field(4, "optional", Bool),
    ],
};

pub(super) static RESOURCE_REQUIREMENTS: MessageSchema = MessageSchema {
    name: "core/v1.ResourceRequirements",
    fields: &[
        map_field(1, "limits", Quantity),
        map_field(2, "requests", Quantity),
        list_field(3, "claims", Object(&RESOURCE_CLAIM)),
    ],
};

pub(super) static RESOURCE_CLAIM: MessageSchema = MessageSchema {
    name: "core/v1.ResourceClaim",
    fields: &[field_always_in_json(1, "name", Text), omitempty_field(2, "request", Text)],
};

pub(super) static CONTAINER_RESIZE_POLICY: MessageSchema = MessageSchema {
    name: "core/v1.ContainerResizePolicy",
    fields: &[field_always_in_json(1, "resourceName", Text), field_always_in_json(2, "restartPolicy", Text)],
};

pub(super) static CONTAINER_RESTART_RULE: MessageSchema = MessageSchema {
    name: "core/v1.ContainerRestartRule",
    fields: &[
        omitempty_field(1, "action", Text),
        optional_field(2, "exitCodes", Object(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
    ],
};

pub(super) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: MessageSchema = MessageSchema {
    name: "core/v1.ContainerRestartRuleOnExitCodes",
    fields: &[omitempty_field(1, "operator", Text), list_field(2, "values", Int)],
};

pub(super) static VOLUME_MOUNT: MessageSchema = MessageSchema {
    name: "core/v1.VolumeMount",
    fields: &[
        field_always_in_json(1, "name", Text),
        omitempty_field(2, "readOnly", Bool),
        field_always_in_json(3, "mountPath", Text),
        omitempty_field(4, "subPath", Text),
        optional_field(5, "mountPropagation", Text),
        omitempty_field(6, "subPathExpr", Text),
        optional_field(7, "recursiveReadOnly", Text),
    ],
};

pub(super) static VOLUME_DEVICE: MessageSchema = MessageSchema {
    name: "core/v1.VolumeDevice",
    fields: &[field_always_in_json(1, "name", Text), field_always_in_json(2, "devicePath", Text)],
};

pub(super) static PROBE: MessageSchema = MessageSchema {
    name: "core/v1.Probe",
    fields: &[
        inlined_message_field(1, &PROBE_HANDLER),
        omitempty_field(2, "initialDelaySeconds", Int),
        omitempty_field(3, "timeoutSeconds", Int),
        omitempty_field(4, "periodSeconds", Int),
        omitempty_field(5, "successThreshold", Int),
        omitempty_field(6, "failureThreshold", Int),
        optional_field(7, "terminationGracePeriodSeconds", Int),
    ],
};

pub(super) static PROBE_HANDLER: MessageSchema = MessageSchema {
    name: "core/v1.ProbeHandler",
    fields: &[
        optional_field(1, "exec", Object(&EXEC_ACTION)),
        optional_field(2, "httpGet", Object(&HTTP_GET_ACTION)),
        optional_field(3, "tcpSocket", Object(&TCP_SOCKET_ACTION)),
        optional_field(4, "grpc", Object(&GRPC_ACTION)),
    ],
};

pub(super) static LIFECYCLE: MessageSchema = MessageSchema {
    name: "core/v1.Lifecycle",
    fields: &[
        optional_field(1, "postStart", Object(&LIFECYCLE_HANDLER)),
        optional_field(2, "preStop", Object(&LIFECYCLE_HANDLER)),
        optional_field(3, "stopSignal", Text),
    ],
};

pub(super) static LIFECYCLE_HANDLER: MessageSchema = MessageSchema {
    name: "core/v1.LifecycleHandler",
    fields: &[
        optional_field(1, "exec", Object(&EXEC_ACTION)),
        optional_field(2, "httpGet", Object(&HTTP_GET_ACTION)),
        optional_field(3, "tcpSocket", Object(&TCP_SOCKET_ACTION)),
        optional_field(4, "sleep", Object(&SLEEP_ACTION)),
    ],
};

pub(super) static EXEC_ACTION: MessageSchema =
    MessageSchema { name: "core/v1.ExecAction", fields: &[list_field(1, "command", Text)] };

pub(super) static HTTP_GET_ACTION: MessageSchema = MessageSchema {
    name: "core/v1.HTTPGetAction",
    fields: &[
        omitempty_field(1, "path", Text),
        field_always_in_json(2, "port", IntOrString),
        omitempty_field(3, "host", Text),
        omitempty_field(4, "scheme", Text),
        list_field(5, "httpHeaders", Object(&HTTP_HEADER)),
    ],
};

pub(super) static HTTP_HEADER: MessageSchema = MessageSchema {
    name: "core/v1.HTTPHeader",
    fields: &[field_always_in_json(1, "name", Text), field_always_in_json(2, "value", Text)],
};

pub(super) static TCP_SOCKET_ACTION: MessageSchema = MessageSchema {
    name: "core/v1.TCPSocketAction",
    fields: &[field_always_in_json(1, "port", IntOrString), omitempty_field(2, "host", Text)],
};

pub(super) static GRPC_ACTION: MessageSchema = MessageSchema {
    name: "core/v1.GRPCAction",
    fields: &[field_always_in_json(1, "port", Int), nullable(optional_field(2, "service", Text))],
};

pub(super) static SLEEP_ACTION: MessageSchema =
    MessageSchema { name: "core/v1.SleepAction", fields: &[field_always_in_json(1, "seconds", Int)] };

pub(super) static SECURITY_CONTEXT: MessageSchema = MessageSchema {
    name: "core/v1.SecurityContext",
    fields: &[
        optional_field(1, "capabilities", Object(&CAPABILITIES)),
        optional_field(2, "privileged", Bool),
        optional_field(3, "seLinuxOptions", Object(&SE_LINUX_OPTIONS)),
        optional_field(4, "runAsUser", Int),
        optional_field(5, "runAsNonRoot", Bool),
        optional_field(6, "readOnlyRootFilesystem", Bool),
        optional_field(7, "allowPrivilegeEscalation", Bool),
        optional_field(8, "runAsGroup", Int),
        optional_field(9, "procMount", Text),
        optional_field(10, "windowsOptions", Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        optional_field(11, "seccompProfile", Object(&SECCOMP_PROFILE)),
        optional_field(12, "appArmorProfile", Object(&APP_ARMOR_PROFILE)),
    ],
};

pub(super) static CAPABILITIES: MessageSchema =
    MessageSchema { name: "core/v1.Capabilities", fields: &[list_field(1, "add", Text), list_field(2, "drop", Text)] };

pub(super) static SE_LINUX_OPTIONS: MessageSchema = MessageSchema {
    name: "core/v1.SELinuxOptions",
    fields: &[
        omitempty_field(1, "user", Text),
        omitempty_field(2, "role", Text),
        omitempty_field(3, "type", Text),
        omitempty_field(4, "level", Text),
    ],
};

pub(super) static WINDOWS_SECURITY_CONTEXT_OPTIONS: MessageSchema = MessageSchema {
    name: "core/v1.WindowsSecurityContextOptions",
    fields: &[
        optional_field(1, "gmsaCredentialSpecName", Text),
        optional_field(2, "gmsaCredentialSpec", Text),
        optional_field(3, "runAsUserName", Text),
        optional_field(4, "hostProcess", Bool),
    ],
};

pub(super) static SECCOMP_PROFILE: MessageSchema = MessageSchema {
    name: "core/v1.SeccompProfile",
    fields: &[field_always_in_json(1, "type", Text), optional_field(2, "localhostProfile", Text)],
};

pub(super) static APP_ARMOR_PROFILE: MessageSchema = MessageSchema {
    name: "core/v1.AppArmorProfile",
    fields: &[field_always_in_json(1, "type", Text), optional_field(2, "localhostProfile", Text)],
};
