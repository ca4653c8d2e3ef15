//! The requests of a sync, and the classes of refusals.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::body::{AnswerContent, RequestBody};
use crate::{
    api::{self, Call, DeleteOptions, EncodedBody, PatchFormat, WireFormat},
    informer,
    intern::Text,
    meta::{Meta, ResourceVersion, Uid},
    object::{EncodedObject, Object, RequestTarget, Resource},
    wire::Envelope,
};

/// The operation of a request, with its body.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Reads an object.
    Get,
    /// Reads this path, which may have a query.
    GetPath(String),
    /// Lists the objects of a namespace that match this query.
    List(String),
    /// Creates the object in the body.
    Create(RequestBody),
    /// Patches an object. The precondition is added to the body.
    Patch(PatchFormat, RequestBody),
    /// Replaces an object. The body contains its UID and its `resourceVersion`.
    Replace(RequestBody),
    /// Creates the object, or changes the fields in the body, as this field manager. A precondition is added to the body; nothing
    /// is created then.
    Apply(&'static str, RequestBody),
    /// Deletes an object, with a propagation policy and a grace period in seconds.
    Delete(Option<&'static str>, Option<i64>),
    /// Deletes the objects of a namespace that match this query.
    DeleteCollection(String),
}

impl Verb {
    /// Returns the verb for explanations, such as `delete`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Get | Self::GetPath(_) => "read",
            Self::List(_) => "list",
            Self::Create(_) => "create",
            Self::Patch(..) => "patch",
            Self::Replace(_) => "replace",
            Self::Apply(..) => "apply",
            Self::Delete(..) => "delete",
            Self::DeleteCollection(_) => "delete all",
        }
    }

    /// Returns the HTTP method, such as `PATCH`.
    pub fn http_method(&self) -> &'static str {
        match self {
            Self::Get | Self::GetPath(_) | Self::List(_) => "GET",
            Self::Create(_) => "POST",
            Self::Patch(..) | Self::Apply(..) => "PATCH",
            Self::Replace(_) => "PUT",
            Self::Delete(..) | Self::DeleteCollection(_) => "DELETE",
        }
    }

    /// Whether the operation may change the cluster. Reads and lists do not.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get | Self::GetPath(_) | Self::List(_))
    }
}

/// The object and the version to which a request applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// `metadata.uid` of the object.
    pub uid: Uid,
    /// `metadata.resourceVersion` in the snapshot; `None` for any version. If the same sync has already written the object, the
    /// version after that write is sent instead.
    pub version: Option<ResourceVersion>,
}

impl Precondition {
    /// Returns the precondition for exactly this version of the object.
    pub fn for_exact_version(meta: &Meta) -> Self {
        Self { uid: meta.uid.clone(), version: Some(meta.resource_version) }
    }
}

/// The relation between the objects of a request and of the sync. Determines the cache state for which the next sync waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectRole {
    /// A child of the sync's object. The next sync waits until the cache shows the creation, change or deletion.
    Child,
    /// A child to adopt. The next sync waits until the cache shows the child, as after a create request.
    AdoptedChild,
    /// A child to release. The next sync no longer waits for the deletion of this child.
    ReleasedChild,
    /// The sync's object itself. The next sync waits until the cache shows the write.
    SyncedObject,
    /// Another object, which other clients may write, too. The next sync waits until the cache shows the write, but not for
    /// newer versions after a conflict. A deletion that finds no object is recorded like a successful one.
    AwaitedObject,
    /// Another object. The next sync does not wait for a write to it.
    UntrackedObject,
}

/// A request to the API server, with its precondition, its role and its reason.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation, with its body.
    pub(super) verb: Verb,
    /// The verb in explanations, such as `delete`.
    pub(super) verb_text: &'static str,
    /// Group, version and plural name of the object's API resource.
    pub(super) resource: Resource,
    /// Kind of the object in explanations; `None` for the kind of the resource.
    pub(super) kind: Option<&'static str>,
    /// Namespace of the object; empty for a cluster-scoped one.
    pub(super) namespace: Text,
    /// Name of the object. If the server generates the name, this field is empty or a name for explanations.
    pub(super) name: Arc<str>,
    /// `metadata.generateName` of an object to create; empty if the request has a full name.
    pub(super) generate_name: Arc<str>,
    /// Subresource, such as `status`; empty for the object itself.
    pub(super) subresource: &'static str,
    /// The object to which the request applies; `None` for any object. A write to an object with another UID is refused. A
    /// read that returns another UID shows that the named object no longer exists.
    pub(super) precondition: Option<Precondition>,
    /// The relation to the object of the sync. It determines the cache state for which the next sync waits.
    pub(super) role: ObjectRole,
    /// What the server answers; `None` for the default.
    pub(super) answer_content: Option<AnswerContent>,
    /// Whether the request is sent again after an answer with 503, as often and as late as the server asks for.
    is_repeated_if_unavailable: bool,
    /// The reason for the request, shown in explanations; may be empty.
    pub(super) reason: Cow<'static, str>,
}

