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

/// How long such an object is left alone after the first refusal. Each further one doubles it.
const FIRST: Duration = Duration::from_secs(5);
/// How long it is left alone at most.
const LONGEST: Duration = Duration::from_mins(15);

/// The revisions that the server denies to adopt, release, label, renumber or delete, or the Pods that it denies to adopt, release or
/// relabel.
///
/// A server encodes the data of a revision anew with every change. If that gives other bytes, it refuses each change for good, because
/// data are immutable. A policy may deny a change of any object. The set goes on without that change, and tries again later and later.
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
    /// Notes that the server has refused to change an object.
    pub(crate) fn insert(&mut self, object: &Meta, now: Instant) {
        let known = self.objects.get(&object.uid).filter(|known| known.version == object.resource_version);
        let delay = known.map_or(FIRST, |known| known.delay.saturating_mul(2).min(LONGEST));
        let refusal = Refusal { version: object.resource_version, delay, until: now + delay };
        self.objects.insert(object.uid.clone(), refusal);
    }

    /// Those of these objects that are left alone now. What is not among them any more is forgotten.
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
