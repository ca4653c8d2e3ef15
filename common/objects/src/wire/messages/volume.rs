//! Protobuf schemas of the volumes of Pods, of `PersistentVolumeClaims` and of `PersistentVolumes`.

use super::{
    container::{OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR},
    meta::{LABEL_SELECTOR, OBJECT_META},
    pod::LOCAL_OBJECT_REFERENCE,
};
use crate::wire::schema::{
    MessageSchema,
    ValueType::{Bool, Int, Object, Quantity, Text, Time},
    field_always_in_json, inlined_message_field, list_field, map_field, nullable, omitempty_field, opaque_field,
    optional_field,
};

/// Schema of `core/v1.PersistentVolumeClaim`.
pub static PERSISTENT_VOLUME_CLAIM: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaim",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
        field_always_in_json(3, "status", Object(&PERSISTENT_VOLUME_CLAIM_STATUS)),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimSpec",
    fields: &[
        list_field(1, "accessModes", Text),
        field_always_in_json(2, "resources", Object(&VOLUME_RESOURCE_REQUIREMENTS)),
        omitempty_field(3, "volumeName", Text),
        optional_field(4, "selector", Object(&LABEL_SELECTOR)),
        optional_field(5, "storageClassName", Text),
        optional_field(6, "volumeMode", Text),
        optional_field(7, "dataSource", Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
        optional_field(8, "dataSourceRef", Object(&TYPED_OBJECT_REFERENCE)),
        optional_field(9, "volumeAttributesClassName", Text),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimStatus",
    fields: &[
        omitempty_field(1, "phase", Text),
        list_field(2, "accessModes", Text),
        map_field(3, "capacity", Quantity),
        list_field(4, "conditions", Object(&PERSISTENT_VOLUME_CLAIM_CONDITION)),
        map_field(5, "allocatedResources", Quantity),
        map_field(7, "allocatedResourceStatuses", Text),
        optional_field(8, "currentVolumeAttributesClassName", Text),
        optional_field(9, "modifyVolumeStatus", Object(&MODIFY_VOLUME_STATUS)),
    ],
};

/// Schema of `core/v1.PersistentVolume`. No projection reads where the volume is.
pub static PERSISTENT_VOLUME: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolume",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&PERSISTENT_VOLUME_SPEC)),
        field_always_in_json(3, "status", Object(&PERSISTENT_VOLUME_STATUS)),
    ],
};

static PERSISTENT_VOLUME_SPEC: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeSpec",
    fields: &[
        map_field(1, "capacity", Quantity),
        opaque_field(2, "persistentVolumeSource"),
        list_field(3, "accessModes", Text),
        opaque_field(4, "claimRef"),
        omitempty_field(5, "persistentVolumeReclaimPolicy", Text),
        omitempty_field(6, "storageClassName", Text),
        list_field(7, "mountOptions", Text),
        optional_field(8, "volumeMode", Text),
        opaque_field(9, "nodeAffinity"),
        optional_field(10, "volumeAttributesClassName", Text),
    ],
};

static PERSISTENT_VOLUME_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeStatus",
    fields: &[
        omitempty_field(1, "phase", Text),
        omitempty_field(2, "message", Text),
        omitempty_field(3, "reason", Text),
        optional_field(4, "lastPhaseTransitionTime", Time),
    ],
};

pub(super) static VOLUME: MessageSchema = MessageSchema {
    name: "core/v1.Volume",
    fields: &[field_always_in_json(1, "name", Text), inlined_message_field(2, &VOLUME_SOURCE)],
};

pub(super) static VOLUME_RESOURCE_REQUIREMENTS: MessageSchema = MessageSchema {
    name: "core/v1.VolumeResourceRequirements",
    fields: &[map_field(1, "limits", Quantity), map_field(2, "requests", Quantity)],
};

pub(super) static TYPED_LOCAL_OBJECT_REFERENCE: MessageSchema = MessageSchema {
    name: "core/v1.TypedLocalObjectReference",
    fields: &[
        nullable(optional_field(1, "apiGroup", Text)),
        field_always_in_json(2, "kind", Text),
        field_always_in_json(3, "name", Text),
    ],
};

