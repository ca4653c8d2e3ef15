//! The contribution of one node to the counts and the rollout of its DaemonSet.
//!
//! A sync of a DaemonSet with thousands of nodes handles only the changed nodes. [`compute_node_contribution`] returns the
//! contribution of one node; [`NodeCounts`] is the sum over all nodes. The contribution depends only on the eligibility of the
//! node, its Pods, the [`PodCriteria`] and the time.

use common::pods::Phase;
use jiff::{SignedDuration, Timestamp};

use super::manage;
use crate::{
    objects::SharedPod,
    snapshot::nodes::{Eligibility, NodeCounts, NodeView, PodCriteria, ReplacementOrder},
};

/// The role of a node in the replacement of outdated Pods, which is limited by `maxUnavailable`, or with surge by `maxSurge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolloutRole {
    /// The node needs no action, and does not count against `maxUnavailable` or `maxSurge`.
    #[default]
    NoAction,
    /// The node counts against the limit of the rolling update, because it has no available Pod or, with surge, has an outdated
    /// Pod and a new Pod that is not available.
    BlocksRollout,
    /// The outdated Pod is not available and is replaced without waiting. Without surge, the node counts against the limit.
    ReplaceUnavailable,
    /// The outdated Pod is available, and is replaced if the limit of the rolling update allows it.
    ReplaceWithinLimit,
    /// The outdated Pod is deleted without waiting, because the new Pod is available, or because the outdated Pod is not
    /// available and no Pod should run on the node.
    DeleteOutdated,
    /// The outdated Pod is available and no Pod should run on the node. The Pod is deleted once enough other nodes have
    /// available Pods.
    DeleteWhenOthersAvailable,
}

/// The contribution of one node to the counts and the rollout of its DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeContribution {
    /// The counts of this node; each of them is 0 or 1.
    pub node_counts: NodeCounts,
    /// Whether the node needs a Pod regardless of the update strategy.
    pub needs_pod: bool,
    /// Whether Pods on the node must be deleted regardless of the update strategy.
    pub has_pods_to_delete: bool,
    /// The role of the node in the replacement of outdated Pods.
    pub rollout_role: RolloutRole,
    /// The time at which the contribution changes without an event; `None` if only an event changes it.
    pub next_change_at: Option<Timestamp>,
}

/// Computes the counts of one node, and the actions and the rollout role that the node needs.
pub fn compute_node_contribution(view: &NodeView<'_>, criteria: &PodCriteria, now: Timestamp) -> NodeContribution {
    let actions = manage::decide_actions_on_node(view, criteria, now);
    let mut contribution = NodeContribution {
        node_counts: counts_of_node(view, criteria, now),
        needs_pod: actions.creation_reason.is_some(),
        has_pods_to_delete: !actions.pods_to_delete.is_empty(),
        next_change_at: node_due_at(view, criteria, now),
        ..NodeContribution::default()
    };
    match criteria.replacement_order {
        ReplacementOrder::OnDelete => {}
        ReplacementOrder::DeleteFirst => set_role_without_surge(view, criteria, now, &mut contribution),
        ReplacementOrder::CreateFirst => set_role_with_surge(view, criteria, now, &mut contribution),
    }
    contribution
}

/// Returns the counts of one node, which depend on its first Pod. Upstream: `pkg/controller/daemon`, `updateDaemonSetStatus`.
fn counts_of_node(view: &NodeView<'_>, criteria: &PodCriteria, now: Timestamp) -> NodeCounts {
    let first = view.present_pods().next();
    let mut node_counts = NodeCounts::default();
    match view.eligibility {
        Eligibility::RunsPods => {
            node_counts.desired = 1;
            if let Some(pod) = first {
                node_counts.current = 1;
                node_counts.ready = i32::from(pod.is_ready());
                node_counts.available = i32::from(criteria.is_available(pod, now));
                node_counts.updated = i32::from(criteria.is_updated(pod));
            }
        }
        Eligibility::KeepsPods | Eligibility::RemovesPods => node_counts.misscheduled = i32::from(first.is_some()),
        Eligibility::NodeDeleted => {}
    }
    node_counts
}

