//! Decides what the finalizer and the condition of a claim need, and which Pods use it, as pure functions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{conditions, prelude::*};

use crate::{
    objects::{Claim, Pod, Protected},
    protection::decide::{FinalizerStep, MAX_NAMED_USERS, finalizer_step},
};

/// Delay after which a claim is synced again that only Pods use that the cache lacks. No event reports the end of such a Pod if
/// it ends in a gap of the watch.
pub const UNSEEN_USER_RECHECK_DELAY: Duration = Duration::from_secs(5);

/// What one sync reads from the caches.
pub struct Snapshot {
    /// The claim, not older than the last write of this process.
    pub claim: Arc<Claim>,
    /// The cached Pods that name the claim; empty if they do not matter.
    pub pods: Vec<Arc<Pod>>,
    /// Whether a recent list from the server, sent after the deletion of the claim, has a Pod that uses it; `None` without such a
    /// list.
    pub is_used_on_server: Option<bool>,
    /// Whether the condition is written.
    pub writes_condition: bool,
}

/// What one sync does.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The new `status` of the condition; `None` if it stays.
    pub unused: Option<&'static str>,
    /// What the finalizer needs, as far as the snapshot shows it.
    pub step: FinalizerStep,
    /// Whether only the server shows a Pod that uses the claim.
    pub is_used_by_unseen_pod: bool,
    /// How many cached Pods use the claim.
    pub user_count: usize,
    /// The names of some of them.
    pub users: Vec<Arc<str>>,
}

impl SyncPlan for Plan {
    fn requeue_after(&self) -> Option<Duration> {
        self.is_used_by_unseen_pod.then_some(UNSEEN_USER_RECHECK_DELAY)
    }

    fn situation(&self) -> String {
        match self.step {
            FinalizerStep::AwaitUsers | FinalizerStep::Remove => format!("{} cached Pods use it", self.user_count),
            FinalizerStep::Keep => "it is protected".to_owned(),
            FinalizerStep::Add => "it lacks the finalizer".to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let unseen = self.is_used_by_unseen_pod.then(|| "a Pod that the cache lacks uses it".to_owned());
        self.users.iter().map(|name| format!("Pod {name} uses it")).chain(unseen).collect()
    }
}

/// Plans what the finalizer and the condition need. The removal of a finalizer also needs a list from the server.
pub fn decide(Snapshot { claim, pods, is_used_on_server, writes_condition }: &Snapshot) -> Plan {
    let mut users: Vec<_> = if claim.is_held() {
        let users = pods.iter().filter(|pod| uses(pod, claim));
        users.map(|pod| Arc::clone(&pod.metadata.name)).collect()
    } else {
        Vec::new()
    };
    let user_count = users.len();
    users.truncate(MAX_NAMED_USERS);
    let is_used_by_unseen_pod = claim.is_held() && user_count == 0 && *is_used_on_server == Some(true);
    let writes_condition = *writes_condition && !claim.metadata.is_deleting();
    Plan {
        unused: new_condition_status(claim, pods).filter(|_| writes_condition),
        step: finalizer_step(&**claim, user_count > 0 || is_used_by_unseen_pod),
        is_used_by_unseen_pod,
        user_count,
        users,
    }
}

/// Returns the `status` that the condition lacks; `None` if it has the right one.
fn new_condition_status(claim: &Claim, pods: &[Arc<Pod>]) -> Option<&'static str> {
    let is_referred_to = pods.iter().any(|pod| refers_to(pod, claim));
    let status = if is_referred_to { conditions::FALSE } else { conditions::TRUE };
    let stored = claim.unused_status();
    let is_right = stored.is_some_and(|stored| (stored == conditions::TRUE) != is_referred_to);
    (!is_right).then_some(status)
}

/// Whether a Pod uses a claim of its namespace, so that the claim must not be deleted.
///
/// Upstream: `pkg/controller/volume/pvcprotection`, `podUsesPVCForDeletion`.
pub fn uses(pod: &Pod, claim: &Claim) -> bool {
    pod.has_node && names(pod, claim, !pod.is_shut_down)
}

/// Whether a Pod counts for the condition of a claim of its namespace.
///
/// Upstream: `pkg/controller/volume/pvcprotection`, `podUsesPVCForUnusedSince`.
pub fn refers_to(pod: &Pod, claim: &Claim) -> bool {
    !pod.is_finished && names(pod, claim, true)
}

/// Whether a volume of a Pod names a claim. An ephemeral volume names only a claim that the Pod controls, and only if
/// `counts_ephemeral`.
fn names(pod: &Pod, claim: &Claim, counts_ephemeral: bool) -> bool {
    let name = &*claim.metadata.name;
    let mut ephemeral_volumes = pod.ephemeral_volumes.iter();
    pod.claim_names.iter().any(|named| &**named == name)
        || (counts_ephemeral && ephemeral_volumes.any(|one| &*one.claim_name == name) && claim.is_controlled_by(pod))
}

/// A claim, and the name of a Pod that uses it.
type ClaimWithUser = (Arc<Claim>, Option<Arc<str>>);

/// The terminating claims of a namespace, and which of them the Pods in a list from the server use.
#[derive(Debug, Default)]
pub struct LiveUsage {
    /// By name.
    claims: BTreeMap<Arc<str>, ClaimWithUser>,
}

impl LiveUsage {
    /// Begins before the list is requested, with the claims that are terminating then.
    pub fn new(claims: impl IntoIterator<Item = Arc<Claim>>) -> Self {
        let by_name = |claim: Arc<Claim>| (Arc::clone(&claim.metadata.name), (claim, None));
        Self { claims: claims.into_iter().map(by_name).collect() }
    }

    /// Counts a Pod of the list.
    pub fn add(&mut self, pod: &Pod) {
        for name in pod.all_claim_names() {
            if let Some((claim, user)) = self.claims.get_mut(&**name)
                && user.is_none()
                && uses(pod, claim)
            {
                *user = Some(Arc::clone(&pod.metadata.name));
            }
        }
    }

    /// Forgets all Pods, because the list starts again.
    pub fn restart(&mut self) {
        self.claims.values_mut().for_each(|(_, user)| *user = None);
    }

    /// Removes a claim, and returns the name of a Pod that uses it.
    pub fn take_user(&mut self, claim: &Claim) -> Option<Arc<str>> {
        self.claims.remove(&claim.metadata.name).and_then(|(_, user)| user)
    }

    /// Returns the other claims, each with whether a Pod uses it.
    pub fn into_answers(self) -> impl Iterator<Item = (Arc<Claim>, bool)> {
        self.claims.into_values().map(|(claim, user)| (claim, user.is_some()))
    }
}

#[cfg(test)]
mod tests;
