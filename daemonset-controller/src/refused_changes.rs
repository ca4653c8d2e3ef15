//! Revisions and Pods that the server refuses to change.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::{
    clock::Instant,
    intern::Text,
    meta::{Meta, Uid, Version},
    refs::HasMeta,
};

use crate::snapshot::RefusedChanges;

/// Delay after the first refusal of a change. Each further refusal doubles the delay.
const FIRST: Duration = Duration::from_secs(5);
/// Longest delay after a refusal.
const LONGEST: Duration = Duration::from_mins(15);

/// The back-off of denied changes: of revisions that the server denies to adopt, release, label, renumber or delete, or of Pods
/// that it denies to adopt, release or relabel.
///
/// A server encodes the data of a revision again with every change. If the new bytes differ, the server refuses every change of
/// the revision, because data are immutable. A policy may deny a change of any object. The set is synced without that change,
/// which is retried with growing delays.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    objects: BTreeMap<Uid, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    version: Version,
    delay: Duration,
    until: Instant,
}

impl Refusals {
    /// Records that the server has refused to change an object.
    pub(crate) fn insert(&mut self, object: &Meta, now: Instant) {
        let known = self.objects.get(&object.uid).filter(|known| known.version == object.resource_version);
        let delay = known.map_or(FIRST, |known| known.delay.saturating_mul(2).min(LONGEST));
        let refusal = Refusal { version: object.resource_version, delay, until: now + delay };
        self.objects.insert(object.uid.clone(), refusal);
    }

    /// Returns the objects whose changes are not retried yet. Entries of objects that are not in `objects` are removed.
    pub(crate) fn observe<C: HasMeta>(&mut self, objects: &[C], now: Instant) -> (BTreeSet<Uid>, RefusedChanges) {
        if self.objects.is_empty() {
            return Default::default();
        }
        let known: BTreeSet<&Uid> = objects.iter().map(|object| &object.meta().uid).collect();
        self.objects.retain(|uid, _| known.contains(uid));
        let mut uids = BTreeSet::new();
        let mut refused = RefusedChanges::default();
        for object in objects {
            let Meta { name, uid, resource_version, .. } = object.meta();
            let Some(known) = self.objects.get(uid) else { continue };
            if known.version != *resource_version || known.until <= now {
                continue;
            }
            uids.insert(uid.clone());
            refused.names.push(Text::new(name));
            let left = known.until.saturating_duration_since(now);
            refused.retry = Some(refused.retry.map_or(left, |retry| retry.min(left)));
        }
        (uids, refused)
    }
}
