use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::prelude::*;

use crate::snapshot::DeniedChanges;

/// Delay after the first denial of a change. Each further denial doubles the delay.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Longest delay between two attempts of a denied change.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(15);

/// The back-off of denied changes of one DaemonSet's revisions and Pods, by uid. For revisions, these changes are adoption,
/// release, labelling, renumbering and deletion; for Pods, adoption, release and relabelling.
///
/// With every change of a revision, a server encodes its data again. If the new bytes differ, the server denies the change,
/// because data are immutable. A policy may deny a change of any object. The DaemonSet is synced without the denied change,
/// which is retried with growing delays.
#[derive(Debug, Default)]
pub(crate) struct DeniedChangeBackoff {
    objects: BTreeMap<Uid, DeniedChange>,
}

#[derive(Debug)]
struct DeniedChange {
    version: ResourceVersion,
    delay: Duration,
    until: Instant,
}

impl DeniedChangeBackoff {
    /// Records a denied change of `object`. Doubles the delay if the object has the same version as at the last denial.
    pub(crate) fn record_denial(&mut self, object: &Meta, now: Instant) {
        let known = self.objects.get(&object.uid).filter(|known| known.version == object.resource_version);
        let delay = known.map_or(FIRST_RETRY_DELAY, |known| known.delay.saturating_mul(2).min(MAX_RETRY_DELAY));
        let refusal = DeniedChange { version: object.resource_version, delay, until: now + delay };
        self.objects.insert(object.uid.clone(), refusal);
    }

    /// Returns the uids and names of those `objects` that are still in back-off. Forgets all other objects.
    pub(crate) fn objects_in_back_off<C: HasMeta>(
        &mut self,
        objects: &[C],
        now: Instant,
    ) -> (BTreeSet<Uid>, DeniedChanges) {
        if self.objects.is_empty() {
            return Default::default();
        }
        let known: BTreeSet<&Uid> = objects.iter().map(|object| &object.meta().uid).collect();
        self.objects.retain(|uid, _| known.contains(uid));
        let mut uids = BTreeSet::new();
        let mut refused = DeniedChanges::default();
        for object in objects {
            let Meta { name, uid, resource_version, .. } = object.meta();
            let Some(known) = self.objects.get(uid) else { continue };
            if known.version != *resource_version || known.until <= now {
                continue;
            }
            uids.insert(uid.clone());
            refused.object_names.push(Text::new(name));
            let left = known.until.saturating_duration_since(now);
            refused.retry_after = Some(refused.retry_after.map_or(left, |retry| retry.min(left)));
        }
        (uids, refused)
    }
}
