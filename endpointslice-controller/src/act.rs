//! Sends the requests that write slices, for the loops `slices` and `mirroring`.
//!
//! Requests are sent in the order of the plan. [`crate::decide::write_order`] chose this order so that no endpoint is missing
//! between two writes.

use std::sync::Arc;

use common::{prelude::*, wire::messages};

use crate::{
    body::{NewSliceBody, SliceReplacement},
    objects::{ENDPOINT_SLICES, Slice},
    own_writes::RecordedWrite,
    plan::{SliceDraft, SliceMetadata, SliceWrite, SliceWrites},
    watch::SliceEventHandlers,
};

/// The result of [`SliceWriter::write_all`] if no write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// All writes took effect, or there was nothing to write.
    AllWritten,
    /// The namespace is terminating, so the server accepts no new object in it. This is not a failure.
    NamespaceTerminates,
}

/// The sender of the slice writes of one plan, with the metadata that all these writes share.
pub(crate) struct SliceWriter<'a, C> {
    /// The kind of the owner of the slices, for error messages: `Service` or `Endpoints`.
    pub(crate) owner_kind: &'static str,
    pub(crate) owner_key: &'a NamespacedName,
    pub(crate) metadata: &'a SliceMetadata,
    pub(crate) io: Io<'a, C>,
}

impl<'a, C: AsRef<SliceEventHandlers> + Sync> SliceWriter<'a, C> {
    /// Sends the writes for one address type one after the other, and stops at the first failure.
    pub(crate) async fn write_all(&self, slice_writes: &'a SliceWrites) -> Result<WriteOutcome, SyncError> {
        for write in slice_writes.iter() {
            let request = match write {
                SliceWrite::Put(draft @ SliceDraft { existing_slice: Some(slice), .. }) => self.update(slice, draft),
                SliceWrite::Put(draft) => self.create(slice_writes, draft),
                SliceWrite::Delete(slice) => delete_request(slice, "no endpoint belongs in it"),
            };
            match self.send(request, write).await {
                Ok(()) => {}
                Err(refusal) if refusal.class == RefusalClass::NamespaceTerminating => {
                    return Ok(WriteOutcome::NamespaceTerminates);
                }
                Err(refusal) => return Err(self.write_failure(write, &refusal)),
            }
        }
        Ok(WriteOutcome::AllWritten)
    }

    fn update(&self, slice: &'a Slice, draft: &'a SliceDraft) -> Request {
        let body = || SliceReplacement::new(self.metadata, slice, draft);
        let body = self.io.encode_object(&ENDPOINT_SLICES, &messages::ENDPOINT_SLICE, body);
        Request::replace(ENDPOINT_SLICES, &slice.metadata, body)
            .with_role(ObjectRole::AwaitedObject)
            .with_verb_text("update")
            .with_reason(endpoint_counts_text(std::slice::from_ref(draft)))
    }

    /// Builds the request that creates a slice.
    ///
    /// If the answer to a creation is lost, the sync is retried after the back-off, like any other failure. By then the cache
    /// usually shows the slice if the server created it. Otherwise the retry creates a second slice with the same endpoints,
    /// and the next sync deletes one of the two slices. During a longer wait, deleted Pods would remain listed as ready.
    fn create(&self, slice_writes: &SliceWrites, draft: &SliceDraft) -> Request {
        let SliceWrites { address_type, slices_to_create, .. } = slice_writes;
        let body = || NewSliceBody::new(self.metadata, *address_type, draft);
        let body = self.io.encode_object(&ENDPOINT_SLICES, &messages::ENDPOINT_SLICE, body);
        // An explanation merges all creations into one line, so only the first creation carries a reason.
        let is_first = slices_to_create.first().is_some_and(|first| std::ptr::eq(first, draft));
        let why = if is_first { endpoint_counts_text(slices_to_create) } else { String::new() };
        Request::create(ENDPOINT_SLICES, &self.metadata.namespace, &Arc::default(), body)
            .with_generate_name(self.metadata.generate_name.as_str())
            .with_role(ObjectRole::AwaitedObject)
            .with_kind(address_type.slice_description())
            .with_reason(why)
    }

    /// Deletes a slice, with a precondition on its cached version; `why` is the reason that explanations show.
    pub(crate) async fn delete(&self, slice: &Arc<Slice>, why: &'static str) -> Result<(), Refusal> {
        self.send(delete_request(slice, why), SliceWrite::Delete(slice)).await
    }

    /// Sends a write, and records its begin and its answer for the event handlers. Deleting a missing slice succeeds.
    async fn send(&self, request: Request, write: SliceWrite<'_>) -> Result<(), Refusal> {
        // Watch events of the write may arrive before the answer.
        self.io.update_memory(|controller| controller.as_ref().own_writes.begin_request(self.owner_key));
        let (own_write, result) = match (self.io.send(request).await, write) {
            (Ok(answer), SliceWrite::Put(_)) => {
                (Some((answer.metadata.uid, RecordedWrite::NewVersion(answer.metadata.version))), Ok(()))
            }
            (Ok(_), SliceWrite::Delete(slice)) => (Some((slice.metadata.uid.clone(), RecordedWrite::Deletion)), Ok(())),
            (Err(refusal), SliceWrite::Delete(_)) if refusal.error.is_not_found() => (None, Ok(())),
            (Err(refusal), _) => (None, Err(refusal)),
        };
        self.io.update_memory(|controller| {
            let slice_handlers = controller.as_ref();
            slice_handlers.finish_request(self.owner_key, own_write.as_ref().map(|(uid, write)| (uid, *write)));
            if result.is_ok() {
                slice_handlers.slice_changes.with_label_values(&[write.operation()]).inc();
            }
        });
        result
    }

    fn write_failure(&self, write: SliceWrite<'_>, refusal: &Refusal) -> SyncError {
        let slice = match write {
            SliceWrite::Put(SliceDraft { existing_slice, .. }) => existing_slice.as_ref(),
            SliceWrite::Delete(slice) => Some(slice),
        };
        let (operation, Self { owner_kind, owner_key, .. }) = (write.operation(), self);
        let name = slice.map_or_else(String::new, |slice| format!("{} ", slice.metadata.name));
        let what = format!("failed to {operation} {name}EndpointSlice for {owner_kind} {owner_key}");
        SyncError::from_refusal(&what, refusal)
    }
}

/// Builds the request that deletes a slice, with a precondition on its cached version.
///
/// A conflict is a failure: the slice on the server is newer than in the cache, and the next sync decides with a newer cache.
fn delete_request(slice: &Slice, why: &'static str) -> Request {
    Request::delete(ENDPOINT_SLICES, &slice.metadata).with_role(ObjectRole::AwaitedObject).with_reason(why)
}

/// Returns a text for explanations that counts the endpoints and the ready endpoints in these drafts.
fn endpoint_counts_text(drafts: &[SliceDraft]) -> String {
    let endpoints = || drafts.iter().flat_map(|draft| &draft.endpoints);
    let ready = endpoints().filter(|endpoint| endpoint.is_ready()).count();
    format!("{} endpoints, {ready} of them ready", endpoints().count())
}
