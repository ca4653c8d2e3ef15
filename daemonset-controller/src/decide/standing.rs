//! What the Pods of one node mean for their DaemonSet.
//!
//! A sync of a DaemonSet of thousands of nodes looks only at the nodes of which something has changed. [`standing`] says what one
//! node contributes; [`Tally`] is the sum over all nodes. Both depend on nothing but the node's eligibility, its Pods, the
//! [`Criteria`] and the time.

use std::{
    collections::BTreeSet,
    ops::{AddAssign, SubAssign},
};

use common::{intern::Text, pods::Phase};
use jiff::{SignedDuration, Timestamp};

use super::{eligibility::Eligibility, manage, rolling::Limits};
use crate::{objects::DaemonSet, snapshot::PodRef};

/// By what the Pods of every node are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The hash of the current revision.
    pub hash: Text,
    /// The hashes of other revisions of the same template.
    pub same_hashes: BTreeSet<Text>,
    /// The generation of the template, as the label of Pods has it.
    pub template_generation: Option<Text>,
    /// How long a Pod must be ready before it is available, in seconds.
    pub min_ready_seconds: i32,
    /// Whether a node may have a new Pod beside the old one.
    pub allows_surge: bool,
    /// How outdated Pods are replaced.
    pub replacement: Replacement,
}

/// How outdated Pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Users delete them.
    OnDelete,
    /// The old Pod is deleted before the new one is created (`maxUnavailable`).
    DeleteFirst,
    /// The new Pod is created before the old one is deleted (`maxSurge`).
    CreateFirst,
}

impl Criteria {
    /// The criteria of a set whose current revision has that hash, if a Pod should run on so many nodes.
    pub fn new(set: &DaemonSet, hash: &str, desired: i32) -> Self {
        Self {
            hash: Text::new(hash),
            same_hashes: BTreeSet::new(),
            template_generation: set.template_generation().map(|generation| Text::new(&generation.to_string())),
            min_ready_seconds: set.min_ready_seconds,
            allows_surge: set.allows_surge(),
            replacement: Limits::replacement(set, desired),
        }
    }

    /// The same where the template is also stored under other hashes.
    #[must_use]
    pub fn with_same_hashes(self, same_hashes: &BTreeSet<Text>) -> Self {
        Self { same_hashes: same_hashes.clone(), ..self }
    }

    /// Whether a Pod carries the hash of a revision of the current template.
    pub fn is_of_revision(&self, pod: &PodRef) -> bool {
        !self.hash.is_empty() && (pod.hash() == self.hash.as_str() || self.same_hashes.contains(pod.hash()))
    }

    /// Whether a Pod is of the current template: by the hash of the revision, or by the generation of the template.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `IsPodUpdated`.
    pub fn is_updated(&self, pod: &PodRef) -> bool {
        self.is_of_revision(pod)
            || (self.template_generation.is_some() && pod.template_generation() == self.template_generation.as_deref())
    }

    /// Whether a Pod has been ready for long enough.
    pub fn is_available(&self, pod: &PodRef, now: Timestamp) -> bool {
        pod.is_available(self.min_ready_seconds, now)
    }
}

/// One node and the Pods that are meant for it.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// What the DaemonSet does there.
    pub eligibility: Eligibility,
    /// Its Pods in the order of [`rank`], those that are [leaving](crate::objects::CachedPod::is_leaving) included.
    pub pods: &'a [PodRef],
    /// Until when a Pod that failed there is left alone.
    pub failed_until: Option<Timestamp>,
}

impl<'a> NodeView<'a> {
    /// Its Pods without those that are leaving.
    pub fn present(&self) -> impl Iterator<Item = &'a PodRef> + use<'a> {
        self.pods.iter().filter(|pod| !pod.is_leaving())
    }

    /// The Pods that are not terminating: those of the current template, and the others.
    fn by_template(&self, criteria: &Criteria) -> (Vec<&'a PodRef>, Vec<&'a PodRef>) {
        self.present().filter(|pod| !pod.meta().is_deleting()).partition(|pod| criteria.is_updated(pod))
    }

    /// The Pod of an earlier template, if it is the only one.
    pub fn outdated(&self, criteria: &Criteria) -> Option<&'a PodRef> {
        match self.by_template(criteria).1[..] {
            [old] => Some(old),
            _ => None,
        }
    }
}

/// The order of the Pods of one node: those that are bound first, then the older, then by name.
///
/// Upstream: `pkg/controller/daemon`, `podByCreationTimestampAndPhase`.
pub fn rank(pod: &PodRef) -> impl Ord + use<'_> {
    let meta = pod.meta();
    (!pod.is_bound(), meta.created, &*meta.name)
}

/// What one node is for the replacement of outdated Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// Nothing is to be done, and nothing counts against the limit.
    #[default]
    Settled,
    /// It counts against the limit: it has no available Pod or, with surge, an old Pod and a new one that is not available.
    Blocking,
    /// Its outdated Pod is not available and is replaced at once. Without surge it counts against the limit.
    Replace,
    /// Its outdated Pod is replaced if the limit allows it.
    Candidate,
    /// Its outdated Pod is deleted at once: the new one is available, or no Pod should run there and the old one is not available.
    Remove,
    /// Its outdated Pod is available and no Pod should run there: it is deleted once enough other nodes have an available Pod.
    Sunset,
}

