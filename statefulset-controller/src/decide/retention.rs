//! The owner references of claims, which make the garbage collector delete claims with their Pod or their set.
//!
//! Upstream: `pkg/controller/statefulset`, `isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`.

use common::{pods::PODS, prelude::*};

use crate::objects::{
    PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, StatefulSet, VolumeClaimRetention, VolumeClaimRetentionPolicy,
};

/// The possible owners of a claim: the StatefulSet, and the Pod that uses the claim.
#[derive(Clone, Debug)]
pub struct VolumeClaimOwners {
    retention: VolumeClaimRetentionPolicy,
    condemned: bool,
    set: OwnerRef,
    pod: OwnerRef,
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &Uid) -> OwnerRef {
    OwnerRef {
        api_version: Text::new(api_version),
        kind: Text::new(kind),
        name: Text::new(name),
        uid: uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn is_named(owner: &OwnerRef, other: &OwnerRef) -> bool {
    owner.api_version == other.api_version && owner.kind == other.kind && owner.name == other.name
}

/// The result of a comparison of a claim's owner references with the retention policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipCheck {
    /// Whether the claim has an unexpected owner. The retention policy is then ignored, and references to this set are removed.
    pub has_conflicting_owner: bool,
    /// The new owner references; `None` if nothing is to be written.
    pub new_owners: Option<Vec<OwnerRef>>,
}

impl VolumeClaimOwners {
    /// Makes the owner references to a set and to its Pod. `condemned` is true if the Pod is out of range.
    pub fn new(set: &StatefulSet, pod: &str, uid: &Uid, condemned: bool) -> Self {
        let meta = &set.metadata;
        Self {
            retention: set.volume_claim_retention_policy,
            condemned,
            set: reference(&STATEFUL_SETS.api_version(), STATEFUL_SETS.kind(), &meta.name, &meta.uid),
            pod: reference(PERSISTENT_VOLUME_CLAIMS.version(), PODS.kind(), pod, uid),
        }
    }

    /// Returns whether the set must own the claim, and whether the Pod must own the claim.
    fn wanted_owners(&self) -> (bool, bool) {
        let goes_with_pod = self.retention.when_scaled == VolumeClaimRetention::Delete && self.condemned;
        (self.retention.when_deleted == VolumeClaimRetention::Delete && !goes_with_pod, goes_with_pod)
    }

    /// Compares the owner references of a claim with the retention policy.
    pub fn check_owner_references(&self, owners: &[OwnerRef]) -> OwnershipCheck {
        let conflicting = self.is_conflicting(owners);
        let change = (!self.are_up_to_date(owners, conflicting)).then(|| self.changed(owners, conflicting));
        OwnershipCheck { has_conflicting_owner: conflicting, new_owners: change.filter(|change| change != owners) }
    }

    /// Returns whether a claim has an unexpected owner: an earlier set or Pod of the same name, or another controller.
    fn is_conflicting(&self, owners: &[OwnerRef]) -> bool {
        self.retention != VolumeClaimRetentionPolicy::default()
            && owners.iter().any(|owner| {
                if is_named(owner, &self.set) {
                    owner.uid != self.set.uid
                } else if is_named(owner, &self.pod) {
                    owner.uid != self.pod.uid
                } else {
                    owner.is_controller()
                }
            })
    }

    fn are_up_to_date(&self, owners: &[OwnerRef], conflicting: bool) -> bool {
        // An owner has the expected name and another UID. The garbage collector still has to process this claim.
        let is_earlier = |owner_ref: &OwnerRef| {
            owners.iter().find(|owner| is_named(owner, owner_ref)).is_some_and(|owner| owner.uid != owner_ref.uid)
        };
        if is_earlier(&self.set) || is_earlier(&self.pod) {
            return true;
        }
        let has_uid = |uid: &Uid| owners.iter().any(|owner| owner.uid == *uid);
        let has = (has_uid(&self.set.uid), has_uid(&self.pod.uid));
        if conflicting {
            return has == (false, false);
        }
        let mut ours = owners.iter().filter(|owner| owner.uid == self.set.uid || owner.uid == self.pod.uid);
        ours.all(OwnerRef::is_controller) && has == self.wanted_owners()
    }

    fn changed(&self, owners: &[OwnerRef], conflicting: bool) -> Vec<OwnerRef> {
        let ours = |owner: &&OwnerRef| is_named(owner, &self.set) || is_named(owner, &self.pod);
        let mut changed: Vec<OwnerRef> = owners.iter().filter(|owner| !ours(owner)).cloned().collect();
        if !conflicting {
            let (set, pod) = self.wanted_owners();
            for (expected, wanted) in [(&self.set, set), (&self.pod, pod)] {
                if wanted && changed.iter().all(|owner| owner.uid != expected.uid) {
                    changed.push(expected.clone());
                }
            }
        }
        changed
    }
}

/// Returns whether a claim is about to be deleted with an earlier Pod of this name. The next Pod must not use such a claim.
pub fn is_volume_claim_stale(retention: VolumeClaimRetentionPolicy, owners: &[OwnerRef], pod: &str) -> bool {
    let earlier = |owner: &OwnerRef| {
        owner.api_version == PERSISTENT_VOLUME_CLAIMS.version()
            && owner.kind == PODS.kind()
            && owner.name == *pod
            && !owner.uid.is_empty()
    };
    retention.when_scaled != VolumeClaimRetention::Retain && owners.iter().any(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    use VolumeClaimRetention::{Delete, Retain};

    fn policy(when_deleted: VolumeClaimRetention, when_scaled: VolumeClaimRetention) -> VolumeClaimRetentionPolicy {
        VolumeClaimRetentionPolicy { when_deleted, when_scaled }
    }

    fn owners(retention: VolumeClaimRetentionPolicy, condemned: bool) -> VolumeClaimOwners {
        let uid = |text| Uid::new(text);
        VolumeClaimOwners {
            retention,
            condemned,
            set: reference("apps/v1", "StatefulSet", "web", &uid("SET")),
            pod: reference("v1", "Pod", "web-0", &uid("POD")),
        }
    }

    fn set(uid: &str) -> OwnerRef {
        reference("apps/v1", "StatefulSet", "web", &Uid::new(uid))
    }

    fn pod(uid: &str) -> OwnerRef {
        reference("v1", "Pod", "web-0", &Uid::new(uid))
    }

    fn other(controller: Option<bool>) -> OwnerRef {
        OwnerRef { controller, ..reference("example.com/v1", "Backup", "b", &Uid::new("B")) }
    }

    fn all() -> impl Iterator<Item = (VolumeClaimRetentionPolicy, bool)> {
        let keeps = [Retain, Delete];
        let retentions = keeps
            .into_iter()
            .flat_map(move |when_deleted| keeps.into_iter().map(move |when_scaled| policy(when_deleted, when_scaled)));
        retentions.flat_map(|retention| [(retention, false), (retention, true)])
    }

    /// STATEFULSET-43.
    #[test]
    fn the_retention_policy_determines_the_owners() {
        let wanted = |deleted, scaled, condemned| owners(policy(deleted, scaled), condemned).wanted_owners();
        for condemned in [false, true] {
            assert_eq!(wanted(Retain, Retain, condemned), (false, false));
            assert_eq!(wanted(Delete, Retain, condemned), (true, false));
        }
        assert_eq!(wanted(Retain, Delete, false), (false, false));
        assert_eq!(wanted(Retain, Delete, true), (false, true));
        assert_eq!(wanted(Delete, Delete, false), (true, false));
        assert_eq!(wanted(Delete, Delete, true), (false, true));
    }

    /// STATEFULSET-45.
    #[test]
    fn a_change_needs_no_second_change() {
        let lists = [
            vec![],
            vec![set("SET")],
            vec![pod("POD")],
            vec![set("SET"), pod("POD")],
            vec![other(None), set("SET")],
            vec![other(Some(true)), set("SET")],
            vec![OwnerRef { controller: None, ..set("SET") }],
            vec![set("OLD")],
            vec![pod("OLD"), set("SET")],
        ];
        for (retention, condemned) in all() {
            for list in &lists {
                let owners = owners(retention, condemned);
                if let Some(changed) = owners.check_owner_references(list).new_owners {
                    assert_eq!(
                        owners.check_owner_references(&changed).new_owners,
                        None,
                        "{retention:?} {condemned} {list:?}"
                    );
                    let foreign = |list: &[OwnerRef]| list.iter().filter(|o| o.kind == "Backup").count();
                    assert_eq!(foreign(&changed), foreign(list), "foreign owners stay");
                }
            }
        }
    }

    /// STATEFULSET-46.
    #[test]
    fn references_to_earlier_objects_are_left_to_the_garbage_collector() {
        let retention = policy(Delete, Delete);
        for list in [vec![set("OLD")], vec![pod("OLD")], vec![set("SET"), pod("OLD")]] {
            let verdict = owners(retention, false).check_owner_references(&list);
            assert_eq!(verdict, OwnershipCheck { has_conflicting_owner: true, new_owners: None }, "{list:?}");
        }
        assert_eq!(
            owners(policy(Retain, Retain), false).check_owner_references(&[set("OLD")]),
            OwnershipCheck { has_conflicting_owner: false, new_owners: None }
        );
    }

    /// STATEFULSET-45.
    #[test]
    fn a_claim_of_another_controller_loses_the_reference_to_the_set() {
        let retention = policy(Delete, Retain);
        let verdict = owners(retention, false).check_owner_references(&[other(Some(true)), set("SET")]);
        assert_eq!(verdict, OwnershipCheck { has_conflicting_owner: true, new_owners: Some(vec![other(Some(true))]) });
        let verdict = owners(retention, false).check_owner_references(&[other(Some(true))]);
        assert_eq!(verdict, OwnershipCheck { has_conflicting_owner: true, new_owners: None });
        // If all claims are retained, another controller is no conflict.
        let verdict = owners(policy(Retain, Retain), false).check_owner_references(&[other(Some(true)), set("SET")]);
        assert_eq!(verdict, OwnershipCheck { has_conflicting_owner: false, new_owners: Some(vec![other(Some(true))]) });
    }

    #[test]
    fn a_reference_without_controller_is_made_a_controller_reference() {
        let retention = policy(Delete, Retain);
        let weak = OwnerRef { controller: None, ..set("SET") };
        assert_eq!(owners(retention, false).check_owner_references(&[weak]).new_owners, Some(vec![set("SET")]));
    }

    #[test]
    fn a_uid_under_another_name_is_not_written_twice() {
        let retention = policy(Delete, Retain);
        let odd = OwnerRef { name: "other".into(), controller: None, ..set("SET") };
        // A write would change nothing and would be repeated in every sync, so none is planned.
        assert_eq!(owners(retention, false).check_owner_references(&[odd]).new_owners, None);
    }

    /// STATEFULSET-42.
    #[test]
    fn a_claim_that_is_deleted_with_an_earlier_pod_is_stale() {
        let retention = policy(Retain, Delete);
        assert!(is_volume_claim_stale(retention, &[pod("OLD")], "web-0"));
        assert!(!is_volume_claim_stale(retention, &[pod("OLD")], "web-1"));
        assert!(!is_volume_claim_stale(retention, &[set("SET")], "web-0"));
        assert!(!is_volume_claim_stale(policy(Retain, Retain), &[pod("OLD")], "web-0"));
    }
}
