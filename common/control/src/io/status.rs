//! The replacement of an object's status.

use serde::Serialize;

use super::{
    body::RequestBody,
    request::{ObjectRole, Request},
    run::Io,
};
use crate::{
    meta::{Meta, MetadataReplacement},
    object::{Object, Resource},
    wire::{RawFields, RawMessage},
};

/// The body of a request that replaces the status of an object. It has no `spec`, because the server keeps the stored one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReplacement<'a, S> {
    kind: String,
    api_version: String,
    metadata: MetadataReplacement<'a>,
    status: NewStatus<'a, S>,
}

#[derive(Debug, Serialize)]
struct NewStatus<'a, S> {
    #[serde(flatten)]
    declared: &'a S,
    #[serde(flatten)]
    undeclared: RawFields<'a>,
}

impl<'a, S> StatusReplacement<'a, S> {
    /// Creates the body for an object of the resource. `raw_undeclared` has the fields of the stored status that `status`
    /// does not have.
    ///
    /// The server takes annotations, finalizers and owner references, and for some kinds labels, from the body. The metadata must
    /// therefore be those of the version that is replaced.
    pub fn new(
        resource: &Resource,
        metadata: MetadataReplacement<'a>,
        status: &'a S,
        raw_undeclared: &'a RawMessage,
    ) -> Self {
        Self {
            kind: resource.kind().to_owned(),
            api_version: resource.api_version(),
            metadata,
            status: NewStatus { declared: status, undeclared: raw_undeclared.fields() },
        }
    }
}

impl Request {
    /// Creates a request that replaces the status of the sync's object, at exactly this version. The body has the same metadata.
    pub fn replace_status(resource: Resource, meta: &Meta, body: RequestBody) -> Self {
        Self::replace(resource, meta, body)
            .with_verb_text("write the status")
            .with_subresource("status")
            .with_role(ObjectRole::SyncedObject)
    }
}

impl<M: Sync> Io<'_, M> {
    /// Encodes a [`StatusReplacement`] for [`Request::replace_status`].
    pub fn encode_status<K: Object>(
        self,
        metadata: MetadataReplacement<'_>,
        status: &impl Serialize,
        raw_undeclared: &RawMessage,
    ) -> RequestBody {
        let resource = K::RESOURCE;
        let body = || StatusReplacement::new(&resource, metadata, status, raw_undeclared);
        match K::PROTOBUF_SCHEMA {
            Some(schema) => self.encode_object(&resource, schema, body),
            None => self.encode_body(body),
        }
    }
}