pub(super) static TYPED_OBJECT_REFERENCE: MessageSchema = MessageSchema {
    name: "core/v1.TypedObjectReference",
    fields: &[
        nullable(optional_field(1, "apiGroup", Text)),
        field_always_in_json(2, "kind", Text),
        field_always_in_json(3, "name", Text),
        optional_field(4, "namespace", Text),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_CONDITION: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimCondition",
    fields: &[
        field_always_in_json(1, "type", Text),
        field_always_in_json(2, "status", Text),
        field_always_in_json(3, "lastProbeTime", Time),
        field_always_in_json(4, "lastTransitionTime", Time),
        omitempty_field(5, "reason", Text),
        omitempty_field(6, "message", Text),
    ],
};

pub(super) static MODIFY_VOLUME_STATUS: MessageSchema = MessageSchema {
    name: "core/v1.ModifyVolumeStatus",
    fields: &[omitempty_field(1, "targetVolumeAttributesClassName", Text), field_always_in_json(2, "status", Text)],
};

pub(super) static VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.VolumeSource",
    fields: &[
        optional_field(1, "hostPath", Object(&HOST_PATH_VOLUME_SOURCE)),
        optional_field(2, "emptyDir", Object(&EMPTY_DIR_VOLUME_SOURCE)),
        optional_field(3, "gcePersistentDisk", Object(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        optional_field(4, "awsElasticBlockStore", Object(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        optional_field(5, "gitRepo", Object(&GIT_REPO_VOLUME_SOURCE)),
        optional_field(6, "secret", Object(&SECRET_VOLUME_SOURCE)),
        optional_field(7, "nfs", Object(&NFS_VOLUME_SOURCE)),
        optional_field(8, "iscsi", Object(&ISCSI_VOLUME_SOURCE)),
        optional_field(9, "glusterfs", Object(&GLUSTERFS_VOLUME_SOURCE)),
        optional_field(10, "persistentVolumeClaim", Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        optional_field(11, "rbd", Object(&RBD_VOLUME_SOURCE)),
        optional_field(12, "flexVolume", Object(&FLEX_VOLUME_SOURCE)),
        optional_field(13, "cinder", Object(&CINDER_VOLUME_SOURCE)),
        optional_field(14, "cephfs", Object(&CEPH_FS_VOLUME_SOURCE)),
        optional_field(15, "flocker", Object(&FLOCKER_VOLUME_SOURCE)),
        optional_field(16, "downwardAPI", Object(&DOWNWARD_API_VOLUME_SOURCE)),
        optional_field(17, "fc", Object(&FC_VOLUME_SOURCE)),
        optional_field(18, "azureFile", Object(&AZURE_FILE_VOLUME_SOURCE)),
        optional_field(19, "configMap", Object(&CONFIG_MAP_VOLUME_SOURCE)),
        optional_field(20, "vsphereVolume", Object(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        optional_field(21, "quobyte", Object(&QUOBYTE_VOLUME_SOURCE)),
        optional_field(22, "azureDisk", Object(&AZURE_DISK_VOLUME_SOURCE)),
        optional_field(23, "photonPersistentDisk", Object(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
        optional_field(24, "portworxVolume", Object(&PORTWORX_VOLUME_SOURCE)),
        optional_field(25, "scaleIO", Object(&SCALE_IO_VOLUME_SOURCE)),
        optional_field(26, "projected", Object(&PROJECTED_VOLUME_SOURCE)),
        optional_field(27, "storageos", Object(&STORAGE_OS_VOLUME_SOURCE)),
        optional_field(28, "csi", Object(&CSI_VOLUME_SOURCE)),
        optional_field(29, "ephemeral", Object(&EPHEMERAL_VOLUME_SOURCE)),
        optional_field(30, "image", Object(&IMAGE_VOLUME_SOURCE)),
    ],
};

pub(super) static HOST_PATH_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.HostPathVolumeSource",
    fields: &[field_always_in_json(1, "path", Text), optional_field(2, "type", Text)],
};

pub(super) static EMPTY_DIR_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.EmptyDirVolumeSource",
    fields: &[omitempty_field(1, "medium", Text), optional_field(2, "sizeLimit", Quantity)],
};

pub(super) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.GCEPersistentDiskVolumeSource",
    fields: &[
        field_always_in_json(1, "pdName", Text),
        omitempty_field(2, "fsType", Text),
        omitempty_field(3, "partition", Int),
        omitempty_field(4, "readOnly", Bool),
    ],
};

pub(super) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.AWSElasticBlockStoreVolumeSource",
    fields: &[
        field_always_in_json(1, "volumeID", Text),
        omitempty_field(2, "fsType", Text),
        omitempty_field(3, "partition", Int),
        omitempty_field(4, "readOnly", Bool),
    ],
};

pub(super) static GIT_REPO_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.GitRepoVolumeSource",
    fields: &[
        field_always_in_json(1, "repository", Text),
        omitempty_field(2, "revision", Text),
        omitempty_field(3, "directory", Text),
    ],
};

pub(super) static SECRET_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.SecretVolumeSource",
    fields: &[
        omitempty_field(1, "secretName", Text),
        list_field(2, "items", Object(&KEY_TO_PATH)),
        optional_field(3, "defaultMode", Int),
        optional_field(4, "optional", Bool),
    ],
};

pub(super) static NFS_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.NFSVolumeSource",
    fields: &[
        field_always_in_json(1, "server", Text),
        field_always_in_json(2, "path", Text),
        omitempty_field(3, "readOnly", Bool),
    ],
};

pub(super) static ISCSI_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ISCSIVolumeSource",
    fields: &[
        field_always_in_json(1, "targetPortal", Text),
        field_always_in_json(2, "iqn", Text),
        field_always_in_json(3, "lun", Int),
        omitempty_field(4, "iscsiInterface", Text),
        omitempty_field(5, "fsType", Text),
        omitempty_field(6, "readOnly", Bool),
        list_field(7, "portals", Text),
        omitempty_field(8, "chapAuthDiscovery", Bool),
        optional_field(10, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        omitempty_field(11, "chapAuthSession", Bool),
        optional_field(12, "initiatorName", Text),
    ],
};

pub(super) static GLUSTERFS_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.GlusterfsVolumeSource",
    fields: &[
        field_always_in_json(1, "endpoints", Text),
        field_always_in_json(2, "path", Text),
        omitempty_field(3, "readOnly", Bool),
    ],
};

pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimVolumeSource",
    fields: &[field_always_in_json(1, "claimName", Text), omitempty_field(2, "readOnly", Bool)],
};

