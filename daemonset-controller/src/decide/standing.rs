//! What the Pods of one node mean for their DaemonSet.
//!
//! A sync of a DaemonSet of thousands of nodes looks only at the nodes of which something has changed. [`standing`] says what one
//! node contributes; [`Tally`] is the sum over all nodes. Both depend on nothing but the node's eligibility, its Pods, the
//! [`Criteria`] and the time.

use common::pods::Phase;
use jiff::{SignedDuration, Timestamp};

use super::manage;
use crate::{
    objects::PodRef,
    snapshot::nodes::{Criteria, Eligibility, NodeView, Replacement, Tally},
};

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
