//! The contribution of one node to the counts and the rollout of its DaemonSet.
//!
//! A sync of a DaemonSet with thousands of nodes handles only the changed nodes. [`standing`] returns the contribution of one
//! node; [`Tally`] is the sum over all nodes. The contribution depends only on the eligibility of the node, its Pods, the
//! [`Criteria`] and the time.

use common::pods::Phase;
use jiff::{SignedDuration, Timestamp};

use super::manage;
use crate::{
    objects::PodRef,
    snapshot::nodes::{Criteria, Eligibility, NodeView, Replacement, Tally},
};

/// The role of a node in the replacement of outdated Pods. Its limit is `maxUnavailable`, or `maxSurge` with surge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// The node needs no action and does not count against the limit of the rolling update.
    #[default]
    Settled,
    /// The node counts against the limit: it has no available Pod or, with surge, an outdated and a new unavailable Pod.
    Blocking,
    /// The outdated Pod is not available and is replaced without waiting. Without surge, the node counts against the limit.
    Replace,
    /// The outdated Pod is available, and is replaced if the limit of the rolling update allows it.
    Candidate,
    /// The outdated Pod is deleted without waiting, because the new Pod is available, or because the outdated Pod is not
    /// available and no Pod should run on the node.
    Remove,
    /// The outdated Pod is available and no Pod should run on the node. The Pod is deleted once enough other nodes have
    /// available Pods.
    Sunset,
}

/// The contribution of one node to the counts and the rollout of its DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The counts of this node; each of them is 0 or 1.
    pub tally: Tally,
    /// Whether the node needs a Pod regardless of the update strategy.
    pub creates: bool,
    /// Whether Pods on the node must be deleted regardless of the update strategy.
    pub deletes: bool,
    /// The role of the node in the replacement of outdated Pods.
    pub rollout: Rollout,
    /// The time at which the contribution changes without an event; `None` if it does not.
    pub due: Option<Timestamp>,
}

/// Decides the contribution of one node to its DaemonSet.
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

/// Returns the counts of one node, judged by its first Pod. Upstream: `pkg/controller/daemon`, `updateDaemonSetStatus`.
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

/// Returns the first time at which a Pod of the node becomes available or a failed Pod may be deleted.
fn due(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp) -> Option<Timestamp> {
    let available = |pod: &PodRef| {
        let since = pod.ready_since().filter(|_| criteria.min_ready_seconds > 0)?;
        since.checked_add(SignedDuration::from_secs(criteria.min_ready_seconds.into())).ok()
    };
    let failed = view.failed_until.filter(|_| view.present().any(|pod| pod.phase == Phase::Failed));
    view.present().filter_map(available).chain(failed).filter(|due| *due > now).min()
}

/// Decides the role of a node in a rolling update without surge. Upstream: `pkg/controller/daemon`, `rollingUpdate`.
fn delete_first(view: &NodeView<'_>, criteria: &Criteria, now: Timestamp, standing: &mut Standing) {
    if !view.eligibility.should_run() && view.present().next().is_none() {
        return;
    }
    let (new, old) = view.by_template(criteria);
    standing.rollout = match (&new[..], &old[..]) {
        ([new], []) if criteria.is_available(new, now) => Rollout::Settled,
        ([], [old]) if criteria.is_available(old, now) => Rollout::Candidate,
        ([], [_]) => Rollout::Replace,
        // The node has only terminating Pods, or several Pods: earlier deletions or creations are not finished.
        _ => Rollout::Blocking,
    };
    standing.tally.blocking = i32::from(matches!(standing.rollout, Rollout::Blocking | Rollout::Replace));
}

/// Decides the role of a node in a rolling update with surge. Upstream: `pkg/controller/daemon`, `rollingUpdate`.
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
        // The eligibility of a deleted node is unknown. The Pod garbage collector deletes the Pods of that node.
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
