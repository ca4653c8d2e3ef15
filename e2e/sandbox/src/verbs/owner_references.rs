//! The admission plugin `OwnerReferencesPermissionEnforcement`: which rights a change of owner references asks for.
//!
//! The plugin looks at every create and update, of subresources too, except updates of `pods/status`:
//!
//! - Any change of the list of owner references of an object that exists needs `delete` on that object (with the subresource of
//!   the request, if it has one). A create does not: a user that may create an object could as well not create it.
//! - A reference that sets `blockOwnerDeletion`, and did not before, needs `update` on the subresource `finalizers` of its owner,
//!   of every resource that serves the owner's kind. A reference is the same as before if its uid is.
//!
//! Upstream: `plugin/pkg/admission/gc`, `gc_admission.go`.

use serde_json::Value;

use crate::{
    api::{
        names::quoted,
        resource::{Registry, Resource},
    },
    store::{Store, audit::Author},
    value::object::{at, meta, text},
    verbs::{
        access::{Attributes, User},
        core::Core,
        status::{ApiError, ApiResult},
    },
};

/// An owner whose deletion a reference begins to block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Blocked {
    api_version: String,
    kind: String,
    name: String,
}

/// What the plugin finds changed in a write.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Whether the owner references of an object that exists change.
    of_existing: bool,
    /// The owners whose deletion is blocked from now on.
    blocked: Vec<Blocked>,
}

/// One owner reference as typed clients compare it.
#[derive(PartialEq, Eq)]
struct Reference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

impl<'a> Reference<'a> {
    fn of(reference: &'a Value) -> Self {
        Self {
            api_version: text(reference, &["apiVersion"]),
            kind: text(reference, &["kind"]),
            name: text(reference, &["name"]),
            uid: text(reference, &["uid"]),
            controller: at(reference, &["controller"]).as_bool(),
            block_owner_deletion: at(reference, &["blockOwnerDeletion"]).as_bool(),
        }
    }

    fn all(object: &'a Value) -> Vec<Self> {
        let list = at(object, &["metadata", "ownerReferences"]).as_array();
        list.into_iter().flatten().map(Self::of).collect()
    }

    fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

impl Changes {
    /// What a write changes; `old` is nothing if it creates the object.
    fn between(old: Option<&Value>, new: &Value) -> Self {
        let old_references = old.map(Reference::all);
        let old = old_references.as_deref().unwrap_or_default();
        let new = Reference::all(new);
        if new == old {
            return Self::default();
        }
        let is_new = |reference: &&Reference<'_>| {
            // As a map by uid has it: the last of several counts.
            let before = old.iter().rfind(|before| before.uid == reference.uid);
            reference.blocks() && !before.is_some_and(Reference::blocks)
        };
        let blocked = |reference: &Reference<'_>| Blocked {
            api_version: reference.api_version.into(),
            kind: reference.kind.into(),
            name: reference.name.into(),
        };
        Self { of_existing: old_references.is_some(), blocked: new.iter().filter(is_new).map(blocked).collect() }
    }
}

impl Blocked {
    /// The resources that serve the owner's kind.
    fn resources<'r>(&self, registry: &'r Registry) -> Vec<&'r Resource> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        registry.of_version(group, version).map(|r| &**r).filter(|resource| *resource.kind == *self.kind).collect()
    }
}

/// Whether the plugin skips a request: old kubelets corrupt owner references in the status of Pods, and the server keeps the
/// stored ones.
fn is_exempt(group: &str, plural: &str, sub: Option<&str>) -> bool {
    (group, plural, sub) == ("", "pods", Some("status"))
}

