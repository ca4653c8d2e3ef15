//! Missing and surplus Pods of a node, regardless of the update strategy.

use common::pods::Phase;
use jiff::Timestamp;

use crate::{
    objects::SharedPod,
    plan::{CreationReason, DeletionReason},
    snapshot::nodes::{Eligibility, NodeView, PodCriteria},
};

/// The creations and deletions on one node, decided without regard to the update strategy.
#[derive(Debug, Default)]
pub struct NodeActions<'a> {
    /// The reason for the creation of a Pod; `None` if no Pod is created.
    pub creation_reason: Option<CreationReason>,
    /// The Pods to delete, each with the reason.
    pub pods_to_delete: Vec<(&'a SharedPod, DeletionReason)>,
}

/// Decides which Pods to create and delete on one node. Upstream: `pkg/controller/daemon`, `podsShouldBeOnNode`.
pub fn decide_actions_on_node<'a>(view: &NodeView<'a>, criteria: &PodCriteria, now: Timestamp) -> NodeActions<'a> {
    let mut actions = NodeActions::default();
    let exists = view.present_pods().next().is_some();
    let live = view.present_pods().filter(|pod| !pod.meta().is_deleting());
    match view.eligibility {
        Eligibility::RunsPods if !exists => actions.creation_reason = Some(CreationReason::NoPod),
        Eligibility::RunsPods | Eligibility::KeepsPods => decide_existing_pods(view, criteria, now, &mut actions),
        Eligibility::RemovesPods => {
            actions.pods_to_delete.extend(live.map(|pod| (pod, DeletionReason::NodeNotEligible)));
        }
        // A Pod that is only pinned to the deleted node is deleted here. The Pod garbage collector deletes bound Pods.
        Eligibility::NodeDeleted => {
            let pinned = live.filter(|pod| !pod.is_bound());
            actions.pods_to_delete.extend(pinned.map(|pod| (pod, DeletionReason::NodeDeleted)));
        }
    }
    actions
}

fn decide_existing_pods<'a>(
    view: &NodeView<'a>,
    criteria: &PodCriteria,
    now: Timestamp,
    actions: &mut NodeActions<'a>,
) {
    let (mut running, mut waits) = (Vec::new(), false);
    let mut backs_off = view.failed_pod_deletion_delayed_until.is_some_and(|until| until > now);
    for pod in view.present_pods().filter(|pod| !pod.meta().is_deleting()) {
        match pod.phase {
            Phase::Failed if backs_off => waits = true,
            Phase::Failed => {
                actions.pods_to_delete.push((pod, DeletionReason::PodFailed));
                // After the deletion of one failed Pod, further failed Pods of the node are deleted only after the back-off.
                backs_off = true;
            }
            Phase::Succeeded => actions.pods_to_delete.push((pod, DeletionReason::PodSucceeded)),
            _ => running.push(pod),
        }
    }
    if criteria.allows_surge {
        if running.is_empty() && view.eligibility.should_run() && !waits {
            actions.creation_reason = Some(CreationReason::NoRunningPod);
        }
        prune_with_surge(&running, criteria, now, actions);
    } else {
        actions.pods_to_delete.extend(running.into_iter().skip(1).map(|pod| (pod, DeletionReason::SurplusPod)));
    }
}

/// Keeps one Pod of the current revision and one Pod of another revision, and deletes further Pods. Also deletes the Pod of the
/// other revision if it is not ready, or once the Pod of the current revision is available.
fn prune_with_surge<'a>(
    running_pods: &[&'a SharedPod],
    criteria: &PodCriteria,
    now: Timestamp,
    actions: &mut NodeActions<'a>,
) {
    if running_pods.len() < 2 {
        return;
    }
    let (mut new, mut old) = (None, None);
    for pod in running_pods {
        let kept = if criteria.has_current_hash(pod) { &mut new } else { &mut old };
        match kept {
            None => *kept = Some(*pod),
            Some(_) => actions.pods_to_delete.push((pod, DeletionReason::SurplusPod)),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.is_ready() || criteria.is_available(new, now))
    {
        actions.pods_to_delete.push((old, DeletionReason::OutdatedAndUnneeded));
    }
}

#[cfg(test)]
mod tests;
