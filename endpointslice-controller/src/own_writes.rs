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
    /// How many requests wait for their answer.
    sending: usize,
    /// Events that came while a request waited for its answer.
    early: HashMap<Uid, Wrote>,
}

/// A request that waits for its answer.
pub(crate) struct Sending<'a> {
    own: &'a OwnWrites,
    service: &'a Key,
    is_finished: bool,
}

impl Sending<'_> {
    /// Notes the answer: the slice and what was done to it, or nothing if the request failed. Returns whether somebody else
    /// changed a slice of the Service meanwhile.
    pub(crate) fn finish(mut self, wrote: Option<(&Uid, Wrote)>) -> bool {
        self.is_finished = true;
        self.own.end(self.service, wrote)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.own.end(self.service, None);
        }
    }
}

impl OwnWrites {
    /// Notes that a request is sent. Its events may come before its answer.
    pub(crate) fn begin<'a>(&'a self, service: &'a Key) -> Sending<'a> {
        self.0.lock().entry(service.clone()).or_default().sending += 1;
        Sending { own: self, service, is_finished: false }
    }

    fn end(&self, service: &Key, wrote: Option<(&Uid, Wrote)>) -> bool {
        let mut all = self.0.lock();
        // A Service that has been forgotten meanwhile stays so.
        let Some(slices) = all.get_mut(service) else { return false };
        slices.sending = slices.sending.saturating_sub(1);
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
        if slices.sending == 0 {
            others |= !std::mem::take(&mut slices.early).is_empty();
            if slices.last.is_empty() {
                all.remove(service);
            }
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
        if slices.last.is_empty() && slices.sending == 0 {
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
        if self.sending == 0 {
            return Author::Other;
        }
        self.early.insert(slice.clone(), event);
        Author::Undecided
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
        let sending = own.begin(&service);
        assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Undecided);
        assert!(!sending.finish(Some((&Uid::new("a"), version("5")))));
        assert_eq!(own.author_of(&service, &meta("a", "5")), Author::Own);
        assert_eq!(own.author_of(&service, &meta("a", "6")), Author::Other);
    }

    #[test]
    fn what_others_do_meanwhile_is_not_lost() {
        let (own, service) = (OwnWrites::default(), Key::new("ns", "web"));
        let a = Uid::new("a");
        for (uid, seen, wrote) in [("a", "6", Some("5")), ("b", "4", Some("5")), ("a", "5", None)] {
            let sending = own.begin(&service);
            assert_eq!(own.author_of(&service, &meta(uid, seen)), Author::Undecided);
            assert!(sending.finish(wrote.map(|wrote| (&a, version(wrote)))));
            own.forget(&service);
        }
    }

    #[test]
    fn nothing_is_left_of_slices_that_are_gone() {
        let (own, service, a) = (OwnWrites::default(), Key::new("ns", "web"), Uid::new("a"));
        // The event comes first, or the answer; or the write fails; or it is never answered.
        let sending = own.begin(&service);
        assert_eq!(own.author_of_deletion(&service, &a), Author::Undecided);
        assert!(!sending.finish(Some((&a, Wrote::Deletion))));
        assert!(own.0.lock().is_empty());
        assert!(!own.begin(&service).finish(Some((&a, Wrote::Deletion))));
        assert_eq!(own.author_of_deletion(&service, &a), Author::Own);
        assert!(own.0.lock().is_empty());
        assert!(!own.begin(&service).finish(None));
        drop(own.begin(&service));
        assert!(own.0.lock().is_empty());
        let sending = own.begin(&service);
        own.forget(&service);
        assert!(!sending.finish(Some((&a, version("5")))));
        assert!(own.0.lock().is_empty());
    }
}