/// What one node contributes to its DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its part of all counts.
    pub tally: Tally,
    /// Whether a Pod is created there.
    pub creates: bool,
    /// Whether Pods are deleted there whatever the update strategy.
    pub deletes: bool,
    /// What it is for the replacement of outdated Pods.
    pub rollout: Rollout,
    /// When the passing of time alone changes any of this.
    pub due: Option<Timestamp>,
}

/// Counts of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes on which a Pod should run.
    pub desired: i32,
    /// Of these, those that have a Pod.
    pub current: i32,
    /// Of these, those whose first Pod is ready.
    pub ready: i32,
    /// Of these, those whose first Pod is available.
    pub available: i32,
    /// Of these, those whose first Pod is of the current template.
    pub updated: i32,
    /// Nodes on which no Pod should run, and that have one.
    pub misscheduled: i32,
    /// Nodes that count against the limit of the rolling update.
    pub blocking: i32,
    /// Existing nodes with an available Pod, whether one should run there or not (with surge only).
    pub serving: i32,
}

impl Tally {
    fn each(&mut self, other: &Self, change: impl Fn(&mut i32, i32)) {
        change(&mut self.desired, other.desired);
        change(&mut self.current, other.current);
        change(&mut self.ready, other.ready);
        change(&mut self.available, other.available);
        change(&mut self.updated, other.updated);
        change(&mut self.misscheduled, other.misscheduled);
        change(&mut self.blocking, other.blocking);
        change(&mut self.serving, other.serving);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.each(&other, |sum, n| *sum += n);
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.each(&other, |sum, n| *sum -= n);
    }
}

/// Decides what one node contributes.
pub fn standing(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp) -> Standing {
    let actions = manage::on_node(view, criteria, now);
    let mut standing = Standing {
        tally: count(view, criteria, now),
        creates: actions.create.is_some(),
        deletes: !actions.delete.is_empty(),
        due: due(view, criteria, now),
        ..Standing::default()
    };
    match criteria.replacement {
        Replacement::OnDelete => {}
        Replacement::DeleteFirst => delete_first(view, criteria, now, &mut standing),
        Replacement::CreateFirst => create_first(view, criteria, now, &mut standing),
    }
    standing
}

/// Upstream: `pkg/controller/daemon`, `updateDaemonSetStatus`.
fn count(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp) -> Tally {
    let first = view.present().next();
    let mut tally = Tally::default();
    match view.eligibility {
        Eligibility::Runs => {
            tally.desired = 1;
            if let Some(pod) = first {
                tally.current = 1;
                tally.ready = i32::from(pod.is_ready());
                tally.available = i32::from(criteria.is_available(pod, now));
                tally.updated = i32::from(criteria.is_updated(pod));
            }
        }
        Eligibility::Stays | Eligibility::Leaves => tally.misscheduled = i32::from(first.is_some()),
        Eligibility::Vanished => {}
    }
    tally
}

/// When the next Pod becomes available, or a failed Pod may be deleted.
fn due(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp) -> Option<Timestamp> {
    let available = |pod: &PodRef| {
        let since = pod.ready_since().filter(|_| criteria.min_ready_seconds > 0)?;
        since.checked_add(SignedDuration::from_secs(criteria.min_ready_seconds.into())).ok()
    };
    let failed = view.failed_until.filter(|_| view.present().any(|pod| pod.phase == Phase::Failed));
    view.present().filter_map(available).chain(failed).filter(|due| *due > now).min()
}

/// Upstream: `pkg/controller/daemon`, `rollingUpdate` without surge.
fn delete_first(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp, standing: &mut Standing) {
    if !view.eligibility.should_run() && view.present().next().is_none() {
        return;
    }
    let (new, old) = view.by_template(criteria);
    standing.rollout = match (&new[..], &old[..]) {
        ([new], []) if criteria.is_available(new, now) => Rollout::Settled,
        ([], [old]) if criteria.is_available(old, now) => Rollout::Candidate,
        ([], [_]) => Rollout::Replace,
        // Nothing but terminating Pods, an old and a new Pod, or more Pods than there may be: deleting and creating are not done yet.
        _ => Rollout::Blocking,
    };
    standing.tally.blocking = i32::from(matches!(standing.rollout, Rollout::Blocking | Rollout::Replace));
}

/// Upstream: `pkg/controller/daemon`, `rollingUpdate` with surge.
fn create_first(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp, standing: &mut Standing) {
    let (new, old) = view.by_template(criteria);
    let is_available = |pod: &PodRef| criteria.is_available(pod, now);
    if new.len() > 1 || old.len() > 1 {
        standing.rollout = Rollout::Blocking;
        standing.tally.blocking = 1;
        return;
    }
    let (new, old) = (new.first(), old.first());
    let exists = view.eligibility != Eligibility::Vanished;
    standing.tally.serving = i32::from(exists && old.or(new).is_some_and(|pod| is_available(pod)));
    let runs = view.eligibility.should_run();
    standing.rollout = match (new, old) {
        (_, None) => Rollout::Settled,
        // Whether a Pod should run on a node that has vanished is not known. The garbage collector of Pods takes care of its Pods.
        (None, Some(_)) if !exists => Rollout::Settled,
        (None, Some(old)) => match (is_available(old), runs) {
            (false, false) => Rollout::Remove,
            (false, true) => Rollout::Replace,
            (true, false) => Rollout::Sunset,
            (true, true) => Rollout::Candidate,
        },
        (Some(new), Some(_)) if is_available(new) => Rollout::Remove,
        (Some(_), Some(_)) => Rollout::Blocking,
    };
    standing.tally.blocking = i32::from(standing.rollout == Rollout::Blocking);
}

#[cfg(test)]
mod tests;
