//! An object that requests are about, and what their answers mean.

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

/// How often an object is judged, or written, before the sync fails because the object has changed each time.
pub(crate) const TRIES: u32 = 4;
/// What is being done when owner references are written.
pub(crate) const CHANGING_REFERENCES: &str = "changing the owner references of";

/// The object of a sync as its Events name it, and its uid.
pub(crate) fn object(view: &View) -> (ObjectRef, Uid) {
    (object_ref(&view.identity, &view.kind), view.identity.uid.clone())
}

/// An object as Events name it.
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

/// An object, and where requests about it go.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) resource: Resource,
    pub(crate) namespace: Text,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Uid,
}

/// What a live read shows of an object.
pub(crate) enum Live {
    /// What was expected: this is a forecast.
    AsExpected,
    Is(Meta),
    /// There is no object of that name, or it is another one.
    Absent,
}

impl Place {
    pub(crate) fn new(resource: Resource, identity: &Identity) -> Self {
        let Identity { namespace, name, uid, .. } = identity;
        Self { resource, namespace: namespace.clone(), name: Arc::clone(name), uid: uid.clone() }
    }

    /// Whether an object can have that name: names in owner references are unchecked.
    pub(crate) fn can_exist(&self) -> bool {
        can_be_name(&self.name)
    }

    /// Reads the object's metadata. If no object can have the name, nothing is sent.
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

    /// A patch of the object, or of one version of it.
    pub(crate) fn patch(&self, kind: api::Patch, precondition: Option<Precondition>, body: Body) -> Request {
        Request { precondition, ..Request::patch(self.resource, &self.meta(), kind, body) }
    }

    pub(crate) fn meta(&self) -> Meta {
        let (namespace, name, uid) = (self.namespace.clone(), Arc::clone(&self.name), self.uid.clone());
        Meta { namespace, name, uid, ..Meta::default() }
    }

    /// As people name it.
    pub(crate) fn title(&self) -> String {
        let Self { resource, namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{resource} {namespace}{slash}{name}")
    }

    /// A refused request about the object.
    pub(crate) fn refused(&self, doing: &str, refusal: &Refusal) -> Failed {
        Failed::request(&format!("{doing} {}", self.title()), refusal)
    }

    /// The object changes faster than it can be judged.
    pub(crate) fn changing(&self) -> Failed {
        Failed::new("changing", format!("{} was changed each time it was to be written", self.title()))
    }
}

/// Reports on the object of the sync that the server denies a change of owner references: the object stays as it is until a right
/// is granted, or a policy or a webhook is changed.
pub(crate) fn report_denied<N: Note>(failed: &Failed, io: Io<'_, N>) {
    if failed.is_denied() {
        io.event(EventType::Warning, "FailedUpdate", format!("Error: {failed}"));
    }
}

/// No resource of a kind is served.
pub(crate) fn unserved(kind: &Kind) -> Failed {
    Failed::new("unserved", format!("kind {} of {} is not served", kind.kind, kind.api_version))
}

/// Whether the server says that there is no object of that name.
///
/// A server that does not serve the path at all, because a definition was added or removed this moment, answers 404, too.
pub(crate) fn says_absent(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status)
        if status.reason == "NotFound" && !status.message.starts_with("the server could not find the requested resource"))
}

/// Whether the server does not take patches of that kind.
pub(crate) fn is_unsupported(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status) if status.code == 415)
}
