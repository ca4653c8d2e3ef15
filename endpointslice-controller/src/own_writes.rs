//! Recognizes slice events that were caused by writes of this process.

use common::prelude::*;
use parking_lot::Mutex;

/// The effect of a write on a slice, as shown by the answer to a request or by a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedWrite {
    /// The slice was created or changed, and got this version.
    NewVersion(ResourceVersion),
    /// The slice was deleted.
    Deletion,
}

/// The writer that caused an event of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeAuthor {
    /// This process: the event needs no sync.
    ThisProcess,
    /// Another writer: the Service of the slice must be synced.
    AnotherWriter,
    /// The writer is unknown until the request in flight is answered.
    Undecided,
}

/// The last writes of this process to the slices of each Service.
///
/// Event handlers use these records to ignore events of this process's writes. The ledger records whether a cache shows them.
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `EndpointSliceTracker`.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<NamespacedName, ServiceWrites>>);

#[derive(Debug, Default)]
struct ServiceWrites {
    /// The last write of this process to each slice, until the slice is deleted.
    last: HashMap<Uid, RecordedWrite>,
    /// Whether a request that writes a slice of the Service has no answer yet.
    is_sending: bool,
    /// The writes seen in events while a request was in flight, by the UID of the slice. They may be writes of this process.
    early: HashMap<Uid, RecordedWrite>,
}

impl OwnWrites {
    /// Records that a request for a Service is being sent. Each Service has at most one request in flight, and events of the
    /// write may arrive before the answer.
    pub(crate) fn begin_request(&self, service: &NamespacedName) {
        self.0.lock().entry(service.clone()).or_default().is_sending = true;
    }

    /// Records the answer to a request: `wrote` has the slice and the write; `None` if the request failed. Returns whether
    /// another writer changed a slice of the Service while the request was in flight.
    pub(crate) fn finish_request(&self, service: &NamespacedName, wrote: Option<(&Uid, RecordedWrite)>) -> bool {
        let mut all = self.0.lock();
        // If `forget_service` was called while the request was in flight, nothing is recorded.
        let Some(slices) = all.get_mut(service) else { return false };
        slices.is_sending = false;
        let mut others = false;
        if let Some((uid, wrote)) = wrote {
            match (wrote, slices.early.remove(uid)) {
                (RecordedWrite::Deletion, Some(RecordedWrite::Deletion)) => drop(slices.last.remove(uid)),
                (RecordedWrite::NewVersion(_), Some(RecordedWrite::Deletion)) => {
                    slices.last.remove(uid);
                    others = true;
                }
                (_, early) => {
                    let is_own = |early| matches!((early, wrote), (RecordedWrite::NewVersion(e), RecordedWrite::NewVersion(w)) if e <= w);
                    others = early.is_some_and(|early| !is_own(early));
                    slices.last.insert(uid.clone(), wrote);
                }
            }
        }
        others |= !std::mem::take(&mut slices.early).is_empty();
        if slices.last.is_empty() {
            all.remove(service);
        }
        others
    }

    /// Returns the writer that added or changed a slice.
    pub(crate) fn author_of_change(&self, service: &NamespacedName, slice: &Meta) -> ChangeAuthor {
        let mut all = self.0.lock();
        let Some(slices) = all.get_mut(service) else { return ChangeAuthor::AnotherWriter };
        let version = slice.resource_version;
        if slices
            .last
            .get(&slice.uid)
            .is_some_and(|last| matches!(last, RecordedWrite::NewVersion(last) if version <= *last))
        {
            return ChangeAuthor::ThisProcess;
        }
        slices.record_early_event(&slice.uid, RecordedWrite::NewVersion(version))
    }

    /// Returns the writer that deleted a slice.
    pub(crate) fn author_of_deletion(&self, service: &NamespacedName, slice: &Meta) -> ChangeAuthor {
        let mut all = self.0.lock();
        let Some(slices) = all.get_mut(service) else { return ChangeAuthor::AnotherWriter };
        let last = slices.last.remove(&slice.uid);
        let author = if last == Some(RecordedWrite::Deletion) {
            ChangeAuthor::ThisProcess
        } else {
            slices.record_early_event(&slice.uid, RecordedWrite::Deletion)
        };
        if slices.last.is_empty() && !slices.is_sending {
            all.remove(service);
        }
        author
    }

    /// Removes the records of a deleted Service.
    pub(crate) fn forget_service(&self, service: &NamespacedName) {
        self.0.lock().remove(service);
    }
}

impl ServiceWrites {
    fn record_early_event(&mut self, slice: &Uid, write: RecordedWrite) -> ChangeAuthor {
        if !self.is_sending {
            return ChangeAuthor::AnotherWriter;
        }
        self.early.insert(slice.clone(), write);
        ChangeAuthor::Undecided
    }
}

#[cfg(test)]
mod tests;
