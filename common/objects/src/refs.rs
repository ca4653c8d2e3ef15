//! Ownership: the objects that an owner keeps, adopts and releases, and the patches for adoption and release.
//!
//! The decision is pure. Before the first adoption of a sync, the caller reads the owner from the API server. If the owner then
//! has another UID or is terminating, every adoption of that sync fails.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    intern::Text,
    meta::{Meta, OwnerRef, Uid},
    object::{Object, Resource},
    selector::{Selector, SelectorError},
};

/// Types with object metadata.
pub trait HasMeta {
    /// Returns `metadata` of the object.
    fn meta(&self) -> &Meta;
}

impl<T: Object> HasMeta for T {
    fn meta(&self) -> &Meta {
        Object::meta(self)
    }
}

impl<T: HasMeta + ?Sized> HasMeta for Arc<T> {
    fn meta(&self) -> &Meta {
        (**self).meta()
    }
}

/// The identity of an object that claims dependents, for example of a ReplicaSet that claims Pods.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Resource of the owner, which determines `kind` and `apiVersion` of owner references.
    pub resource: Resource,
    /// `metadata.namespace` of the owner; empty for cluster-scoped owners.
    pub namespace: Text,
    /// `metadata.name` of the owner, for owner references.
    pub name: Text,
    /// `metadata.uid` of the owner. The owner references of its dependents contain this UID.
    pub uid: Uid,
    /// Whether the owner is terminating. If so, its dependents are kept, and no object is adopted or released.
    pub is_deleting: bool,
}

impl Owner {
    /// Takes namespace, name, UID and deletion from `meta`, the metadata of an object of `resource`.
    pub fn new(resource: Resource, meta: &Meta) -> Self {
        Self {
            resource,
            namespace: meta.namespace.clone(),
            name: Text::new(&meta.name),
            uid: meta.uid.clone(),
            is_deleting: meta.is_deleting(),
        }
    }

