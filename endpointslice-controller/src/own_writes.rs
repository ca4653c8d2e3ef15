//! Which events of slices are caused by this process's own writes.

use common::{
    map::HashMap,
    meta::{Key, Meta, Uid, Version},
};
use parking_lot::Mutex;

/// The last own write of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// Created or changed, in this version.
    Version(Version),
    /// Deleted.
    Deletion,
}

/// Who caused an event of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// This process.
    Own,
    /// Somebody else.
    Other,
    /// Unknown until the write that is being sent has its answer.
    Undecided,
}

/// What this process wrote last to the slices of each Service.
///
/// Only handlers of events ask; whether a sync has seen its own writes is decided by the ledger. Upstream:
/// `staging/src/k8s.io/endpointslice/util`, `EndpointSliceTracker`.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Key, Slices>>);

#[derive(Debug, Default)]
struct Slices {
    /// The last own write of each slice, until the slice is gone.
    last: HashMap<Uid, Wrote>,
    /// Whether a request waits for its answer.
    is_sending: bool,
    /// Events that came while a request waited for its answer.
    early: HashMap<Uid, Wrote>,
}

impl OwnWrites {
    /// Notes that a request is sent. Its events may come before its answer. A Service has one request at a time.
    pub(crate) fn begin(&self, service: &Key) {
        self.0.lock().entry(service.clone()).or_default().is_sending = true;
    }

    /// Notes the answer: the slice and what was done to it, or nothing if the request failed. Returns whether somebody else
    /// changed a slice of the Service meanwhile.
    pub(crate) fn finish(&self, service: &Key, wrote: Option<(&Uid, Wrote)>) -> bool {
        let mut all = self.0.lock();
        // A Service that has been forgotten meanwhile stays so.
        let Some(slices) = all.get_mut(service) else { return false };
        slices.is_sending = false;
        let mut others = false;
        if let Some((uid, wrote)) = wrote {
            match (wrote, slices.early.remove(uid)) {
                (Wrote::Deletion, Some(Wrote::Deletion)) => drop(slices.last.remove(uid)),
                (Wrote::Version(_), Some(Wrote::Deletion)) => {
                    slices.last.remove(uid);
                    others = true;
                }
                (_, early) => {
                    let is_own = |early| matches!((early, wrote), (Wrote::Version(e), Wrote::Version(w)) if e <= w);
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

    /// Who caused a slice to be added or changed.
    pub(crate) fn author_of(&self, service: &Key, slice: &Meta) -> Author {
        let mut all = self.0.lock();
        let Some(slices) = all.get_mut(service) else { return Author::Other };
        let version = slice.resource_version;
        if slices.last.get(&slice.uid).is_some_and(|last| matches!(last, Wrote::Version(last) if version <= *last)) {
            return Author::Own;
        }
        slices.note_early(&slice.uid, Wrote::Version(version))
    }

    /// Who deleted a slice that is gone.
    pub(crate) fn author_of_deletion(&self, service: &Key, slice: &Meta) -> Author {
        let mut all = self.0.lock();
        let Some(slices) = all.get_mut(service) else { return Author::Other };
        let last = slices.last.remove(&slice.uid);
        let author =
            if last == Some(Wrote::Deletion) { Author::Own } else { slices.note_early(&slice.uid, Wrote::Deletion) };
        if slices.last.is_empty() && !slices.is_sending {
            all.remove(service);
        }
        author
    }

    /// Forgets a Service that is gone.
    pub(crate) fn forget(&self, service: &Key) {
        self.0.lock().remove(service);
    }
}

impl Slices {
    fn note_early(&mut self, slice: &Uid, event: Wrote) -> Author {
        if !self.is_sending {
            return Author::Other;
        }
        self.early.insert(slice.clone(), event);
        Author::Undecided
    }
}

#[cfg(test)]
mod tests;
