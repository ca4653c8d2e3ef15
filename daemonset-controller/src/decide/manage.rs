//! Missing and surplus Pods of a node, regardless of the update strategy.

use common::pods::Phase;
use jiff::Timestamp;

use crate::{
    objects::PodRef,
    plan::{Lack, Why},
    snapshot::nodes::{Criteria, Eligibility, NodeView},
};

/// The creations and deletions on one node.
#[derive(Debug, Default)]
pub struct NodeActions<'a> {
    /// The reason for a creation, if a Pod is created.
    pub create: Option<Lack>,
    /// Pods to delete, with the reasons.
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
        // No other controller deletes a Pod that is not bound. Bound Pods are left to the garbage collector of Pods.
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
                // The deletion of one failed Pod begins the back-off of the node.
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

/// Keeps one Pod of the current revision and one other Pod, until the new Pod is available or the old one is not ready.
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