impl Request {
    fn new(verb: Verb, resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        let (namespace, name) = (namespace.clone(), Arc::clone(name));
        let (doing, why) = (verb.as_str(), Cow::Borrowed(""));
        let (subresource, precondition, role) = ("", None, ObjectRole::UntrackedObject);
        Self {
            verb,
            verb_text: doing,
            resource,
            kind: None,
            namespace,
            name,
            generate_name: Arc::default(),
            subresource,
            precondition,
            role,
            answer_content: None,
            is_repeated_if_unavailable: true,
            reason: why,
        }
    }

    /// Creates a request that reads an object.
    pub fn get(resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        Self::new(Verb::Get, resource, namespace, name)
    }

    /// Creates a request that lists the objects of a namespace. Example of a query: `labelSelector=app%3Dweb`.
    pub fn list(resource: Resource, namespace: &Text, query: String) -> Self {
        Self::new(Verb::List(query), resource, namespace, &Arc::default())
    }

    /// Creates a request that reads the metadata of an object.
    pub fn get_metadata(resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        Self::get(resource, namespace, name).with_metadata_answer()
    }

    /// Creates a request that reads a path of an aggregated API, such as a metric. `path` begins with a slash and must be encoded
    /// already. `resource` and `name` appear in explanations only.
    pub fn get_path(path: String, resource: Resource, name: &Arc<str>) -> Self {
        Self::new(Verb::GetPath(path), resource, &Text::default(), name)
    }

    /// Creates a request that reads an aggregated discovery document; `root` is `/api` or `/apis`. `resource` appears in
    /// explanations only.
    pub(super) fn discovery(root: &'static str, resource: Resource) -> Self {
        let request = Self::get_path(root.to_owned(), resource, &Arc::from(root));
        Self { answer_content: Some(AnswerContent::Discovery), verb_text: "discover", ..request }
    }

    /// Creates a request that applies the fields in `body`, which name the object, as `field_manager`, and takes them from other
    /// managers. Without a [precondition](Self::with_precondition), the object is created if it does not exist.
    pub fn apply(
        resource: Resource,
        namespace: &Text,
        name: &Arc<str>,
        field_manager: &'static str,
        body: RequestBody,
    ) -> Self {
        Self::new(Verb::Apply(field_manager, body), resource, namespace, name)
    }

    /// Creates a request that deletes all objects of a namespace that match a query, such as `labelSelector=app%3Dweb`; an empty
    /// query matches all objects. The answer does not tell which objects were deleted, so the next sync does not wait for them.
    pub fn delete_collection(resource: Resource, namespace: &Text, query: String) -> Self {
        Self::new(Verb::DeleteCollection(query), resource, namespace, &Arc::default())
    }

    /// Creates a request that creates a child of the sync's object.
    pub fn create(resource: Resource, namespace: &Text, name: &Arc<str>, body: RequestBody) -> Self {
        Self { role: ObjectRole::Child, ..Self::new(Verb::Create(body), resource, namespace, name) }
    }

    /// Sets `metadata.generateName`, so that the server generates the name of the object.
    #[must_use]
    pub fn with_generate_name(self, prefix: impl Into<Arc<str>>) -> Self {
        Self { generate_name: prefix.into(), ..self }
    }

    /// Creates a request that deletes exactly this version of a child.
    pub fn delete(resource: Resource, meta: &Meta) -> Self {
        let request = Self::new(Verb::Delete(None, None), resource, &meta.namespace, &meta.name);
        Self { role: ObjectRole::Child, precondition: Some(Precondition::for_exact_version(meta)), ..request }
    }

