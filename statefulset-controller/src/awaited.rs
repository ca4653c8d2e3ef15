//! Sets that wait for the deletion of a claim.

use std::collections::BTreeSet;

use common::prelude::*;
use parking_lot::Mutex;

/// The claims that must be deleted before a waiting set can proceed, indexed by set and by claim.
///
/// A claim is listed while a set waits for it. The next sync of the set replaces the claims of the set, and the deletion of
/// the set or of the claim removes them.
#[derive(Debug, Default)]
pub(crate) struct AwaitedVolumeClaims(Mutex<AwaitedIndexes>);

#[derive(Debug, Default)]
struct AwaitedIndexes {
    sets_by_claim: HashMap<NamespacedName, BTreeSet<NamespacedName>>,
    claims_by_set: HashMap<NamespacedName, Vec<NamespacedName>>,
}

impl AwaitedVolumeClaims {
    pub(crate) fn replace_claims_of_set(&self, set: &NamespacedName, claims: Vec<NamespacedName>) {
        let mut indexes = self.0.lock();
        indexes.remove(set);
        for claim in &claims {
            indexes.sets_by_claim.entry(claim.clone()).or_default().insert(set.clone());
        }
        if !claims.is_empty() {
            indexes.claims_by_set.insert(set.clone(), claims);
        }
    }

    pub(crate) fn forget_set(&self, set: &NamespacedName) {
        self.0.lock().remove(set);
    }

    /// Removes a deleted claim, and returns the sets that waited for it.
    pub(crate) fn take_sets_waiting_for(&self, claim: &NamespacedName) -> BTreeSet<NamespacedName> {
        let mut indexes = self.0.lock();
        let sets = indexes.sets_by_claim.remove(claim).unwrap_or_default();
        for set in &sets {
            if let Some(claims) = indexes.claims_by_set.get_mut(set) {
                claims.retain(|other| other != claim);
                if claims.is_empty() {
                    indexes.claims_by_set.remove(set);
                }
            }
        }
        sets
    }
}

impl AwaitedIndexes {
    fn remove(&mut self, set: &NamespacedName) {
        for claim in self.claims_by_set.remove(set).unwrap_or_default() {
            if let Some(sets) = self.sets_by_claim.get_mut(&claim) {
                sets.remove(set);
                if sets.is_empty() {
                    self.sets_by_claim.remove(&claim);
                }
            }
        }
    }
}

#[cfg(test)]
impl AwaitedVolumeClaims {
    pub(crate) fn len(&self) -> usize {
        let indexes = self.0.lock();
        indexes.sets_by_claim.len() + indexes.claims_by_set.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> NamespacedName {
        NamespacedName::new("shop", name)
    }

    #[test]
    fn entries_of_deleted_sets_and_claims_are_removed() {
        let awaited = AwaitedVolumeClaims::default();
        awaited.replace_claims_of_set(&key("web"), vec![key("data-web-0"), key("data-web-1")]);
        assert_eq!(awaited.len(), 3);
        awaited.replace_claims_of_set(&key("web"), vec![key("data-web-1")]);
        assert_eq!(awaited.len(), 2, "the set no longer waits for the other claim");
        assert!(awaited.take_sets_waiting_for(&key("data-web-0")).is_empty());
        assert_eq!(awaited.take_sets_waiting_for(&key("data-web-1")), BTreeSet::from([key("web")]));
        assert_eq!(awaited.len(), 0);
        awaited.replace_claims_of_set(&key("web"), vec![key("data-web-1")]);
        awaited.forget_set(&key("web"));
        assert_eq!(awaited.len(), 0);
        awaited.replace_claims_of_set(&key("web"), Vec::new());
        assert_eq!(awaited.len(), 0);
    }

    #[test]
    fn a_claim_may_be_awaited_by_several_sets() {
        let awaited = AwaitedVolumeClaims::default();
        // Template `a-b` of set `c` and template `a` of set `b-c` give their claims the same name.
        awaited.replace_claims_of_set(&key("c"), vec![key("a-b-c-0")]);
        awaited.replace_claims_of_set(&key("b-c"), vec![key("a-b-c-0")]);
        awaited.forget_set(&key("c"));
        assert_eq!(awaited.take_sets_waiting_for(&key("a-b-c-0")), BTreeSet::from([key("b-c")]));
        assert_eq!(awaited.len(), 0);
    }
}