pub(super) static RBD_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.RBDVolumeSource",
    fields: &[
        nullable(list_field(1, "monitors", Text)),
        field_always_in_json(2, "image", Text),
        omitempty_field(3, "fsType", Text),
        omitempty_field(4, "pool", Text),
        omitempty_field(5, "user", Text),
        omitempty_field(6, "keyring", Text),
        optional_field(7, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        omitempty_field(8, "readOnly", Bool),
    ],
};

pub(super) static FLEX_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.FlexVolumeSource",
    fields: &[
        field_always_in_json(1, "driver", Text),
        omitempty_field(2, "fsType", Text),
        optional_field(3, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        omitempty_field(4, "readOnly", Bool),
        map_field(5, "options", Text),
    ],
};

pub(super) static CINDER_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.CinderVolumeSource",
    fields: &[
        field_always_in_json(1, "volumeID", Text),
        omitempty_field(2, "fsType", Text),
        omitempty_field(3, "readOnly", Bool),
        optional_field(4, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
};

pub(super) static CEPH_FS_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.CephFSVolumeSource",
    fields: &[
        nullable(list_field(1, "monitors", Text)),
        omitempty_field(2, "path", Text),
        omitempty_field(3, "user", Text),
        omitempty_field(4, "secretFile", Text),
        optional_field(5, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        omitempty_field(6, "readOnly", Bool),
    ],
};

pub(super) static FLOCKER_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.FlockerVolumeSource",
    fields: &[omitempty_field(1, "datasetName", Text), omitempty_field(2, "datasetUUID", Text)],
};

pub(super) static DOWNWARD_API_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.DownwardAPIVolumeSource",
    fields: &[list_field(1, "items", Object(&DOWNWARD_API_VOLUME_FILE)), optional_field(2, "defaultMode", Int)],
};