    /// Creates a request that patches exactly this version of an object.
    pub fn patch(resource: Resource, meta: &Meta, format: PatchFormat, body: RequestBody) -> Self {
        let request = Self::new(Verb::Patch(format, body), resource, &meta.namespace, &meta.name);
        Self { precondition: Some(Precondition::for_exact_version(meta)), ..request }
    }

    /// Creates a request that replaces exactly this version of an object. The body contains the UID and the `resourceVersion`.
    pub fn replace(resource: Resource, meta: &Meta, body: RequestBody) -> Self {
        let request = Self::new(Verb::Replace(body), resource, &meta.namespace, &meta.name);
        Self { precondition: Some(Precondition::for_exact_version(meta)), ..request }
    }

    /// Creates a merge patch of the status of the sync's object, at exactly this version.
    pub fn patch_status(resource: Resource, meta: &Meta, body: RequestBody) -> Self {
        let request = Self::patch(resource, meta, PatchFormat::Merge, body);
        Self { verb_text: "write the status", subresource: "status", role: ObjectRole::SyncedObject, ..request }
    }

    /// Turns a patch into a strategic merge patch, which costs the server a third of a merge patch. Lists in the body must have
    /// the strategy `replace`.
    #[must_use]
    pub fn into_strategic_patch(self) -> Self {
        let verb =
            if let Verb::Patch(_, body) = self.verb { Verb::Patch(PatchFormat::Strategic, body) } else { self.verb };
        Self { verb, ..self }
    }

    /// Sets the propagation policy of a deletion, such as `Foreground`; by default the server decides.
    #[must_use]
    pub fn with_propagation(self, policy: &'static str) -> Self {
        let verb = if let Verb::Delete(_, grace) = self.verb { Verb::Delete(Some(policy), grace) } else { self.verb };
        Self { verb, ..self }
    }

    /// Sets the grace period of a deletion in seconds; by default the grace period of the object.
    #[must_use]
    pub fn with_grace_period(self, seconds: i64) -> Self {
        let verb =
            if let Verb::Delete(policy, _) = self.verb { Verb::Delete(policy, Some(seconds)) } else { self.verb };
        Self { verb, ..self }
    }

    /// Sets the subresource, such as `status` or `scale`; by default the request concerns the object itself.
    #[must_use]
    pub fn with_subresource(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }

    /// Makes the server answer with the metadata of the object or of the objects alone, the default of writes to one object.
    #[must_use]
    pub fn with_metadata_answer(self) -> Self {
        let is_list = matches!(self.verb, Verb::List(_) | Verb::DeleteCollection(_));
        let answer_content = if is_list { AnswerContent::MetadataList } else { AnswerContent::Metadata };
        Self { answer_content: Some(answer_content), ..self }
    }

    /// Ends the request with the first answer of 503, although the server may ask for a retry. For a sync that has other work.
    #[must_use]
    pub fn without_retries_if_unavailable(self) -> Self {
        Self { is_repeated_if_unavailable: false, ..self }
    }

    /// Makes the server answer with the whole object, which is decoded as `K` or as another projection of the same kind.
    #[must_use]
    pub fn with_object_answer<K: Object>(self) -> Self {
        let answer_content = Some(K::PROTOBUF_SCHEMA.map_or(AnswerContent::Json, AnswerContent::Object));
        Self { answer_content, ..self }
    }

    /// Makes the server answer with the whole object in JSON, the default of reads. Ignored if another content was requested.
    #[must_use]
    pub fn with_whole_answer(self) -> Self {
        Self { answer_content: self.answer_content.or(Some(AnswerContent::Json)), ..self }
    }

    /// Returns what the server answers.
    pub(super) fn answer_content(&self) -> AnswerContent {
        let default = match self.verb {
            // The answer is a list, and not one object.
            Verb::DeleteCollection(_) => AnswerContent::Json,
            _ if self.verb.is_write() => AnswerContent::Metadata,
            _ => AnswerContent::Json,
        };
        self.answer_content.unwrap_or(default)
    }

    /// Sets the precondition; `None` for any object.
    #[must_use]
    pub fn with_precondition(self, precondition: Option<Precondition>) -> Self {
        Self { precondition, ..self }
    }

