//! Decides what the finalizer of a protected object needs, as pure functions.

use std::sync::Arc;

use common::prelude::*;

use crate::objects::{Claim, PersistentVolume, Protected};

/// How many objects that use an object are named.
pub const MAX_NAMED_USERS: usize = 10;

/// What one sync reads from the caches.
#[derive(Debug)]
pub struct Snapshot<K> {
    /// The object, not older than the last write of this process.
    pub object: Arc<K>,
    /// What uses it. Empty if the object is not terminating.
    pub usage: Usage,
}

/// What uses an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Whether anything uses the object.
    pub is_used: bool,
    /// The use in one line.
    pub situation: String,
    /// Some of the users, each in one line.
    pub users: Vec<String>,
}

/// What the finalizer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStep {
    /// Nothing.
    Keep,
    /// It stays until the object is not used.
    AwaitUsers,
    /// It is added.
    Add,
    /// It is removed.
    Remove,
}

/// What one sync does.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the finalizer needs.
    pub step: FinalizerStep,
    /// What uses the object.
    pub usage: Usage,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.usage.situation.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        if self.step == FinalizerStep::AwaitUsers { self.usage.users.clone() } else { Vec::new() }
    }
}

/// Adds a missing finalizer, and removes that of a terminating object that is not used.
///
/// Upstream: `pkg/controller/util/protectionutil`, `IsDeletionCandidate` and `NeedToAddFinalizer`.
pub fn finalizer_step<K: Protected>(object: &K, is_used: bool) -> FinalizerStep {
    if object.lacks_finalizer() {
        return FinalizerStep::Add;
    }
    match (object.is_held(), is_used) {
        (false, _) => FinalizerStep::Keep,
        (true, true) => FinalizerStep::AwaitUsers,
        (true, false) => FinalizerStep::Remove,
    }
}

/// Plans what the finalizer of a PersistentVolume or a class needs.
pub fn decide<K: Protected>(Snapshot { object, usage }: &Snapshot<K>) -> Plan {
    Plan { step: finalizer_step(&**object, usage.is_used), usage: usage.clone() }
}

/// Returns whether a claim uses a PersistentVolume: only its phase counts.
///
/// Upstream: `pkg/controller/volume/pvprotection`, `isBeingUsed`.
pub fn usage_of_volume(volume: &PersistentVolume) -> Usage {
    let situation = format!("its phase is {:?}", volume.status.phase.as_str());
    let is_used = &*volume.status.phase == "Bound";
    let users = is_used.then(|| "the claim to which it is bound".to_owned()).into_iter().collect();
    Usage { is_used, situation, users }
}

/// Returns the use of a class by so many claims and PersistentVolumes, some of which are known.
///
/// Upstream: `pkg/controller/volume/vacprotection`, `isBeingUsed`.
pub fn usage_of_class(
    [claim_count, volume_count]: [usize; 2],
    claims: &[Arc<Claim>],
    volumes: &[Arc<PersistentVolume>],
) -> Usage {
    let claims = claims.iter().map(|claim| format!("PersistentVolumeClaim {}", claim.metadata.key()));
    let volumes = volumes.iter().map(|volume| format!("PersistentVolume {}", volume.metadata.name));
    Usage {
        is_used: claim_count + volume_count > 0,
        situation: format!("{claim_count} claims and {volume_count} PersistentVolumes name it"),
        users: claims.chain(volumes).take(MAX_NAMED_USERS).collect(),
    }
}

#[cfg(test)]
mod tests;