pub(super) static FC_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.FCVolumeSource",
    fields: &[
        list_field(1, "targetWWNs", Text),
        optional_field(2, "lun", Int),
        omitempty_field(3, "fsType", Text),
        omitempty_field(4, "readOnly", Bool),
        list_field(5, "wwids", Text),
    ],
};

pub(super) static AZURE_FILE_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.AzureFileVolumeSource",
    fields: &[
        field_always_in_json(1, "secretName", Text),
        field_always_in_json(2, "shareName", Text),
        omitempty_field(3, "readOnly", Bool),
    ],
};

pub(super) static CONFIG_MAP_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ConfigMapVolumeSource",
    fields: &[
        inlined_message_field(1, &LOCAL_OBJECT_REFERENCE),
        list_field(2, "items", Object(&KEY_TO_PATH)),
        optional_field(3, "defaultMode", Int),
        optional_field(4, "optional", Bool),
    ],
};

pub(super) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.VsphereVirtualDiskVolumeSource",
    fields: &[
        field_always_in_json(1, "volumePath", Text),
        omitempty_field(2, "fsType", Text),
        omitempty_field(3, "storagePolicyName", Text),
        omitempty_field(4, "storagePolicyID", Text),
    ],
};

pub(super) static QUOBYTE_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.QuobyteVolumeSource",
    fields: &[
        field_always_in_json(1, "registry", Text),
        field_always_in_json(2, "volume", Text),
        omitempty_field(3, "readOnly", Bool),
        omitempty_field(4, "user", Text),
        omitempty_field(5, "group", Text),
        omitempty_field(6, "tenant", Text),
    ],
};

pub(super) static AZURE_DISK_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.AzureDiskVolumeSource",
    fields: &[
        field_always_in_json(1, "diskName", Text),
        field_always_in_json(2, "diskURI", Text),
        optional_field(3, "cachingMode", Text),
        optional_field(4, "fsType", Text),
        optional_field(5, "readOnly", Bool),
        optional_field(6, "kind", Text),
    ],
};

pub(super) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.PhotonPersistentDiskVolumeSource",
    fields: &[field_always_in_json(1, "pdID", Text), omitempty_field(2, "fsType", Text)],
};

pub(super) static PROJECTED_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ProjectedVolumeSource",
    fields: &[nullable(list_field(1, "sources", Object(&VOLUME_PROJECTION))), optional_field(2, "defaultMode", Int)],
};

pub(super) static PORTWORX_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.PortworxVolumeSource",
    fields: &[
        field_always_in_json(1, "volumeID", Text),
        omitempty_field(2, "fsType", Text),
        omitempty_field(3, "readOnly", Bool),
    ],
};

pub(super) static SCALE_IO_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ScaleIOVolumeSource",
    fields: &[
        field_always_in_json(1, "gateway", Text),
        field_always_in_json(2, "system", Text),
        nullable(optional_field(3, "secretRef", Object(&LOCAL_OBJECT_REFERENCE))),
        omitempty_field(4, "sslEnabled", Bool),
        omitempty_field(5, "protectionDomain", Text),
        omitempty_field(6, "storagePool", Text),
        omitempty_field(7, "storageMode", Text),
        omitempty_field(8, "volumeName", Text),
        omitempty_field(9, "fsType", Text),
        omitempty_field(10, "readOnly", Bool),
    ],
};

