//! A request as a sync states it, and what a refusal means.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    api::{self, Call, Delete, Patch},
    informer,
    intern::Text,
    meta::{Meta, Uid, Version},
    object::{Resource, Target},
};

/// What is asked of the server.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Reads the object.
    Get,
    /// Lists the objects of a namespace that this query selects.
    List(String),
    /// Creates an object.
    Create(Body),
    /// Patches the object. The precondition is added to the body.
    Patch(Patch, Body),
    /// Replaces the object; the body carries the version.
    Replace(Body),
    /// Deletes the object, with that propagation policy and grace period.
    Delete(Option<&'static str>, Option<i64>),
}

impl Verb {
    /// The verb in explanations.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Get => "read",
            Self::List(_) => "list",
            Self::Create(_) => "create",
            Self::Patch(..) => "patch",
            Self::Replace(_) => "replace",
            Self::Delete(..) => "delete",
        }
    }

    /// The HTTP method.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Get | Self::List(_) => "GET",
            Self::Create(_) => "POST",
            Self::Patch(..) => "PATCH",
            Self::Replace(_) => "PUT",
            Self::Delete(..) => "DELETE",
        }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Get | Self::List(_))
    }
}

/// The body of a request: encoded, or the reason why it cannot be.
#[derive(Clone, Debug)]
pub struct Body(pub(super) Result<Bytes, String>);

impl Default for Body {
    fn default() -> Self {
        Self(Ok(Bytes::from_static(b"{}")))
    }
}

impl Body {
    /// Encodes a body. One that cannot be encoded makes the request fail unsent.
    pub fn encode<B: Serialize + ?Sized>(body: &B) -> Self {
        Self(serde_json::to_vec(body).map(Bytes::from).map_err(|error| error.to_string()))
    }
}

/// The object that a request is meant for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// Its uid.
    pub uid: Uid,
    /// The version that was judged; `None` if any will do. A write of the same sync to the same object moves it on.
    pub version: Option<Version>,
}

impl Precondition {
    /// This version of this object.
    pub fn of(meta: &Meta) -> Self {
        Self { uid: meta.uid.clone(), version: Some(meta.resource_version) }
    }
}

/// Whose object a request is about, which decides what the ledger notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A child of the sync's object: the next sync waits until the cache shows the write.
    Child,
    /// A child that is adopted: as for any child, and it may appear in the cache after the sync, as one that is created does.
    Adopted,
    /// A child that is given up: its deletion is awaited no more.
    Released,
    /// The sync's object itself: the next sync waits until the cache shows the write.
    Itself,
    /// Another object, such as one that others write all the time: the next sync waits until the cache shows the write, and for
    /// nothing else. To delete it if it is gone already counts as a write.
    Awaited,
    /// Nothing is noted.
    Other,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked.
    pub verb: Verb,
    /// What is asked, in explanations: `delete`.
    pub doing: &'static str,
    /// The resource.
    pub resource: Resource,
    /// The kind of the object, in explanations: the resource's, unless it says more.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: Text,
    /// The name; for an object whose name the server completes, empty or what explanations show.
    pub name: Arc<str>,
    /// The beginning of the name of an object to create, if the server chooses the rest; empty otherwise.
    pub generate_name: Arc<str>,
    /// The subresource; empty for none.
    pub subresource: &'static str,
    /// The object it is meant for. A write to another one is refused; a read of another one says that this one is gone.
    pub precondition: Option<Precondition>,
    /// Whose object it is.
    pub role: Role,
    /// The representation in which an object is read.
    pub accept: &'static str,
    /// Why, for explanations; may be empty.
    pub why: Cow<'static, str>,
}

impl Request {
    fn new(verb: Verb, resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        let (namespace, name) = (namespace.clone(), Arc::clone(name));
        let (doing, why) = (verb.as_str(), Cow::Borrowed(""));
        let (subresource, precondition, role, accept) = ("", None, Role::Other, informer::JSON);
        let (kind, generate_name) = (resource.kind, Arc::default());
        Self {
            verb,
            doing,
            resource,
            kind,
            namespace,
            name,
            generate_name,
            subresource,
            precondition,
            role,
            accept,
            why,
        }
    }

    /// Reads an object.
    pub fn get(resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        Self::new(Verb::Get, resource, namespace, name)
    }

    /// Lists the objects of a namespace that a query such as `labelSelector=app%3Dweb` selects.
    pub fn list(resource: Resource, namespace: &Text, query: String) -> Self {
        Self::new(Verb::List(query), resource, namespace, &Arc::default())
    }

    /// Reads the metadata of an object.
    pub fn get_metadata(resource: Resource, namespace: &Text, name: &Arc<str>) -> Self {
        Self { accept: informer::METADATA, ..Self::get(resource, namespace, name) }
    }

    /// Creates a child.
    pub fn create(resource: Resource, namespace: &Text, name: &Arc<str>, body: Body) -> Self {
        Self { role: Role::Child, ..Self::new(Verb::Create(body), resource, namespace, name) }
    }

    /// The same for an object whose name begins with `prefix` and is completed by the server.
    #[must_use]
    pub fn generate_name(self, prefix: impl Into<Arc<str>>) -> Self {
        Self { generate_name: prefix.into(), ..self }
    }