    /// Returns the owner reference that makes this owner the controller of a dependent.
    pub fn controller_reference(&self) -> OwnerRef {
        OwnerRef {
            api_version: Text::new(&self.resource.api_version()),
            kind: Text::new(self.resource.kind()),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Returns the strategic merge patch that adopts the object with `uid` and adds `finalizers`.
    ///
    /// If another object of the same name was created in the meantime, the server rejects the patch because of the UID (422).
    pub fn adoption_patch(&self, uid: &Uid, finalizers: &[&str]) -> Value {
        let mut metadata = json!({ "ownerReferences": [self.controller_reference()], "uid": uid });
        if !finalizers.is_empty() {
            metadata["finalizers"] = json!(finalizers);
        }
        json!({ "metadata": metadata })
    }

    /// Returns the strategic merge patch that releases the dependent with `uid` and removes `finalizers`.
    ///
    /// If the dependent no longer exists, the server answers 404, or 422 with a cause that names `metadata.uid`. Both count as
    /// success.
    pub fn release_patch(&self, uid: &Uid, finalizers: &[&str]) -> Value {
        let mut metadata = json!({ "uid": uid, "ownerReferences": [{ "$patch": "delete", "uid": self.uid }] });
        if !finalizers.is_empty() {
            metadata["$deleteFromPrimitiveList/finalizers"] = json!(finalizers);
        }
        json!({ "metadata": metadata })
    }
}

/// Result of [`claim_dependents`]: candidates in three groups, each in the original order. Candidates in no group remain
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentClaims<C> {
    /// Candidates that the owner controls and that match.
    pub to_keep: Vec<C>,
    /// Orphans that match. [`Owner::adoption_patch`] makes the owner their controller.
    pub to_adopt: Vec<C>,
    /// Candidates that the owner controls and that no longer match. [`Owner::release_patch`] releases them.
    pub to_release: Vec<C>,
}

impl<C> Default for DependentClaims<C> {
    fn default() -> Self {
        Self { to_keep: Vec::new(), to_adopt: Vec::new(), to_release: Vec::new() }
    }
}

/// Divides candidates (objects of the owner, and orphans) into objects to keep, to adopt and to release.
///
/// A candidate matches if `selector` selects its labels and `eligible` returns true. With an invalid selector,
/// the function returns an error. Upstream: `pkg/controller`, `BaseControllerRefManager.ClaimObject`.
pub fn claim_dependents<C: HasMeta>(
    owner: &Owner,
    selector: &Selector,
    candidates: impl IntoIterator<Item = C>,
    eligible: impl Fn(&C) -> bool,
) -> Result<DependentClaims<C>, SelectorError> {
    let selector = selector.validate()?;
    let mut claims = DependentClaims::default();
    for candidate in candidates {
        let meta = candidate.meta();
        if !owner.namespace.is_empty() && owner.namespace != meta.namespace {
            continue;
        }
        let matches = || selector.matches(&meta.labels) && eligible(&candidate);
        let group = match meta.controller() {
            Some(reference) if reference.uid != owner.uid => continue,
            Some(_) if matches() => &mut claims.to_keep,
            Some(_) if owner.is_deleting => continue,
            Some(_) => &mut claims.to_release,
            None if owner.is_deleting || meta.is_deleting() || !matches() => continue,
            None => &mut claims.to_adopt,
        };
        group.push(candidate);
    }
    Ok(claims)
}

/// Returns the owner that a controller reference names, if `kind`, name and UID match.
///
/// `lookup` finds an object by name in the namespace of the dependent. Like upstream, the function ignores `apiVersion`.
pub fn resolve_owner<P: HasMeta>(
    reference: &OwnerRef,
    kind: &str,
    lookup: impl FnOnce(&str) -> Option<P>,
) -> Option<P> {
    if reference.kind != kind {
        return None;
    }
    lookup(&reference.name).filter(|parent| parent.meta().uid == reference.uid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

    struct Thing(Meta);

    impl HasMeta for Thing {
        fn meta(&self) -> &Meta {
            &self.0
        }
    }

    fn owner() -> Owner {
        let meta = Meta { namespace: "shop".into(), name: "web".into(), uid: Uid::new("U"), ..Meta::default() };
        Owner::new(REPLICA_SETS, &meta)
    }

    fn selector() -> Selector {
        Selector::from_value(&json!({"matchLabels": {"app": "web"}}))
    }

    #[derive(Clone, Copy, Debug)]
    struct Case {
        controller: Option<&'static str>,
        matches: bool,
        owner_deleting: bool,
        deleting: bool,
        elsewhere: bool,
    }

    const PLAIN: Case =
        Case { controller: None, matches: true, owner_deleting: false, deleting: false, elsewhere: false };

    fn verdict(case: Case) -> &'static str {
        let owner = Owner { is_deleting: case.owner_deleting, ..owner() };
        let reference = case.controller.map(|uid| OwnerRef {
            uid: Uid::new(uid),
            kind: "ReplicaSet".into(),
            controller: Some(true),
            ..OwnerRef::default()
        });
        let meta = Meta {
            namespace: if case.elsewhere { "other".into() } else { "shop".into() },
            labels: crate::intern::Labels::from_pairs(case.matches.then_some(("app", "web"))),
            owners: reference.into_iter().collect::<Vec<_>>().into(),
            deletion_timestamp: case.deleting.then(|| jiff::Timestamp::from_second(1).unwrap()),
            ..Meta::default()
        };
        let claims = claim_dependents(&owner, &selector(), [Thing(meta)], |_| true).unwrap();
        match (claims.to_keep.len(), claims.to_adopt.len(), claims.to_release.len()) {
            (0, 0, 0) => "ignore",
            (1, 0, 0) => "keep",
            (0, 1, 0) => "adopt",
            (0, 0, 1) => "release",
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn candidates_are_claimed_as_in_the_table() {
        for (case, want) in [
            (Case { controller: Some("other"), ..PLAIN }, "ignore"),
            (Case { controller: Some("other"), matches: false, ..PLAIN }, "ignore"),
            (Case { controller: Some("U"), ..PLAIN }, "keep"),
            (Case { controller: Some("U"), owner_deleting: true, ..PLAIN }, "keep"),
            (Case { controller: Some("U"), deleting: true, ..PLAIN }, "keep"),
            (Case { controller: Some("U"), matches: false, ..PLAIN }, "release"),
            (Case { controller: Some("U"), matches: false, deleting: true, ..PLAIN }, "release"),
            (Case { controller: Some("U"), matches: false, owner_deleting: true, ..PLAIN }, "ignore"),
            (Case { matches: false, ..PLAIN }, "ignore"),
            (PLAIN, "adopt"),
            (Case { owner_deleting: true, ..PLAIN }, "ignore"),
            (Case { deleting: true, ..PLAIN }, "ignore"),
            (Case { elsewhere: true, ..PLAIN }, "ignore"),
            (Case { controller: Some("U"), elsewhere: true, ..PLAIN }, "ignore"),
            (Case { controller: Some("U"), matches: false, elsewhere: true, ..PLAIN }, "ignore"),
        ] {
            assert_eq!(verdict(case), want, "{case:?}");
        }
    }

    #[test]
    fn an_object_whose_owner_is_not_its_controller_is_an_orphan() {
        let reference = OwnerRef { uid: Uid::new("U"), kind: "ReplicaSet".into(), ..OwnerRef::default() };
        let meta = Meta {
            namespace: "shop".into(),
            labels: crate::intern::Labels::from_pairs([("app", "web")]),
            owners: vec![reference].into(),
            ..Meta::default()
        };
        assert_eq!(claim_dependents(&owner(), &selector(), [Thing(meta)], |_| true).unwrap().to_adopt.len(), 1);
    }

    #[test]
    fn ineligible_objects_are_treated_as_not_matching() {
        let meta = || Meta {
            namespace: "shop".into(),
            labels: crate::intern::Labels::from_pairs([("app", "web")]),
            ..Meta::default()
        };
        let owned = Meta { owners: vec![owner().controller_reference()].into(), ..meta() };
        let claims = claim_dependents(&owner(), &selector(), [Thing(meta()), Thing(owned)], |_| false).unwrap();
        assert_eq!((claims.to_keep.len(), claims.to_adopt.len(), claims.to_release.len()), (0, 0, 1));
    }

    #[test]
    fn an_invalid_selector_claims_and_releases_nothing() {
        let broken = Selector::from_value(&json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]}));
        let owned = Meta { owners: vec![owner().controller_reference()].into(), ..Meta::default() };
        assert!(claim_dependents(&owner(), &broken, [Thing(owned)], |_| true).is_err());
    }

    #[test]
    fn patches_match_upstream() {
        let (owner, uid) = (owner(), Uid::new("POD"));
        let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "U",
            "controller": true, "blockOwnerDeletion": true});
        assert_eq!(
            owner.adoption_patch(&uid, &[]),
            json!({"metadata": {"ownerReferences": [reference], "uid": "POD"}})
        );
        assert_eq!(
            owner.adoption_patch(&uid, &["batch.kubernetes.io/job-tracking"]),
            json!({"metadata": {"ownerReferences": [reference], "uid": "POD",
                "finalizers": ["batch.kubernetes.io/job-tracking"]}})
        );
        assert_eq!(
            owner.release_patch(&uid, &[]),
            json!({"metadata": {"uid": "POD", "ownerReferences": [{"$patch": "delete", "uid": "U"}]}})
        );
        assert_eq!(
            owner.release_patch(&uid, &["batch.kubernetes.io/job-tracking"]),
            json!({"metadata": {"uid": "POD", "ownerReferences": [{"$patch": "delete", "uid": "U"}],
                "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"]}})
        );
    }

    #[test]
    fn a_reference_resolves_by_kind_name_and_uid() {
        let parent = || Thing(Meta { name: "web".into(), uid: Uid::new("U"), ..Meta::default() });
        let reference = owner().controller_reference();
        let by_name = |name: &str| (name == "web").then(parent);
        assert!(resolve_owner(&reference, "ReplicaSet", by_name).is_some());
        assert!(
            resolve_owner(&OwnerRef { api_version: "x/v9".into(), ..reference.clone() }, "ReplicaSet", by_name)
                .is_some()
        );
        assert!(resolve_owner(&reference, "Job", by_name).is_none());
        assert!(resolve_owner(&OwnerRef { name: "db".into(), ..reference.clone() }, "ReplicaSet", by_name).is_none());
        assert!(resolve_owner(&OwnerRef { uid: Uid::new("V"), ..reference }, "ReplicaSet", by_name).is_none());
    }

    proptest! {
        #[test]
        fn a_terminating_owner_only_keeps(
            controller in prop::option::of(prop::sample::select(vec!["U", "other"])),
            matches in any::<bool>(), deleting in any::<bool>(), elsewhere in any::<bool>(),
        ) {
            let case = Case { controller, matches, owner_deleting: true, deleting, elsewhere };
            prop_assert!(["keep", "ignore"].contains(&verdict(case)));
        }
    }
}
