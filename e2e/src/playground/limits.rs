//! Whether rollouts keep to `maxSurge` and `maxUnavailable`: judged at every write, not now and then.
//!
//! Three rules follow from what the two limits promise, and each is judged by the write that would break it:
//! - a write that grows a ReplicaSet leaves the sizes of all ReplicaSets of its Deployment at `replicas + maxSurge` at most;
//! - a ReplicaSet creates no Pod beyond a size it was given;
//! - a controller deletes no available Pod where fewer than `replicas - maxUnavailable` would be left.
//!
//! The first two together bound the Pods, except that Pods that are to go may still be there when their successors come: that
//! is so upstream, and why sizes are what counts. What people and nodes do is no controller's fault, and a rule that a
//! person's own write breaks (a smaller `replicas`, say) holds again from the next write of a controller.

use std::collections::BTreeMap;

use common::meta::{Key, Uid};
use serde::Deserialize as _;

use super::world::{Bounds, ReplicaSet, World};
use crate::sandbox::Write;
use common::pods::Pod;

/// The extremes a Deployment went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extremes {
    /// The bounds that held.
    pub(super) bounds: Bounds,
    /// The largest sum of the sizes of its ReplicaSets.
    pub(super) most: i32,
    /// The fewest available Pods since all that are wanted were available for the first time; none if they never were.
    pub(super) least: Option<i32>,
}

/// Watches over all Deployments.
#[derive(Debug, Default)]
pub(super) struct Limits {
    extremes: BTreeMap<Key, Extremes>,
    /// Sizes that a ReplicaSet may still act upon, with their generations: those it has not said to be past.
    granted: BTreeMap<Uid, Vec<(i64, i32)>>,
    judged: u64,
}

/// Whether a write is a controller's own decision.
fn by_controller(write: &Write) -> bool {
    write.user_agent.contains("-controller")
}

impl Limits {
    /// How many writes were judged.
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Forgets the extremes so far: another rollout begins.
    pub(super) fn begin(&mut self) {
        self.extremes.clear();
    }

    /// The extremes of a Deployment.
    pub(super) fn extremes(&self, key: &Key) -> Option<Extremes> {
        self.extremes.get(key).copied()
    }

    /// Judges a write that `world` has taken over already: what it breaks, in one line each.
    pub(super) fn judge(&mut self, world: &World, write: &Write) -> Vec<String> {
        let mut broken = Vec::new();
        match (&*write.group, &*write.resource) {
            ("apps", "deployments") => {
                self.note(world, world.deployment(&Key::new(&write.namespace, &write.name)), write);
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

    /// A ReplicaSet was made, changed or said something.
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

    /// A Pod was created.
    fn created(&self, world: &World, set: &ReplicaSet, write: &Write) -> Option<String> {
        if !by_controller(write) {
            return None;
        }
        let granted = self.granted.get(&set.metadata.uid).into_iter().flatten().map(|(_, size)| *size).max()?;
        let active = world.census(set, write.at).active();
        (active > granted)
            .then(|| format!("ReplicaSet {}: Pod {} is number {active} of {granted}", set.metadata.key(), write.name))
    }

    /// Keeps the extremes.
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

/// An available Pod was deleted.
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