/// Returns the first time at which a Pod of the node becomes available or a failed Pod may be deleted.
fn node_due_at(view: &NodeView<'_>, criteria: &PodCriteria, now: Timestamp) -> Option<Timestamp> {
    let available = |pod: &SharedPod| {
        let since = pod.ready_since().filter(|_| criteria.min_ready_seconds > 0)?;
        since.checked_add(SignedDuration::from_secs(criteria.min_ready_seconds.into())).ok()
    };
    let failed =
        view.failed_pod_deletion_delayed_until.filter(|_| view.present_pods().any(|pod| pod.phase == Phase::Failed));
    view.present_pods().filter_map(available).chain(failed).filter(|due| *due > now).min()
}

/// Decides the role of a node in a rolling update without surge. Upstream: `pkg/controller/daemon`, `rollingUpdate`.
fn set_role_without_surge(
    view: &NodeView<'_>,
    criteria: &PodCriteria,
    now: Timestamp,
    contribution: &mut NodeContribution,
) {
    if !view.eligibility.should_run() && view.present_pods().next().is_none() {
        return;
    }
    let (new, old) = view.current_and_outdated_pods(criteria);
    contribution.rollout_role = match (&new[..], &old[..]) {
        ([new], []) if criteria.is_available(new, now) => RolloutRole::NoAction,
        ([], [old]) if criteria.is_available(old, now) => RolloutRole::ReplaceWithinLimit,
        ([], [_]) => RolloutRole::ReplaceUnavailable,
        // The node has only terminating Pods, or several Pods, because earlier deletions or creations are not complete.
        _ => RolloutRole::BlocksRollout,
    };
    contribution.node_counts.blocking_rollout =
        i32::from(matches!(contribution.rollout_role, RolloutRole::BlocksRollout | RolloutRole::ReplaceUnavailable));
}

/// Decides the role of a node in a rolling update with surge. Upstream: `pkg/controller/daemon`, `rollingUpdate`.
fn set_role_with_surge(
    view: &NodeView<'_>,
    criteria: &PodCriteria,
    now: Timestamp,
    contribution: &mut NodeContribution,
) {
    let (new, old) = view.current_and_outdated_pods(criteria);
    let is_available = |pod: &SharedPod| criteria.is_available(pod, now);
    if new.len() > 1 || old.len() > 1 {
        contribution.rollout_role = RolloutRole::BlocksRollout;
        contribution.node_counts.blocking_rollout = 1;
        return;
    }
    let (new, old) = (new.first(), old.first());
    let exists = view.eligibility != Eligibility::NodeDeleted;
    contribution.node_counts.with_available_pod = i32::from(exists && old.or(new).is_some_and(|pod| is_available(pod)));
    let runs = view.eligibility.should_run();
    contribution.rollout_role = match (new, old) {
        (_, None) => RolloutRole::NoAction,
        // The eligibility of a deleted node is unknown. The Pod garbage collector deletes the Pods of that node.
        (None, Some(_)) if !exists => RolloutRole::NoAction,
        (None, Some(old)) => match (is_available(old), runs) {
            (false, false) => RolloutRole::DeleteOutdated,
            (false, true) => RolloutRole::ReplaceUnavailable,
            (true, false) => RolloutRole::DeleteWhenOthersAvailable,
            (true, true) => RolloutRole::ReplaceWithinLimit,
        },
        (Some(new), Some(_)) if is_available(new) => RolloutRole::DeleteOutdated,
        (Some(_), Some(_)) => RolloutRole::BlocksRollout,
    };
    contribution.node_counts.blocking_rollout = i32::from(contribution.rollout_role == RolloutRole::BlocksRollout);
}

#[cfg(test)]
mod tests;
