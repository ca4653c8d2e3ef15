//! Where requests about an object go, and what its answers mean.

use std::sync::Arc;

use common::{
    api,
    events::EventType,
    intern::Text,
    meta::{Meta, Uid},
    object::{Resource, can_be_name},
    sequence::{Body, Failed, Note, Precondition, Refusal, Request, Turn},
};

use crate::{
    graph::{Identity, Kind},
    objects::Partial,
};

/// An object, and where requests about it go.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) resource: Resource,
    pub(super) namespace: Text,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
}

/// What a live read shows of an object.
pub(super) enum Live {
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

    /// A read of the object's metadata. Names in references are anybody's: for one that no object can have there is none.
    pub(super) fn read(&self) -> Option<Request> {
        can_be_name(&self.name).then(|| Request::get_metadata(self.resource, &self.namespace, &self.name))
    }

    /// The answer to [`Self::read`].
    pub(super) fn live<N: Note>(&self, turn: &mut Turn<N>) -> Result<Live, Failed> {
        match turn.read::<Partial>() {
            Ok(None) => Ok(Live::AsExpected),
            Ok(Some(Partial { metadata })) if metadata.uid == self.uid => Ok(Live::Is(metadata)),
            Ok(Some(_)) => {
                turn.deviates(format!("{} is another object", self.title()));
                Ok(Live::Absent)
            }
            Err(refusal) if says_absent(&refusal) => Ok(Live::Absent),
            Err(refusal) => Err(self.refused("reading", &refusal)),
        }
    }

    /// A patch of the object, or of one version of it.
    pub(super) fn patch(&self, kind: api::Patch, precondition: Option<Precondition>, body: Body) -> Request {
        Request { precondition, ..Request::patch(self.resource, &self.meta(), kind, body) }
    }

    pub(super) fn meta(&self) -> Meta {
        let (namespace, name, uid) = (self.namespace.clone(), Arc::clone(&self.name), self.uid.clone());
        Meta { namespace, name, uid, ..Meta::default() }
    }

    /// As people name it.
    pub(super) fn title(&self) -> String {
        let Self { resource, namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{resource} {namespace}{slash}{name}")
    }

    /// A refused request about the object.
    pub(super) fn refused(&self, doing: &str, refusal: &Refusal) -> Failed {
        Failed::request(&format!("{doing} {}", self.title()), refusal)
    }

    /// The object changes faster than it can be judged.
    pub(super) fn changing(&self) -> Failed {
        Failed::new("changing", format!("{} was changed each time it was to be written", self.title()))
    }
}

/// Reports on the object of the sync that the server denies a change of owner references: the object stays as it is until a right
/// is granted, or a policy or a webhook is changed.
pub(crate) fn tell_denied<N: Note>(turn: &mut Turn<N>, failed: &Failed) {
    if failed.is_denied() {
        turn.tell(EventType::Warning, "FailedUpdate", format!("Error: {failed}"));
    }
}

/// No resource of a kind is served.
pub(crate) fn unserved(kind: &Kind) -> Failed {
    Failed::new("unserved", format!("kind {} of {} is not served", kind.kind, kind.api_version))
}

/// Whether the server says that there is no object of that name.
///
/// A server that does not serve the path at all, because a definition was added or removed this moment, answers 404, too.
pub(super) fn says_absent(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status)
        if status.reason == "NotFound" && !status.message.starts_with("the server could not find the requested resource"))
}

/// Whether the server does not take patches of that kind.
pub(super) fn is_unsupported(refusal: &Refusal) -> bool {
    matches!(&refusal.error, api::Error::Status(status) if status.code == 415)
}