impl Core {
    /// Refuses a change of owner references whose author lacks a right to it.
    pub(crate) fn check_owner_references(
        &self,
        store: &Store,
        author: &Author<'_>,
        resource: &Resource,
        namespace: Option<&str>,
        (old, new): (Option<&Value>, &Value),
    ) -> ApiResult<()> {
        if !self.setup.owner_references || is_exempt(&resource.group, &resource.plural, author.sub) {
            return Ok(());
        }
        let changes = Changes::between(old, new);
        let (user, name) = (User::of(author.identity), meta(new, "name"));
        let refuse = |why: String| {
            let message = format!("{} {} is forbidden: {why}", resource.qualified(), quoted(name));
            Err(ApiError::forbidden(resource.details(name), message))
        };
        let delete = Attributes {
            verb: "delete",
            group: &resource.group,
            resource: &resource.plural,
            sub: author.sub,
            namespace,
            name: Some(name),
        };
        // What follows the colon is what the authorizer gives as its reason, and as its error.
        if changes.of_existing && !self.access.authorizes(store, &user, &delete) {
            return refuse("cannot set an ownerRef on a resource you can't delete: , <nil>".to_owned());
        }
        if changes.blocked.is_empty() {
            return Ok(());
        }
        // With the right to all finalizers, the right to those of each owner is still asked for, so that it is recorded.
        let update = Attributes { verb: "update", sub: Some("finalizers"), ..Attributes::default() };
        let anything = Attributes { group: "*", resource: "*", name: Some("*"), ..update };
        let blocks_any_owner = self.access.may(store, &user, &anything);
        let registry = self.registry();
        for owner in &changes.blocked {
            let Blocked { api_version, kind, name } = owner;
            let resources = owner.resources(&registry);
            if resources.is_empty() && !blocks_any_owner {
                return refuse(format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: no matches for kind {} in version {}",
                    quoted(kind),
                    quoted(api_version)
                ));
            }
            let is_allowed = |owner: &&Resource| {
                let namespace = namespace.filter(|_| owner.namespaced);
                let (group, resource) = (&*owner.group, &*owner.plural);
                let wanted = Attributes { group, resource, namespace, name: Some(name), ..update };
                self.access.authorizes(store, &user, &wanted)
            };
            if !resources.iter().all(is_allowed) {
                return refuse("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(references: Value) -> Value {
        json!({"metadata": {"name": "x", "ownerReferences": references}})
    }

    fn reference(uid: &str, blocks: Value) -> Value {
        let mut reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid});
        if !blocks.is_null() {
            reference["blockOwnerDeletion"] = blocks;
        }
        reference
    }

    /// Whether a write changes references of an object that exists, and how many owners it blocks.
    fn changes(old: Option<Value>, new: Value) -> (bool, usize) {
        let changes = Changes::between(old.map(object).as_ref(), &object(new));
        (changes.of_existing, changes.blocked.len())
    }

    #[test]
    fn any_difference_between_two_lists_is_a_change() {
        let [plain, free, blocks] = [json!(null), json!(false), json!(true)];
        let [a, b] = ["a", "b"].map(|uid| reference(uid, json!(null)));
        assert_eq!(changes(None, json!([])), (false, 0));
        assert_eq!(changes(None, json!([a])), (false, 0), "a create may set owners that are not blocked");
        assert_eq!(changes(None, json!([reference("a", blocks.clone())])), (false, 1));
        assert_eq!(changes(Some(json!([])), json!(null)), (false, 0), "no list is an empty list");
        assert_eq!(changes(Some(json!([a])), json!([a])), (false, 0));
        assert_eq!(changes(Some(json!([a])), json!([])), (true, 0));
        assert_eq!(changes(Some(json!([a, b])), json!([b, a])), (true, 0), "the order counts");
        assert_eq!(changes(Some(json!([a])), json!([reference("a", free)])), (true, 0), "false is not nothing");
        assert_eq!(changes(Some(json!([a])), json!([reference("a", blocks.clone())])), (true, 1));
        assert_eq!(changes(Some(json!([reference("a", blocks.clone())])), json!([reference("a", plain)])), (true, 0));
        let blocked = reference("a", blocks);
        assert_eq!(changes(Some(json!([blocked])), json!([blocked, b])), (true, 0), "the old one blocked before");
    }

    #[test]
    fn a_reference_is_known_by_its_uid() {
        let old = reference("a", json!(true));
        let mut renamed = old.clone();
        renamed["name"] = json!("other");
        assert_eq!(changes(Some(json!([old])), json!([renamed])), (true, 0));
        assert_eq!(changes(Some(json!([old])), json!([reference("b", json!(true))])), (true, 1));
    }
}
