//! Revisions that the server refuses to change.

use std::{collections::BTreeMap, time::Duration};

use common::{
    clock::Instant,
    intern::Text,
    meta::{Meta, Uid, Version},
};

use crate::snapshot::{RefusedRevisions, RevisionRef};

/// How long such a revision is left alone after the first refusal. Each further one doubles it.
const FIRST: Duration = Duration::from_secs(5);
/// How long it is left alone at most.
const LONGEST: Duration = Duration::from_mins(15);

/// The revisions that the server has refused to adopt, label or renumber for what they hold.
///
/// A server encodes the data anew with every change. If that gives other bytes, it refuses each change for good, because data are
/// immutable. The set goes on without such a revision, and tries again later and later.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    revisions: BTreeMap<Uid, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    version: Version,
    delay: Duration,
    until: Instant,
}

impl Refusals {
    /// Notes that the server has refused to change a revision.
    pub(crate) fn insert(&mut self, revision: &Meta, now: Instant) {
        let known = self.revisions.get(&revision.uid).filter(|known| known.version == revision.resource_version);
        let delay = known.map_or(FIRST, |known| known.delay.saturating_mul(2).min(LONGEST));
        let refusal = Refusal { version: revision.resource_version, delay, until: now + delay };
        self.revisions.insert(revision.uid.clone(), refusal);
    }

    /// Those of these revisions that are left alone now. What is not among them any more is forgotten.
    pub(crate) fn observe(&mut self, revisions: &[RevisionRef], now: Instant) -> (Vec<Uid>, RefusedRevisions) {
        if self.revisions.is_empty() {
            return Default::default();
        }
        self.revisions.retain(|uid, _| revisions.iter().any(|revision| revision.meta.uid == *uid));
        let (mut uids, mut refused) = (Vec::new(), RefusedRevisions::default());
        for revision in revisions {
            let Meta { name, uid, resource_version, .. } = &revision.meta;
            let Some(known) = self.revisions.get(uid) else { continue };
            if known.version != *resource_version || known.until <= now {
                continue;
            }
            uids.push(uid.clone());
            refused.names.push(Text::new(name));
            let left = known.until.saturating_duration_since(now);
            refused.retry = Some(refused.retry.map_or(left, |retry| retry.min(left)));
        }
        (uids, refused)
    }
}