    /// Deletes this version of a child.
    pub fn delete(resource: Resource, meta: &Meta) -> Self {
        let request = Self::new(Verb::Delete(None, None), resource, &meta.namespace, &meta.name);
        Self { role: Role::Child, precondition: Some(Precondition::of(meta)), ..request }
    }

    /// Patches this version of an object.
    pub fn patch(resource: Resource, meta: &Meta, kind: Patch, body: Body) -> Self {
        let request = Self::new(Verb::Patch(kind, body), resource, &meta.namespace, &meta.name);
        Self { precondition: Some(Precondition::of(meta)), ..request }
    }

    /// Replaces an object; the body carries the version.
    pub fn replace(resource: Resource, meta: &Meta, body: Body) -> Self {
        let request = Self::new(Verb::Replace(body), resource, &meta.namespace, &meta.name);
        Self { precondition: Some(Precondition::of(meta)), ..request }
    }

    /// Writes the status of this version of the sync's object.
    pub fn status(resource: Resource, meta: &Meta, body: Body) -> Self {
        let request = Self::patch(resource, meta, Patch::Merge, body);
        Self { doing: "write the status", subresource: "status", role: Role::Itself, ..request }
    }

    /// The same as a strategic merge patch, which costs the server a third of a merge patch. Lists in the body must be of kinds that it
    /// replaces, or say so ([`Replacing`](nonet_objects::conditions::Replacing)).
    #[must_use]
    pub fn strategic(self) -> Self {
        let verb = if let Verb::Patch(_, body) = self.verb { Verb::Patch(Patch::Strategic, body) } else { self.verb };
        Self { verb, ..self }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, why: impl Into<Cow<'static, str>>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// The same with other words for what is asked.
    #[must_use]
    pub fn doing(self, doing: &'static str) -> Self {
        Self { doing, ..self }
    }

    /// The same with other words for the kind of the object.
    #[must_use]
    pub fn kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// The same with another role.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// The same for another version, or for any.
    #[must_use]
    pub fn at(self, version: Option<Version>) -> Self {
        let precondition = self.precondition.map(|known| Precondition { version, ..known });
        Self { precondition, ..self }
    }
}

impl Request {
    /// The call of the API server that this request makes, with that precondition in place of its own.
    ///
    /// # Errors
    /// If the body cannot be encoded: nothing is sent.
    pub(super) fn call(&self, precondition: Option<Precondition>) -> Result<Call<'_>, api::Error> {
        let name = if matches!(self.verb, Verb::Create(_)) { "" } else { &*self.name };
        let target =
            Target { resource: self.resource, namespace: &self.namespace, name, subresource: self.subresource };
        let unsent = |error: String| api::Error::Unsent(format!("the body of the request cannot be encoded: {error}"));
        let encoded = |body: &Body| body.0.clone().map_err(unsent);
        Ok(match &self.verb {
            Verb::Get => Call::get(target.path(), self.accept),
            Verb::List(query) => Call::list(self.resource, &self.namespace, query, informer::JSON),
            Verb::Create(body) => Call::create(target, encoded(body)?),
            Verb::Replace(body) => Call::replace(target, encoded(body)?),
            Verb::Patch(kind, body) => {
                let mut body = encoded(body)?;
                if let Some(precondition) = &precondition {
                    body = with_precondition(&body, precondition).map_err(|error| unsent(error.to_string()))?;
                }
                Call::patch(target, *kind, body)
            }
            Verb::Delete(propagation, grace_seconds) => {
                let Precondition { uid, version } = precondition.unwrap_or_default();
                let uid = (!uid.is_empty()).then_some(uid);
                let version = version.filter(|version| version.is_known());
                let options = Delete { uid, version, propagation: *propagation, grace_seconds: *grace_seconds };
                Call::delete(target, &options)?
            }
        })
    }
}

/// What an answer to a write tells of the object, as far as every controller reads it.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The version at which the write has left it.
    pub version: Version,
}

impl Fields {
    /// Reads them from an answer.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, api::Error> {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata {
            name: String,
            uid: Option<Uid>,
            resource_version: Version,
        }
        let Object { metadata } = serde_json::from_slice(answer)?;
        let uid = metadata.uid.unwrap_or_default();
        Ok(Self { name: metadata.name.into(), uid, version: metadata.resource_version })
    }
}

/// What a refusal means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// There is no such object, or another one has its name.
    Gone,
    /// The object is at another version than the one that was judged.
    Changed,
    /// An object of that name exists.
    Taken,
    /// The namespace terminates or is gone: nothing can be created in it.
    NamespaceTerminating,
    /// The server refuses the request for another reason, or could not be reached. Nothing was written.
    Refused,
    /// The write may have taken effect: no answer says whether it did.
    Unknown,
}

/// A request that did not succeed.
#[derive(Debug)]
pub struct Refusal {
    /// What that means.
    pub class: Class,
    /// What the server said.
    pub error: api::Error,
}

impl From<api::Error> for Refusal {
    fn from(error: api::Error) -> Self {
        let class = if error.is_namespace_terminating() {
            Class::NamespaceTerminating
        } else if error.is_not_found() || error.is_another() {
            Class::Gone
        } else if error.is_conflict() {
            Class::Changed
        } else if error.is_already_exists() {
            Class::Taken
        } else if error.may_have_happened() {
            Class::Unknown
        } else {
            Class::Refused
        };
        Self { class, error }
    }
}

/// Puts the object that a patch is meant for into its body.
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
