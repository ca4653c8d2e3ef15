//! The object that a request concerns, and the interpretation of the server's answers.

mod finalizer;

use std::sync::Arc;

use common::{
    api,
    events::{EventType, ObjectRef},
    intern::Text,
    io::{Body, Failed, Io, Note, Precondition, Refusal, Request},
    meta::{Meta, Uid, Version},
    object::{Resource, can_be_name},
};

use crate::{
    graph::{Identity, Kind, View},
    objects::Partial,
};

/// Maximum number of attempts in one sync to judge or write an object that changes before each write.
pub(crate) const TRIES: u32 = 4;
/// The activity that errors name when owner references are written.
pub(crate) const CHANGING_REFERENCES: &str = "changing the owner references of";

/// Returns the reference for Events about the object of a sync, and the UID of the object.
pub(crate) fn object(view: &View) -> (ObjectRef, Uid) {
    (object_ref(&view.identity, &view.kind), view.identity.uid.clone())
}

/// Returns the reference for Events about an object.
pub(crate) fn object_ref(identity: &Identity, kind: &Kind) -> ObjectRef {
    ObjectRef {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
        namespace: identity.namespace.clone(),
        name: (&*identity.name).into(),
        uid: identity.uid.clone(),
        version: Version::UNKNOWN,
    }
}

/// An object and its location in the API.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) resource: Resource,
    pub(crate) namespace: Text,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Uid,
}

/// Result of a live read of an object.
pub(crate) enum Live {
    /// The object is assumed to be as expected, because a forecast (a sync without requests) reads nothing.
    AsExpected,
    Is(Meta),
    /// No object has this name, or another object has it.
    Absent,
}

impl Place {
    pub(crate) fn new(resource: Resource, identity: &Identity) -> Self {
        let Identity { namespace, name, uid, .. } = identity;
        Self { resource, namespace: namespace.clone(), name: Arc::clone(name), uid: uid.clone() }
    }

    /// Returns whether an object can have this name. The API server does not validate the names in owner references.
    pub(crate) fn can_exist(&self) -> bool {
        can_be_name(&self.name)
    }

    /// Reads the live metadata of the object. Sends no request if no object can have the name.
    pub(crate) async fn live<N: Note>(&self, why: &'static str, io: Io<'_, N>) -> Result<Live, Failed> {
        if !self.can_exist() {
            return Ok(Live::Absent);
        }
        let request = Request::get_metadata(self.resource, &self.namespace, &self.name);
        match io.send_and_read::<Partial>(request.because(why)).await {
            Ok(None) => Ok(Live::AsExpected),
            Ok(Some(Partial { metadata })) if metadata.uid == self.uid => Ok(Live::Is(metadata)),
            Ok(Some(_)) => {
                io.deviate(format!("{} is another object", self.title()));
                Ok(Live::Absent)
            }
            Err(refusal) if says_absent(&refusal) => Ok(Live::Absent),
            Err(refusal) => Err(self.refused("reading", &refusal)),
        }
    }

    /// Creates a patch of the object, with an optional precondition.
    pub(crate) fn patch(&self, kind: api::Patch, precondition: Option<Precondition>, body: Body) -> Request {
        Request { precondition, ..Request::patch(self.resource, &self.meta(), kind, body) }
    }

    pub(crate) fn meta(&self) -> Meta {
        let (namespace, name, uid) = (self.namespace.clone(), Arc::clone(&self.name), self.uid.clone());
        Meta { namespace, name, uid, ..Meta::default() }
    }

    /// Returns resource, namespace and name, as messages show them.
    pub(crate) fn title(&self) -> String {
        let Self { resource, namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{resource} {namespace}{slash}{name}")
    }

    /// Returns the error for a refused request. `doing` is the activity in the message, such as `reading`.
    pub(crate) fn refused(&self, doing: &str, refusal: &Refusal) -> Failed {
        Failed::request(&format!("{doing} {}", self.title()), refusal)
    }

    /// Returns the error for an object that changed before each of [`TRIES`] attempts to write it.
    pub(crate) fn changing(&self) -> Failed {
        Failed::new("changing", format!("{} changed before each attempt to write it", self.title()))
    }
}

/// Records an Event on the object of the sync if the server denied a change of owner references. The change stays denied until
/// a right is granted, or a policy or a webhook is changed.
pub(crate) fn report_denied<N: Note>(failed: &Failed, io: Io<'_, N>) {
    if failed.is_denied() {
        io.event(EventType::Warning, "FailedUpdate", format!("Error: {failed}"));
    }
}

/// Returns the error for a kind that no resource serves.
pub(crate) fn unserved(kind: &Kind) -> Failed {
    Failed::new("unserved", format!("kind {} of {} is not served", kind.kind, kind.api_version))
}

/// Returns whether the server answered that no object has this name.
///
/// The server also answers 404 for a path that it does not serve, for example while a CustomResourceDefinition is added or
/// removed.
pub(crate) fn says_absent(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status)
        if status.reason == "NotFound" && !status.message.starts_with("the server could not find the requested resource"))
}

/// Returns whether the server refused the format of the patch.
pub(crate) fn is_unsupported(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status) if status.code == 415)
}
