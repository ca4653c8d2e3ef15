//! The `Accept` headers of lists, watches and single requests.

use crate::{
    api::{Api, WireFormat},
    object::Object,
};

/// `Accept` header for whole objects in JSON.
pub const ACCEPT_JSON: &str = "application/json";
/// `Accept` header for whole objects in protobuf, or in JSON if the server does not support protobuf.
pub const ACCEPT_PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
/// `Accept` header for the metadata of objects only, or for whole objects if the server does not support that. Upstream:
/// client-go `metadata`, `defaultClientConfig`.
pub const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// `Accept` header for a list of the metadata of objects only. Servers that cannot do it send whole objects.
pub const ACCEPT_METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// `Accept` header for the metadata of objects only, in protobuf if the server supports it.
pub const ACCEPT_PROTOBUF_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub(super) const PROTOBUF_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Returns the `Accept` header for whole objects of the type `K`.
pub(super) fn accept_header<K: Object>(api: &Api) -> &'static str {
    if prefers_protobuf::<K>(api) { ACCEPT_PROTOBUF } else { ACCEPT_JSON }
}

pub(super) fn prefers_protobuf<K: Object>(api: &Api) -> bool {
    K::PROTOBUF_SCHEMA.is_some() && api.preferred_format() == WireFormat::Protobuf
}
