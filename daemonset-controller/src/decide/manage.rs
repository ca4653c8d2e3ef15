//! Missing and surplus Pods of a node, regardless of the update strategy.

use common::pods::Phase;
use jiff::Timestamp;

use crate::{
    objects::PodRef,
    plan::{Lack, Why},
    snapshot::nodes::{Criteria, Eligibility, NodeView},
};

/// The creations and deletions on one node, decided without regard to the update strategy.
#[derive(Debug, Default)]
pub struct NodeActions<'a> {
    /// The reason for the creation of a Pod; `None` if no Pod is created.
    pub create: Option<Lack>,
    /// The Pods to delete, each with the reason.
    pub delete: Vec<(&'a PodRef, Why)>,
}

/// Decides creations and deletions on one node. Upstream: `pkg/controller/daemon`, `podsShouldBeOnNode`.
pub fn on_node<'a>(view: &NodeView<'a>, criteria: &Criteria, now: Timestamp) -> NodeActions<'a> {
    let mut actions = NodeActions::default();
    let exists = view.present().next().is_some();
    let live = view.present().filter(|pod| !pod.meta().is_deleting());
    match view.eligibility {
        Eligibility::Runs if !exists => actions.create = Some(Lack::NoPod),
        Eligibility::Runs | Eligibility::Stays => stays(view, criteria, now, &mut actions),
        Eligibility::Leaves => actions.delete.extend(live.map(|pod| (pod, Why::NotEligible))),
        // Only Pods that are not bound to the deleted node are deleted here. The Pod garbage collector deletes bound Pods.
        Eligibility::Vanished => {
            actions.delete.extend(live.filter(|pod| !pod.is_bound()).map(|pod| (pod, Why::NodeVanished)));
        }
    }
    actions
}

fn stays<'a>(view: &NodeView<'a>, criteria: &Criteria, now: Timestamp, actions: &mut NodeActions<'a>) {
    let (mut running, mut backs_off) = (Vec::new(), view.failed_until.is_some_and(|until| until > now));
    let mut waits = false;
    for pod in view.present().filter(|pod| !pod.meta().is_deleting()) {
        match pod.phase {
            Phase::Failed if backs_off => waits = true,
            Phase::Failed => {
                actions.delete.push((pod, Why::Failed));
                // After the deletion of one failed Pod, further failed Pods of the node wait for the back-off.
                backs_off = true;
            }
            Phase::Succeeded => actions.delete.push((pod, Why::Succeeded)),
            _ => running.push(pod),
        }
    }
    if criteria.allows_surge {
        if running.is_empty() && view.eligibility.should_run() && !waits {
            actions.create = Some(Lack::NoRunningPod);
        }
        prune_with_surge(&running, criteria, now, actions);
    } else {
        actions.delete.extend(running.into_iter().skip(1).map(|pod| (pod, Why::Duplicate)));
    }
}

/// Keeps one Pod of the current revision and one other Pod, and deletes further Pods. Deletes the other Pod as well if it is
/// not ready, or once the Pod of the current revision is available.
fn prune_with_surge<'a>(running: &[&'a PodRef], criteria: &Criteria, now: Timestamp, actions: &mut NodeActions<'a>) {
    if running.len() < 2 {
        return;
    }
    let (mut new, mut old) = (None, None);
    for pod in running {
        let kept = if criteria.is_of_revision(pod) { &mut new } else { &mut old };
        match kept {
            None => *kept = Some(*pod),
            Some(_) => actions.delete.push((pod, Why::Duplicate)),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.is_ready() || criteria.is_available(new, now))
    {
        actions.delete.push((old, Why::Replaced));
    }
}

#[cfg(test)]
mod tests;
