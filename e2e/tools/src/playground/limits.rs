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

use common::meta::NamespacedName;

use super::world::{Bounds, Object, World, pod};
use crate::sandbox::Write;

/// The extremes of a Deployment during a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extremes {
    pub(super) bounds: Bounds,
    /// The largest sum of the sizes of its ReplicaSets.
    pub(super) most: i32,
    /// The fewest available Pods after all wanted Pods were available for the first time; `None` before that.
    pub(super) least: Option<i32>,
}

#[derive(Debug, Default)]
pub(super) struct Limits {
    extremes: BTreeMap<NamespacedName, Extremes>,
    /// Sizes that the controller of a ReplicaSet may still act on, by generation: those after `observedGeneration`.
    granted: BTreeMap<String, Vec<(i64, i32)>>,
    judged: u64,
}

/// Whether a controller has decided on a write.
fn by_controller(write: &Write) -> bool {
    write.user_agent.contains("-controller")
}

impl Limits {
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Resets the extremes at the start of a rollout.
    pub(super) fn begin(&mut self) {
        self.extremes.clear();
    }

    pub(super) fn extremes(&self, key: &NamespacedName) -> Option<Extremes> {
        self.extremes.get(key).copied()
    }

    /// Checks a write that `world` already contains. Returns the broken rule.
    pub(super) fn judge(&mut self, world: &World, write: &Write) -> Option<String> {
        let (set, broken) = match (&*write.group, &*write.resource) {
            ("apps", "deployments") => {
                self.note(world, world.get("Deployment", &NamespacedName::new(&write.namespace, &write.name)), write);
                (None, None)
            }
            ("apps", "replicasets") => {
                let (before, after) = (write.before().map(Object), write.after().map(Object));
                let broken = match (&before, &after) {
                    (_, Some(after)) => self.resized(world, before.as_ref(), after, write),
                    (Some(before), None) => {
                        self.granted.remove(before.uid());
                        None
                    }
                    (None, None) => None,
                };
                (after.or(before), broken)
            }
            ("", "pods") => {
                let (before, after) = (pod(write.before()), pod(write.after()));
                let owner = after.as_ref().or(before.as_ref())?.meta.controller()?;
                let set = world.with_uid("ReplicaSet", &owner.uid.to_string())?;
                let is_deleting = after.as_ref().is_none_or(|pod| pod.meta.is_deleting());
                let broken = match &before {
                    None => self.created(world, set, write),
                    Some(pod) if pod.meta.is_deleting() || !is_deleting || !pod.is_active() => None,
                    Some(pod) if !pod.is_available(set.min_ready_seconds(), write.at) => None,
                    Some(_) => deleted(world, set, write),
                };
                (Some(set.clone()), broken)
            }
            _ => return None,
        };
        self.note(world, set.as_ref().and_then(|set| deployment_of(world, set)), write);
        self.judged += 1;
        broken
    }

    /// Checks the creation or a change of a ReplicaSet or of its status.
    fn resized(&mut self, world: &World, before: Option<&Object>, after: &Object, write: &Write) -> Option<String> {
        let granted = self.granted.entry(after.uid().to_owned()).or_default();
        granted.retain(|(generation, _)| *generation >= after.number("/status/observedGeneration"));
        let grant = (after.number("/metadata/generation"), after.replicas());
        if granted.last() != Some(&grant) {
            granted.push(grant);
        }
        let grown = after.replicas() > before.map_or(0, Object::replicas);
        let deployment = deployment_of(world, after).filter(|_| grown && by_controller(write))?;
        let (bounds, sizes) = (deployment.bounds()?, world.sizes(deployment));
        (sizes > bounds.most).then(|| {
            format!(
                "{}: ReplicaSet {} grew to {}, which makes {sizes} Pods in all, but replicas + maxSurge is {}",
                deployment.key(),
                write.name,
                after.replicas(),
                bounds.most
            )
        })
    }

    fn created(&self, world: &World, set: &Object, write: &Write) -> Option<String> {
        if !by_controller(write) {
            return None;
        }
        let granted = self.granted.get(set.uid()).into_iter().flatten().map(|(_, size)| *size).max()?;
        let active = world.census(set, write.at).active();
        (active > granted)
            .then(|| format!("ReplicaSet {}: Pod {} is number {active} of {granted}", set.key(), write.name))
    }

    fn note(&mut self, world: &World, deployment: Option<&Object>, write: &Write) {
        let Some((deployment, bounds)) = deployment.and_then(|d| Some((d, d.bounds()?))) else { return };
        let sizes = world.sizes(deployment);
        let available = world.census_of_owned("ReplicaSet", deployment, write.at).available();
        let fresh = Extremes { bounds, most: sizes, least: None };
        let extremes = self.extremes.entry(deployment.key()).or_insert(fresh);
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

/// The Deployment that controls a ReplicaSet, if it exists.
fn deployment_of<'a>(world: &'a World, set: &Object) -> Option<&'a Object> {
    world.with_uid("Deployment", set.owner())
}

/// Checks the deletion of an available Pod.
fn deleted(world: &World, set: &Object, write: &Write) -> Option<String> {
    let deployment = deployment_of(world, set).filter(|_| by_controller(write))?;
    let bounds = deployment.bounds()?;
    let available = world.census_of_owned("ReplicaSet", deployment, write.at).available();
    (available < bounds.least).then(|| {
        format!(
            "{}: Pod {} was deleted, which leaves {available} available, but replicas - maxUnavailable is {}",
            deployment.key(),
            write.name,
            bounds.least
        )
    })
}

#[cfg(test)]
mod tests;
