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

impl RecordedWrite {
    /// Whether a process that made this write also made the write `event`, or has replaced its result.
    fn includes(self, event: Self) -> bool {
        match (self, event) {
            (Self::NewVersion(version), Self::NewVersion(event_version)) => event_version <= version,
            (own, event) => own == Self::Deletion && event == Self::Deletion,
        }
    }
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
        let Some(ServiceWrites { last, is_sending, early }) = all.get_mut(service) else { return false };
        *is_sending = false;
        let mut others = false;
        if let Some((uid, wrote)) = wrote {
            let early = early.remove(uid);
            if early == Some(RecordedWrite::Deletion) {
                last.remove(uid);
            } else {
                last.insert(uid.clone(), wrote);
            }
            others = early.is_some_and(|early| !wrote.includes(early));
        }
        others |= !std::mem::take(early).is_empty();
        if last.is_empty() {
            all.remove(service);
        }
        others
    }

    /// Returns the writer that caused an event with this write of a slice.
    pub(crate) fn author_of(&self, service: &NamespacedName, slice_uid: &Uid, write: RecordedWrite) -> ChangeAuthor {
        let mut all = self.0.lock();
        let Some(ServiceWrites { last, is_sending, early }) = all.get_mut(service) else {
            return ChangeAuthor::AnotherWriter;
        };
        let is_own = last.get(slice_uid).is_some_and(|last| last.includes(write));
        if write == RecordedWrite::Deletion {
            last.remove(slice_uid);
        }
        let author = if is_own {
            ChangeAuthor::ThisProcess
        } else if *is_sending {
            early.insert(slice_uid.clone(), write);
            ChangeAuthor::Undecided
        } else {
            ChangeAuthor::AnotherWriter
        };
        if last.is_empty() && !*is_sending {
            all.remove(service);
        }
        author
    }

    pub(crate) fn forget_service(&self, service: &NamespacedName) {
        self.0.lock().remove(service);
    }
}

#[cfg(test)]
mod tests;
