//! Sends the requests that write slices, for the loops `slices` and `mirroring`.
//!
//! Requests are sent in the order of the plan, which [`crate::decide::write_order`] chose so that no endpoint is missing between
//! two writes.

use std::sync::Arc;

use common::{
    api::Patch,
    io::{Class, Failed, Io, Note, Refusal, Request, Role},
    meta::{Key, Uid, Version},
};

use crate::{
    body::{Change, Whole},
    objects::{ENDPOINT_SLICES, Slice},
    plan::{Draft, SliceMetadata, Write, Writes},
};

/// The progress of one write of a slice.
#[derive(Debug)]
pub enum WriteNote {
    /// The request is about to be sent. Watch events of the write may arrive before the answer.
    Begin,
    /// The request failed.
    Fail,
    /// The slice was created or updated: the operation as a metric label, the UID of the slice, and its new version.
    Put(&'static str, Uid, Version),
    /// The slice with this UID was deleted.
    Delete(Uid),
    /// The server answered that the slice to delete does not exist.
    FindGone,
}

/// The result of the writes for one address type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// All writes succeeded.
    All,
    /// The namespace is terminating, so the server accepts no new object in it. This is not a failure.
    NamespaceTerminates,
}

/// The metadata and the connection that all writes of slices in one plan share.
pub(crate) struct SliceWriter<'a, N: Note> {
    /// `Service` or `Endpoints`, the kind of the object that the slices belong to, for error messages.
    pub(crate) kind: &'static str,
    /// The namespace and name of the Service or the Endpoints.
    pub(crate) key: &'a Key,
    /// The labels, annotations and owner of every written slice.
    pub(crate) metadata: &'a SliceMetadata,
    /// The function that builds the merge patch from a slice to its draft: [`Change::new`] or [`Change::everything`].
    pub(crate) change: fn(&'a SliceMetadata, &'a Slice, &'a Draft) -> Change<'a>,
    pub(crate) io: Io<'a, N>,
}

impl<'a, N: Note + From<WriteNote>> SliceWriter<'a, N> {
    /// Sends the writes of an address type one after the other, and stops at the first failure.
    pub(crate) async fn write_all(&self, writes: &'a Writes) -> Result<Written, Failed> {
        for write in writes.iter() {
            let request = match write {
                Write::Put(draft @ Draft { base: Some(base), .. }) => self.update(base, draft),
                Write::Put(draft) => self.create(writes, draft),
                Write::Delete(slice) => delete(slice, "no endpoint belongs in it"),
            };
            match self.send(request, write).await {
                Ok(()) => {}
                Err(refusal) if refusal.class == Class::NamespaceTerminating => {
                    return Ok(Written::NamespaceTerminates);
                }
                Err(refusal) => return Err(self.failed(write, &refusal)),
            }
        }
        Ok(Written::All)
    }

    fn update(&self, base: &'a Slice, draft: &'a Draft) -> Request {
        let body = self.io.body(|| (self.change)(self.metadata, base, draft));
        let request = Request::patch(ENDPOINT_SLICES, &base.metadata, Patch::Merge, body);
        request.role(Role::Awaited).doing("update").because(shown(std::slice::from_ref(draft)))
    }

    /// Builds the request that creates a slice.
    ///
    /// A create with a lost answer is retried after the back-off, like any other failure. By then the cache usually shows the
    /// slice if the server created it. Otherwise the retry creates a second slice with the same endpoints, and the next sync
    /// removes one of the two. A longer wait for the cache would keep endpoints of deleted Pods ready in the remaining slices.
    fn create(&self, writes: &Writes, draft: &Draft) -> Request {
        let body = self.io.body(|| Whole::new(self.metadata, writes.kind, draft));
        let request = Request::create(ENDPOINT_SLICES, &self.metadata.namespace, &Arc::default(), body);
        let request = request.generate_name(self.metadata.generate_name.as_str());
        // An explanation merges all creates into one line, so only the first create carries a reason.
        let is_first = writes.create.first().is_some_and(|first| std::ptr::eq(first, draft));
        let why = if is_first { shown(&writes.create) } else { String::new() };
        request.role(Role::Awaited).kind(writes.kind.slice_kind()).because(why)
    }

    /// Deletes a slice; `why` is the reason that explanations show.
    pub(crate) async fn delete(&self, slice: &Arc<Slice>, why: &'static str) -> Result<(), Refusal> {
        self.send(delete(slice, why), Write::Delete(slice)).await
    }

    /// Sends a write, and notes its start and its result. Deleting a slice that does not exist counts as success.
    async fn send(&self, request: Request, write: Write<'_>) -> Result<(), Refusal> {
        self.io.note(WriteNote::Begin.into());
        let (note, result) = match (self.io.send(request).await, write) {
            (Ok(answer), Write::Put(draft)) => {
                let operation = if draft.base.is_some() { "update" } else { "create" };
                (WriteNote::Put(operation, answer.fields.uid, answer.fields.version), Ok(()))
            }
            (Ok(_), Write::Delete(slice)) => (WriteNote::Delete(slice.metadata.uid.clone()), Ok(())),
            (Err(refusal), Write::Delete(_)) if refusal.error.is_not_found() => (WriteNote::FindGone, Ok(())),
            (Err(refusal), _) => (WriteNote::Fail, Err(refusal)),
        };
        self.io.note(note.into());
        result
    }

    fn failed(&self, write: Write<'_>, refusal: &Refusal) -> Failed {
        let (doing, slice) = match write {
            Write::Put(Draft { base: None, .. }) => ("create", None),
            Write::Put(Draft { base, .. }) => ("update", base.as_ref()),
            Write::Delete(slice) => ("delete", Some(slice)),
        };
        let name = slice.map_or_else(String::new, |slice| format!("{} ", slice.metadata.name));
        Failed::request(&format!("failed to {doing} {name}EndpointSlice for {} {}", self.kind, self.key), refusal)
    }
}

/// Builds the request that deletes a slice, with a precondition on its cached version.
///
/// A conflict is a failure: the slice is newer than its cached version, and the next sync decides again with a newer cache.
fn delete(slice: &Slice, why: &'static str) -> Request {
    Request::delete(ENDPOINT_SLICES, &slice.metadata).role(Role::Awaited).because(why)
}

/// Returns the numbers of endpoints and of ready endpoints in these drafts, as a text for explanations.
fn shown(drafts: &[Draft]) -> String {
    let endpoints = || drafts.iter().flat_map(|draft| &draft.endpoints);
    let ready = endpoints().filter(|endpoint| endpoint.is_ready()).count();
    format!("{} endpoints, {ready} of them ready", endpoints().count())
}
