//! Decides which Pods use a claim, as pure functions.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    objects::{Claim, Pod},
    protection::decide::{MAX_NAMED_USERS, Usage},
};

/// Whether a Pod uses a claim of its namespace, so that the claim must not be deleted. A Pod uses the claim of an ephemeral volume
/// only if it controls the claim.
///
/// Upstream: `pkg/controller/volume/pvcprotection`, `podUsesPVCForDeletion`.
pub fn uses(pod: &Pod, claim: &Claim) -> bool {
    let name = &*claim.metadata.name;
    let mut ephemeral_volumes = pod.ephemeral_volumes.iter();
    let mut uses_ephemeral =
        || ephemeral_volumes.any(|volume| &*volume.claim_name == name) && claim.is_controlled_by(pod);
    let is_named = pod.claim_names.iter().any(|claim_name| &**claim_name == name);
    pod.has_node && (is_named || (!pod.is_shut_down && uses_ephemeral()))
}

/// Returns the use of a claim by the cached Pods that name it. `is_used_on_server` says whether a recent list from the server, sent
/// after the deletion of the claim, has a Pod that uses it; `None` without such a list.
pub fn usage_of_claim(claim: &Claim, pods: &[Arc<Pod>], is_used_on_server: Option<bool>) -> Usage {
    let users: Vec<_> = pods.iter().filter(|pod| uses(pod, claim)).collect();
    let is_unseen = users.is_empty() && is_used_on_server == Some(true);
    let unseen = is_unseen.then(|| "a Pod that the cache lacks uses it".to_owned());
    let seen = users.iter().take(MAX_NAMED_USERS).map(|pod| format!("Pod {} uses it", pod.metadata.name));
    Usage {
        is_used: is_unseen || !users.is_empty(),
        is_unseen,
        needs_live_list: is_used_on_server.is_none(),
        situation: format!("{} cached Pods use it", users.len()),
        users: seen.chain(unseen).collect(),
    }
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
