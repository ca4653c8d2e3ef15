//! Who is there: Pods by their numbers, and who of them can be counted on.

use super::revisions::{Revision, Revisions};
use crate::{
    objects::{StatefulSet, Update, ordinal_of},
    plan::From,
    snapshot::{PodRef, Snapshot},
};

/// A number that is wanted, and its Pod if it is there.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The number.
    pub ordinal: i32,
    /// The Pod.
    pub pod: Option<PodRef>,
}

/// What is decided on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// What the sync sees.
    pub snapshot: &'a Snapshot,
    /// The revisions Pods come from and go to.
    pub revisions: &'a Revisions,
    /// All Pods of the set.
    pub claimed: &'a [PodRef],
    /// The numbers that are wanted, from the lowest.
    pub wanted: Vec<Slot>,
    /// Pods whose numbers are not wanted, from the highest. Those without a number are left alone.
    pub condemned: Vec<(i32, PodRef)>,
}

impl<'a> Situation<'a> {
    /// Puts the Pods in order.
    pub fn new(snapshot: &'a Snapshot, claimed: &'a [PodRef], revisions: &'a Revisions) -> Self {
        let set = &*snapshot.set;
        // Past the last number there are none.
        let ordinals = (0..set.replicas).map_while(|at| set.start.checked_add(at));
        let mut wanted: Vec<Slot> = ordinals.map(|ordinal| Slot { ordinal, pod: None }).collect();
        let mut condemned = Vec::new();
        for pod in claimed {
            let Some(Some(ordinal)) = ordinal_of(&set.metadata.name, &pod.meta().name) else { continue };
            match ordinal.checked_sub(set.start).and_then(|at| wanted.get_mut(usize::try_from(at).ok()?)) {
                Some(slot) => slot.pod = Some(pod.clone()),
                None => condemned.push((ordinal, pod.clone())),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Self { snapshot, revisions, claimed, wanted, condemned }
    }

    /// The set.
    pub fn set(&self) -> &'a StatefulSet {
        &self.snapshot.set
    }

    /// Whether a Pod cannot be counted on.
    pub fn is_unavailable(&self, pod: &PodRef) -> bool {
        pod.is_unavailable(self.set().min_ready_seconds, self.snapshot.now)
    }

    /// The Pod that the others wait for: the first wanted one that is unavailable or missing, else the unavailable one of the
    /// condemned with the lowest number.
    pub fn first_unavailable(&self) -> Option<i32> {
        let missing = |slot: &&Slot| slot.pod.as_ref().is_none_or(|pod| self.is_unavailable(pod));
        let condemned =
            || self.condemned.iter().rfind(|(_, pod)| self.is_unavailable(pod)).map(|(ordinal, _)| *ordinal);
        self.wanted.iter().find(missing).map(|slot| slot.ordinal).or_else(condemned)
    }

    /// Which revision a Pod of that number is made from. Upstream: `newVersionedStatefulSetPod`.
    pub fn revision_for(&self, ordinal: i32) -> From {
        let set = self.set();
        let below = |count: i32| i64::from(ordinal) < i64::from(set.start) + i64::from(count);
        let stays = match &set.update {
            Update::OnDelete => false,
            Update::Rolling(Some(rolling)) => below(rolling.partition),
            Update::Rolling(None) => below(set.status.current_replicas),
        };
        if stays { From::Current } else { From::Update }
    }

    /// Whether a Pod is of the revision Pods go to.
    pub fn is_updated(&self, pod: &PodRef) -> bool {
        pod.revision() == self.revisions.update.name.as_str()
    }

    /// Whether a Pod counts as one of the revision Pods come from.
    pub fn is_current(&self, pod: &PodRef) -> bool {
        pod.revision() == self.revisions.current.name.as_str()
    }
}

impl Revisions {
    /// One of the two.
    pub fn get(&self, from: From) -> &Revision {
        match from {
            From::Current => &self.current,
            From::Update => &self.update,
        }
    }
}
