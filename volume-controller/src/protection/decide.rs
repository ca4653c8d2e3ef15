//! Decides what the finalizer of a protected object needs, as pure functions.

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use crate::objects::{Claim, PersistentVolume, Protected};

/// How many objects that use an object are named.
pub const MAX_NAMED_USERS: usize = 10;

/// Delay of the next sync if the caches lack the users, because no event reports the end of a user in a gap of the watch.
pub const UNSEEN_USER_RECHECK_DELAY: Duration = Duration::from_secs(5);

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
    /// Whether only users use the object that the caches lack.
    pub is_unseen: bool,
    /// Whether the server is asked for users that the caches lack before the finalizer is removed.
    pub needs_live_list: bool,
    /// The use in one line.
    pub situation: String,
    /// Some of the users, each in one line.
    pub users: Vec<String>,
}

/// What a sync does about the protection finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    /// It is added behind those of others.
    Add,
    /// It is removed; with [`Usage::needs_live_list`] only if the list has no user.
    Remove,
}

/// What one sync does.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The change that the finalizer needs; `None` if it stays as it is.
    pub change: Option<FinalizerChange>,
    /// What uses the object.
    pub usage: Usage,
}

impl SyncPlan for Plan {
    fn requeue_after(&self) -> Option<Duration> {
        self.usage.is_unseen.then_some(UNSEEN_USER_RECHECK_DELAY)
    }

    fn situation(&self) -> String {
        match self.change {
            Some(FinalizerChange::Add) => "it lacks the finalizer".to_owned(),
            None if !self.usage.is_used => "its finalizer needs no change".to_owned(),
            _ => self.usage.situation.clone(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.usage.users.clone()
    }
}

/// Plans to add a missing finalizer, and to remove that of a terminating object that is not used.
///
/// Upstream: `pkg/controller/util/protectionutil`, `IsDeletionCandidate` and `NeedToAddFinalizer`.
pub fn decide<K: Protected>(Snapshot { object, usage }: &Snapshot<K>) -> Plan {
    let change = if object.lacks_finalizer() {
        Some(FinalizerChange::Add)
    } else {
        (object.is_held() && !usage.is_used).then_some(FinalizerChange::Remove)
    };
    Plan { change, usage: usage.clone() }
}

/// Returns whether a claim uses a PersistentVolume: only its phase counts.
///
/// Upstream: `pkg/controller/volume/pvprotection`, `isBeingUsed`.
pub fn usage_of_volume(volume: &PersistentVolume) -> Usage {
    let situation = format!("its phase is {:?}", volume.status.phase.as_str());
    let is_used = &*volume.status.phase == "Bound";
    let users = is_used.then(|| "the claim to which it is bound".to_owned()).into_iter().collect();
    Usage { is_used, situation, users, ..Usage::default() }
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
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
