//! The object that a request concerns, and the interpretation of the server's answers.

mod finalizer;

use std::sync::Arc;

use common::{
    api::{self, PatchFormat},
    object::is_valid_object_name,
    partial_object::PartialObject,
    prelude::*,
};

use crate::graph::{Identity, Kind};

/// Maximum number of attempts in one sync to change or delete an object that other clients change before each attempt.
pub(crate) const MAX_WRITE_ATTEMPTS: u32 = 4;
/// Start of the error message when a write of owner references fails. The location of the object follows.
pub(crate) const REFERENCE_CHANGE_ACTIVITY: &str = "changing the owner references of";

pub(crate) fn event_reference(identity: &Identity, kind: &Kind) -> InvolvedObject {
    InvolvedObject {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
        namespace: identity.namespace.clone(),
        name: (&*identity.name).into(),
        uid: identity.uid.clone(),
        version: ResourceVersion::UNKNOWN,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectLocation {
    pub(crate) resource: Resource,
    pub(crate) namespace: Text,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Uid,
}

pub(crate) enum LiveReadResult {
    /// The object is assumed to be as expected, because a forecast (a sync without requests) reads nothing.
    AsExpected,
    Existing(Meta),
    /// No object has this name, or another object has it.
    Absent,
}

impl ObjectLocation {
    pub(crate) fn new(resource: Resource, identity: &Identity) -> Self {
        let Identity { namespace, name, uid, .. } = identity;
        Self { resource, namespace: namespace.clone(), name: Arc::clone(name), uid: uid.clone() }
    }

    /// Whether an object can have this name. The API server does not validate the names in owner references.
    pub(crate) fn can_exist(&self) -> bool {
        is_valid_object_name(&self.name)
    }

    /// Reads the live metadata of the object. Sends no request if no object can have the name.
    pub(crate) async fn read_live<C: Sync>(
        &self,
        why: &'static str,
        io: Io<'_, C>,
    ) -> Result<LiveReadResult, SyncError> {
        if !self.can_exist() {
            return Ok(LiveReadResult::Absent);
        }
        let request = Request::get_metadata(self.resource.clone(), &self.namespace, &self.name);
        match io.send_and_decode::<PartialObject>(request.with_reason(why)).await {
            Ok(None) => Ok(LiveReadResult::AsExpected),
            Ok(Some(PartialObject { metadata, .. })) if metadata.uid == self.uid => {
                Ok(LiveReadResult::Existing(metadata))
            }
            Ok(Some(_)) => {
                io.explain_deviation(format!("{} is another object", self.describe()));
                Ok(LiveReadResult::Absent)
            }
            Err(refusal) if refusal.error.is_object_absent() => Ok(LiveReadResult::Absent),
            Err(refusal) => Err(self.refusal_error("reading", &refusal)),
        }
    }

    /// Builds a PATCH request for the object, which is answered with its metadata: the contents of Secrets must not reach this
    /// process. Without a precondition, the patch applies to any version of the object.
    pub(crate) fn patch(&self, format: PatchFormat, precondition: Option<Precondition>, body: RequestBody) -> Request {
        let request = Request::patch(self.resource.clone(), &self.meta(), format, body).with_metadata_answer();
        request.with_precondition(precondition)
    }

    pub(crate) fn meta(&self) -> Meta {
        let (namespace, name, uid) = (self.namespace.clone(), Arc::clone(&self.name), self.uid.clone());
        Meta { namespace, name, uid, ..Meta::default() }
    }

    /// Returns resource, namespace and name, as messages show them.
    pub(crate) fn describe(&self) -> String {
        let Self { resource, namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{resource} {namespace}{slash}{name}")
    }

    /// Returns the error for a refused request. `doing` is the activity in the message, such as `reading`.
    pub(crate) fn refusal_error(&self, doing: &str, refusal: &Refusal) -> SyncError {
        SyncError::from_refusal(&format!("{doing} {}", self.describe()), refusal)
    }

    /// Returns the error for an object that changed before each of [`MAX_WRITE_ATTEMPTS`] attempts to write it.
    pub(crate) fn conflict_error(&self) -> SyncError {
        SyncError::new(SyncErrorClass::Changing, format!("{} changed before each attempt to write it", self.describe()))
    }
}

/// Records an Event on the object of the sync if the server denied a change of owner references. The change is denied until
/// a right is granted, or a policy or a webhook is changed.
pub(crate) fn report_denied_reference_change<C: Sync>(error: &SyncError, io: Io<'_, C>) {
    if error.is_denied() {
        io.record_event(EventType::Warning, "FailedUpdate", format!("Error: {error}"));
    }
}

pub(crate) fn unserved_kind_error(kind: &Kind) -> SyncError {
    SyncError::new(SyncErrorClass::Unserved, format!("kind {} of {} is not served", kind.kind, kind.api_version))
}

/// Whether the server answered 415, because it does not accept the format of the patch.
pub(crate) fn is_unsupported_patch(refusal: &Refusal) -> bool {
    matches!(&*refusal.error, api::Error::Status(status) if status.code == 415)
}