    /// Sets the reason that explanations show; empty by default.
    #[must_use]
    pub fn with_reason(self, why: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: why.into(), ..self }
    }

    /// Sets the verb that explanations show, such as `adopt`; by default the verb of the operation.
    #[must_use]
    pub fn with_verb_text(self, doing: &'static str) -> Self {
        Self { verb_text: doing, ..self }
    }

    /// Sets the kind that explanations show; by default the kind of the resource.
    #[must_use]
    pub fn with_kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Sets the relation to the object of the sync, which determines the cache state for which the next sync waits.
    #[must_use]
    pub fn with_role(self, role: ObjectRole) -> Self {
        Self { role, ..self }
    }

    /// Sets the version of the precondition; `None` for any version.
    #[must_use]
    pub fn with_precondition_version(self, version: Option<ResourceVersion>) -> Self {
        let precondition = self.precondition.map(|known| Precondition { version, ..known });
        Self { precondition, ..self }
    }
}

impl Request {
    /// Builds the API call of this request, in the preferred format where possible. `precondition` replaces the precondition of
    /// the request.
    ///
    /// # Errors
    /// If the body cannot be encoded. Nothing is sent then.
    pub(super) fn to_api_call(
        &self,
        precondition: Option<Precondition>,
        preferred_format: WireFormat,
    ) -> Result<Call<'_>, api::Error> {
        // The name of a new object is in the body. A subresource is created below its object.
        let is_new_object = matches!(self.verb, Verb::Create(_)) && self.subresource.is_empty();
        let name = if is_new_object { "" } else { &*self.name };
        let target = RequestTarget {
            resource: self.resource.clone(),
            namespace: &self.namespace,
            name,
            subresource: self.subresource,
        };
        let unsent = |error: String| api::Error::Unsent(format!("the body of the request cannot be encoded: {error}"));
        let conditional = |body: &RequestBody| match (body.encoded()?.bytes, &precondition) {
            (body, None) => Ok(body),
            (body, Some(precondition)) => {
                with_precondition(&body, precondition).map_err(|error| unsent(error.to_string()))
            }
        };
        let call = match &self.verb {
            Verb::Get => Call::get(target.path(), informer::ACCEPT_JSON),
            Verb::GetPath(path) => Call::get(path.clone(), informer::ACCEPT_JSON),
            Verb::DeleteCollection(query) => Call::delete_collection(target, query),
            Verb::List(query) => Call::list(&self.resource, &self.namespace, query, informer::ACCEPT_JSON),
            Verb::Create(body) => Call::create(target, body.encoded()?),
            Verb::Replace(body) => {
                let mut body = body.encoded()?;
                // The body contains the version of the snapshot, which an earlier write of this sync has changed.
                if let Some(precondition) = precondition.filter(|known| self.precondition.as_ref() != Some(known)) {
                    body = match (body.format, precondition.version) {
                        (WireFormat::Protobuf, Some(version)) => body.with_resource_version(&version.to_string())?,
                        _ => {
                            let bytes = with_precondition(&body.bytes, &precondition);
                            EncodedBody { bytes: bytes.map_err(|error| unsent(error.to_string()))?, ..body }
                        }
                    };
                }
                Call::replace(target, body)
            }
            Verb::Patch(format, body) => Call::patch(target, *format, conditional(body)?),
            Verb::Apply(field_manager, body) => Call::apply(target, field_manager, conditional(body)?),
            Verb::Delete(propagation, grace_seconds) => {
                let Precondition { uid, version } = precondition.unwrap_or_default();
                let uid = (!uid.is_empty()).then_some(uid);
                let version = version.filter(|version| version.is_known());
                let options = DeleteOptions {
                    uid,
                    version,
                    propagation_policy: *propagation,
                    grace_period_seconds: *grace_seconds,
                };
                Call::delete(target, &options, preferred_format)?
            }
        };
        let call = call.with_accept_header(self.answer_content().accept_header(preferred_format));
        Ok(if self.is_repeated_if_unavailable { call } else { call.without_retries_if_unavailable() })
    }
}

/// The part of an answer's metadata that every controller needs.
#[derive(Clone, Debug, Default)]
pub struct AnswerMetadata {
    /// `metadata.name` of the written object.
    pub name: Arc<str>,
    /// `metadata.uid` of the written object.
    pub uid: Uid,
    /// `metadata.resourceVersion` after the write.
    pub version: ResourceVersion,
}

