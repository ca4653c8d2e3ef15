//! Which events of slices are caused by this process's own writes.

use std::{sync::Arc, time::Duration};

use common::{
    map::HashMap,
    meta::{Key, Meta, Uid, Version},
    metrics::Counters,
    queue::Queue,
};
use parking_lot::Mutex;

use crate::carry_out::WriteNote;

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
    pub(crate) fn author_of_deletion(&self, service: &Key, slice: &Uid) -> Author {
        let mut all = self.0.lock();
        let Some(slices) = all.get_mut(service) else { return Author::Other };
        let last = slices.last.remove(slice);
        let author =
            if last == Some(Wrote::Deletion) { Author::Own } else { slices.note_early(slice, Wrote::Deletion) };
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

/// What a loop remembers and counts of its writes of slices, besides the ledger.
pub(crate) struct WriteMemory {
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) queue: Queue<Key>,
    /// How long changes of slices by others are gathered.
    pub(crate) delay: Duration,
    /// Changes by operation.
    pub(crate) changes: Counters,
}

impl WriteMemory {
    /// Notes what happens to a write for the Service of that key.
    pub(crate) fn note(&self, key: &Key, note: &WriteNote) {
        let (operation, wrote) = match note {
            WriteNote::Begin => return self.own.begin(key),
            WriteNote::Fail => (None, None),
            WriteNote::Put(operation, uid, version) => (Some(*operation), Some((uid, Wrote::Version(*version)))),
            WriteNote::Delete(uid) => (Some("delete"), Some((uid, Wrote::Deletion))),
            WriteNote::FindGone => (Some("delete"), None),
        };
        self.finish(key, wrote);
        if let Some(operation) = operation {
            self.changes.with(&[operation]).inc();
        }
    }

    /// Notes that a sync has ended: a request that was broken off has no answer.
    pub(crate) fn end(&self, key: &Key) {
        self.finish(key, None);
    }

    /// Notes an answer. If somebody else changed a slice meanwhile, the Service is synced again.
    fn finish(&self, key: &Key, wrote: Option<(&Uid, Wrote)>) {
        if self.own.finish(key, wrote) {
            self.queue.add_debounced(key.clone(), self.delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, version: &str) -> Meta {
        Meta { uid: Uid::new(uid), resource_version: Version::parse(version), ..Meta::default() }
    }

    fn version(text: &str) -> Wrote {
        Wrote::Version(Version::parse(text))
    }

    #[test]
    fn an_event_that_overtakes_its_answer_is_an_own_one() {
        let (own, service) = (OwnWrites::default(), Key::new("ns", "web"));
        own.begin(&service);
        assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Undecided);
        assert!(!own.finish(&service, Some((&Uid::new("a"), version("5")))));
        assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Own);
        assert_eq!(own.author_of(&service, &meta("a", "6")), Author::Other);
    }

    #[test]
    fn what_others_do_meanwhile_is_not_lost() {
        let (own, service) = (OwnWrites::default(), Key::new("ns", "web"));
        let a = Uid::new("a");
        for (uid, seen, wrote) in [("a", "6", Some("5")), ("b", "4", Some("5")), ("a", "5", None)] {
            own.begin(&service);
            assert_eq!(own.author_of(&service, &meta(uid, seen)), Author::Undecided);
            assert!(own.finish(&service, wrote.map(|wrote| (&a, version(wrote)))));
            own.forget(&service);
        }
    }

    #[test]
    fn nothing_is_left_of_slices_that_are_gone() {
        let (own, service, a) = (OwnWrites::default(), Key::new("ns", "web"), Uid::new("a"));
        // The event comes first, or the answer; or the write fails.
        own.begin(&service);
        assert_eq!(own.author_of_deletion(&service, &a), Author::Undecided);
        assert!(!own.finish(&service, Some((&a, Wrote::Deletion))));
        assert!(own.0.lock().is_empty());
        own.begin(&service);
        assert!(!own.finish(&service, Some((&a, Wrote::Deletion))));
        assert_eq!(own.author_of_deletion(&service, &a), Author::Own);
        assert!(own.0.lock().is_empty());
        own.begin(&service);
        assert!(!own.finish(&service, None));
        assert!(own.0.lock().is_empty());
        own.begin(&service);
        own.forget(&service);
        assert!(!own.finish(&service, Some((&a, version("5")))));
        assert!(own.0.lock().is_empty());
    }
}