pub(super) static STORAGE_OS_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.StorageOSVolumeSource",
    fields: &[
        omitempty_field(1, "volumeName", Text),
        omitempty_field(2, "volumeNamespace", Text),
        omitempty_field(3, "fsType", Text),
        omitempty_field(4, "readOnly", Bool),
        optional_field(5, "secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
};

pub(super) static CSI_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.CSIVolumeSource",
    fields: &[
        field_always_in_json(1, "driver", Text),
        optional_field(2, "readOnly", Bool),
        optional_field(3, "fsType", Text),
        map_field(4, "volumeAttributes", Text),
        optional_field(5, "nodePublishSecretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
};

pub(super) static EPHEMERAL_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.EphemeralVolumeSource",
    fields: &[optional_field(1, "volumeClaimTemplate", Object(&PERSISTENT_VOLUME_CLAIM_TEMPLATE))],
};

pub(super) static IMAGE_VOLUME_SOURCE: MessageSchema = MessageSchema {
    name: "core/v1.ImageVolumeSource",
    fields: &[omitempty_field(1, "reference", Text), omitempty_field(2, "pullPolicy", Text)],
};

pub(super) static KEY_TO_PATH: MessageSchema = MessageSchema {
    name: "core/v1.KeyToPath",
    fields: &[
        field_always_in_json(1, "key", Text),
        field_always_in_json(2, "path", Text),
        optional_field(3, "mode", Int),
    ],
};

pub(super) static DOWNWARD_API_VOLUME_FILE: MessageSchema = MessageSchema {
    name: "core/v1.DownwardAPIVolumeFile",
    fields: &[
        field_always_in_json(1, "path", Text),
        optional_field(2, "fieldRef", Object(&OBJECT_FIELD_SELECTOR)),
        optional_field(3, "resourceFieldRef", Object(&RESOURCE_FIELD_SELECTOR)),
        optional_field(4, "mode", Int),
    ],
};

pub(super) static VOLUME_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.VolumeProjection",
    fields: &[
        optional_field(1, "secret", Object(&SECRET_PROJECTION)),
        optional_field(2, "downwardAPI", Object(&DOWNWARD_API_PROJECTION)),
        optional_field(3, "configMap", Object(&CONFIG_MAP_PROJECTION)),
        optional_field(4, "serviceAccountToken", Object(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
        optional_field(5, "clusterTrustBundle", Object(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
        optional_field(6, "podCertificate", Object(&POD_CERTIFICATE_PROJECTION)),
    ],
};

/// Schema of `core/v1.PersistentVolumeClaimTemplate`.
pub static PERSISTENT_VOLUME_CLAIM_TEMPLATE: MessageSchema = MessageSchema {
    name: "core/v1.PersistentVolumeClaimTemplate",
    fields: &[
        field_always_in_json(1, "metadata", Object(&OBJECT_META)),
        field_always_in_json(2, "spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    ],
};

pub(super) static SECRET_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.SecretProjection",
    fields: &[
        inlined_message_field(1, &LOCAL_OBJECT_REFERENCE),
        list_field(2, "items", Object(&KEY_TO_PATH)),
        optional_field(4, "optional", Bool),
    ],
};

pub(super) static DOWNWARD_API_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.DownwardAPIProjection",
    fields: &[list_field(1, "items", Object(&DOWNWARD_API_VOLUME_FILE))],
};

pub(super) static CONFIG_MAP_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.ConfigMapProjection",
    fields: &[
        inlined_message_field(1, &LOCAL_OBJECT_REFERENCE),
        list_field(2, "items", Object(&KEY_TO_PATH)),
        optional_field(4, "optional", Bool),
    ],
};

pub(super) static SERVICE_ACCOUNT_TOKEN_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.ServiceAccountTokenProjection",
    fields: &[
        omitempty_field(1, "audience", Text),
        optional_field(2, "expirationSeconds", Int),
        field_always_in_json(3, "path", Text),
    ],
};

pub(super) static CLUSTER_TRUST_BUNDLE_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.ClusterTrustBundleProjection",
    fields: &[
        optional_field(1, "name", Text),
        optional_field(2, "signerName", Text),
        optional_field(3, "labelSelector", Object(&LABEL_SELECTOR)),
        field_always_in_json(4, "path", Text),
        optional_field(5, "optional", Bool),
    ],
};

pub(super) static POD_CERTIFICATE_PROJECTION: MessageSchema = MessageSchema {
    name: "core/v1.PodCertificateProjection",
    fields: &[
        omitempty_field(1, "signerName", Text),
        omitempty_field(2, "keyType", Text),
        optional_field(3, "maxExpirationSeconds", Int),
        omitempty_field(4, "credentialBundlePath", Text),
        omitempty_field(5, "keyPath", Text),
        omitempty_field(6, "certificateChainPath", Text),
        map_field(7, "userAnnotations", Text),
    ],
};