impl AnswerMetadata {
    /// Decodes the fields from an answer. Missing fields stay empty, also those of a status, which names no object.
    pub(super) fn parse(format: WireFormat, answer: &[u8]) -> Result<Self, api::Error> {
        let object: ObjectWithMetadata = match format {
            WireFormat::Json => serde_json::from_slice(answer)?,
            WireFormat::Protobuf => match Envelope::decode(answer)? {
                Envelope { kind: "Status", .. } => ObjectWithMetadata::default(),
                Envelope { object, .. } => {
                    let metadata = EncodedObject::Protobuf(object).decode_metadata();
                    ObjectWithMetadata { metadata: metadata.map_err(api::Error::InvalidAnswer)? }
                }
            },
        };
        Ok(object.into())
    }
}

impl From<ObjectWithMetadata> for AnswerMetadata {
    fn from(ObjectWithMetadata { metadata }: ObjectWithMetadata) -> Self {
        let uid = metadata.uid.unwrap_or_default();
        Self { name: metadata.name.into(), uid, version: metadata.resource_version }
    }
}

#[derive(Default, Deserialize)]
struct ObjectWithMetadata {
    #[serde(default)]
    metadata: WrittenMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMetadata {
    name: String,
    uid: Option<Uid>,
    resource_version: ResourceVersion,
}

/// The meaning of a refusal for a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalClass {
    /// The object does not exist, or another object has its name.
    NotFound,
    /// The object has another version than the precondition.
    VersionConflict,
    /// The object cannot be created, because another object has its name.
    NameTaken,
    /// The namespace is terminating or does not exist. No object can be created in it.
    NamespaceTerminating,
    /// The object was created, and admission had changed it so that it does not belong to its owner.
    ChangedByAdmission,
    /// The server refused the request for another reason, or could not be reached. Nothing was written.
    NotWritten,
    /// The request has no answer, and may have taken effect.
    MaybeWritten,
}

/// The error of a request that the server did not grant.
#[derive(Debug)]
pub struct Refusal {
    /// The class of the error, which determines how a controller continues.
    pub class: RefusalClass,
    /// The server's answer, or the failure of the transport.
    pub error: Arc<api::Error>,
}

impl Refusal {
    /// Whether the object does not exist, or another object has its name.
    pub fn is_not_found(&self) -> bool {
        self.class == RefusalClass::NotFound
    }

    /// Classifies the error of a request.
    pub(super) fn of_request(request: &Request, error: api::Error) -> Self {
        let has_other_uid = matches!(request.verb, Verb::Replace(_)) && error.is_uid_conflict();
        let refusal = Self::from(error);
        if has_other_uid { Self { class: RefusalClass::NotFound, ..refusal } } else { refusal }
    }
}

impl From<api::Error> for Refusal {
    fn from(error: api::Error) -> Self {
        let class = if matches!(error, api::Error::ChangedByAdmission(_)) {
            RefusalClass::ChangedByAdmission
        } else if error.is_namespace_terminating() {
            RefusalClass::NamespaceTerminating
        } else if error.is_not_found() || error.is_uid_mismatch() {
            RefusalClass::NotFound
        } else if error.is_conflict() {
            RefusalClass::VersionConflict
        } else if error.is_already_exists() {
            RefusalClass::NameTaken
        } else if error.write_may_have_taken_effect() {
            RefusalClass::MaybeWritten
        } else {
            RefusalClass::NotWritten
        };
        Self { class, error: Arc::new(error) }
    }
}

/// Adds the UID and the version of the precondition to the body of a patch or an apply.
fn with_precondition(body: &[u8], precondition: &Precondition) -> serde_json::Result<Bytes> {
    let mut members: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body)?;
    let mut metadata: Value =
        members.get("metadata").map_or_else(|| Ok(Value::Null), |m| serde_json::from_str(m.get()))?;
    if !metadata.is_object() {
        metadata = serde_json::json!({});
    }
    metadata["uid"] = serde_json::to_value(&precondition.uid)?;
    if let Some(version) = precondition.version.filter(|version| version.is_known()) {
        metadata["resourceVersion"] = serde_json::to_value(version)?;
    }
    members.insert("metadata".to_owned(), serde_json::value::to_raw_value(&metadata)?);
    serde_json::to_vec(&members).map(Bytes::from)
}
