//! A check of `maxSurge` and `maxUnavailable` at every write.
//!
//! Three rules follow from the two limits. Each is checked at the writes that can break it:
//! - a write that grows a ReplicaSet leaves the sizes of all ReplicaSets of its Deployment at `replicas + maxSurge` at most;
//! - a ReplicaSet creates no Pod beyond a size that it was given;
//! - a controller deletes no available Pod if fewer than `replicas - maxUnavailable` would remain.
//!
//! The first two rules bound the number of Pods. Terminating Pods are not counted, because upstream creates the new Pods while
//! the old ones terminate; therefore the rules are about sizes. Writes of users and nodes are not checked. If a user breaks a
//! rule, for example by a smaller `replicas`, the rule holds again from the next write of a controller.

use std::collections::BTreeMap;

use common::meta::{NamespacedName, Uid};
use serde::Deserialize as _;

use super::world::{Bounds, ReplicaSet, World};
use crate::sandbox::Write;
use common::pods::Pod;

/// The extremes of a Deployment during a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extremes {
    /// The bounds in force.
    pub(super) bounds: Bounds,
    /// The largest sum of the sizes of its ReplicaSets.
    pub(super) most: i32,
    /// The fewest available Pods after all wanted Pods were available for the first time; `None` before that.
    pub(super) least: Option<i32>,
}

/// The check of all Deployments.
#[derive(Debug, Default)]
pub(super) struct Limits {
    extremes: BTreeMap<NamespacedName, Extremes>,
    /// Sizes that the controller of a ReplicaSet may still act on, by generation: those after `observedGeneration`.
    granted: BTreeMap<Uid, Vec<(i64, i32)>>,
    judged: u64,
}

/// Whether a controller has decided on a write.
fn by_controller(write: &Write) -> bool {
    write.user_agent.contains("-controller")
}

impl Limits {
    /// The number of checked writes.
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Resets the extremes at the start of a rollout.
    pub(super) fn begin(&mut self) {
        self.extremes.clear();
    }

    /// The extremes of a Deployment.
    pub(super) fn extremes(&self, key: &NamespacedName) -> Option<Extremes> {
        self.extremes.get(key).copied()
    }

    /// Checks a write that `world` already contains. Returns a line for each broken rule.
    pub(super) fn judge(&mut self, world: &World, write: &Write) -> Vec<String> {
        let mut broken = Vec::new();
        match (&*write.group, &*write.resource) {
            ("apps", "deployments") => {
                self.note(world, world.deployment(&NamespacedName::new(&write.namespace, &write.name)), write);
            }
            ("apps", "replicasets") => {
                let read =
                    |value: Option<std::sync::Arc<serde_json::Value>>| ReplicaSet::deserialize(value.as_deref()?).ok();
                let (before, after) = (read(write.before()), read(write.after()));
                match &after {
                    Some(after) => broken.extend(self.resized(world, before.as_ref(), after, write)),
                    None => drop(before.as_ref().map(|set| self.granted.remove(&set.metadata.uid))),
                }
                let deployment = after.as_ref().or(before.as_ref()).and_then(|set| world.deployment_of(set));
                self.note(world, deployment, write);
            }
            ("", "pods") => {
                let read = |value: Option<std::sync::Arc<serde_json::Value>>| Pod::deserialize(value.as_deref()?).ok();
                let (before, after) = (read(write.before()), read(write.after()));
                let Some(owner) = after.as_ref().or(before.as_ref()).and_then(|pod| pod.meta.controller()) else {
                    return broken;
                };
                let Some(set) = world.set(&owner.uid) else { return broken };
                if before.is_none() {
                    broken.extend(self.created(world, set, write));
                } else if let Some(pod) = &before {
                    let goes = !pod.meta.is_deleting() && after.as_ref().is_none_or(|pod| pod.meta.is_deleting());
                    if goes && pod.is_active() && pod.is_available(set.spec.min_ready_seconds, write.at) {
                        broken.extend(deleted(world, set, write));
                    }
                }
                self.note(world, world.deployment_of(set), write);
            }
            _ => return broken,
        }
        self.judged += 1;
        broken
    }

    /// Checks the creation or a change of a ReplicaSet or of its status.
    fn resized(
        &mut self,
        world: &World,
        before: Option<&ReplicaSet>,
        after: &ReplicaSet,
        write: &Write,
    ) -> Option<String> {
        let granted = self.granted.entry(after.metadata.uid.clone()).or_default();
        granted.retain(|(generation, _)| *generation >= after.status.observed_generation);
        if granted.last() != Some(&(after.metadata.generation, after.replicas())) {
            granted.push((after.metadata.generation, after.replicas()));
        }
        let grown = after.replicas() > before.map_or(0, ReplicaSet::replicas);
        let deployment = world.deployment_of(after).filter(|_| grown && by_controller(write))?;
        let bounds = deployment.bounds()?;
        let sizes: i32 = world.sets_of(deployment).iter().map(|set| set.replicas()).sum();
        (sizes > bounds.most).then(|| {
            format!(
                "{}: ReplicaSet {} grew to {}, which makes {sizes} Pods in all, but replicas + maxSurge is {}",
                deployment.metadata.key(),
                after.metadata.name,
                after.replicas(),
                bounds.most
            )
        })
    }

    /// Checks the creation of a Pod.
    fn created(&self, world: &World, set: &ReplicaSet, write: &Write) -> Option<String> {
        if !by_controller(write) {
            return None;
        }
        let granted = self.granted.get(&set.metadata.uid).into_iter().flatten().map(|(_, size)| *size).max()?;
        let active = world.census(set, write.at).active();
        (active > granted)
            .then(|| format!("ReplicaSet {}: Pod {} is number {active} of {granted}", set.metadata.key(), write.name))
    }

    /// Updates the extremes.
    fn note(&mut self, world: &World, deployment: Option<&super::world::Deployment>, write: &Write) {
        let Some((deployment, bounds)) = deployment.and_then(|d| Some((d, d.bounds()?))) else { return };
        let sizes: i32 = world.sets_of(deployment).iter().map(|set| set.replicas()).sum();
        let available = world.census_of(deployment, write.at).available;
        let fresh = Extremes { bounds, most: sizes, least: None };
        let extremes = self.extremes.entry(deployment.metadata.key()).or_insert(fresh);
        if extremes.bounds != bounds {
            *extremes = fresh;
        }
        extremes.most = extremes.most.max(sizes);
        extremes.least = match extremes.least {
            Some(least) => Some(least.min(available)),
            None => (available >= deployment.replicas()).then_some(available),
        };
    }
}

/// Checks the deletion of an available Pod.
fn deleted(world: &World, set: &ReplicaSet, write: &Write) -> Option<String> {
    let deployment = world.deployment_of(set).filter(|_| by_controller(write))?;
    let bounds = deployment.bounds()?;
    let available = world.census_of(deployment, write.at).available;
    (available < bounds.least).then(|| {
        format!(
            "{}: Pod {} was deleted, which leaves {available} available, but replicas - maxUnavailable is {}",
            deployment.metadata.key(),
            write.name,
            bounds.least
        )
    })
}

#[cfg(test)]
mod tests;
