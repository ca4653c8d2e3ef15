//! Roles that grant more than their writer may do: such a write needs the verb `escalate` on the role, beside its own verb.
//!
//! Upstream: `pkg/registry/rbac/clusterrole/policybased`, `Storage`, and `ConfirmNoEscalation`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    api::{
        names::quoted,
        resource::{Key, Resource},
    },
    store::{Store, audit::Author},
    value::object::{at, meta},
    verbs::{
        access::{Attributes, PolicyRule, User, rules_of_role},
        core::Core,
        status::{ApiError, ApiResult},
    },
};

/// Whether a write changes only what the garbage collector writes. That needs no rights beyond those of the write.
fn changes_only_ownership(old: &Value, new: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !["ownerReferences", "finalizers", "managedFields"].contains(&&**field));
        }
        object
    };
    without(old) == without(new)
}

fn is_aggregated(role: &Value) -> bool {
    at(role, &["aggregationRule", "clusterRoleSelectors"]).as_array().is_some_and(|selectors| !selectors.is_empty())
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" "))
}

/// The rights that `wanted` grants and `held` does not, as the server prints them: one line for each resource or path.
fn missing_rights(held: &[PolicyRule], wanted: &[PolicyRule]) -> BTreeSet<String> {
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let parts = wanted.iter().flat_map(PolicyRule::parts);
    for part in parts.filter(|part| !held.iter().any(|held| held.covers(part))) {
        let lists = [
            ("APIGroups", &part.groups),
            ("Resources", &part.resources),
            ("NonResourceURLs", &part.urls),
            ("ResourceNames", &part.names),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let target: Vec<String> = lists.map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
        missing.entry(target.join(", ")).or_default().extend(part.verbs);
    }
    missing.into_iter().map(|(target, verbs)| format!("{{{target}, Verbs:{}}}", quoted_list(&verbs))).collect()
}

impl Core {
    /// Refuses a role that its author may not grant. `old` is nothing if the write creates the role.
    pub(crate) fn check_escalation(
        &self,
        store: &Store,
        author: &Author<'_>,
        resource: &Resource,
        key: &Key,
        (old, new): (Option<&Value>, &Value),
    ) -> ApiResult<()> {
        let (group, plural) = (&*resource.group, &*resource.plural);
        let (user, namespace) = (User::of(author.identity), key.namespace());
        let name = Some(key.name()).filter(|name| !name.is_empty());
        let escalate = Attributes { verb: "escalate", group, resource: plural, sub: None, namespace, name };
        if group != "rbac.authorization.k8s.io"
            || !["clusterroles", "roles"].contains(&plural)
            || old.is_some_and(|old| changes_only_ownership(old, new))
            || self.access.authorizes(store, &user, &escalate)
        {
            return Ok(());
        }
        let held = self.access.rules_of(store, &user, namespace);
        let missing = missing_rights(&held, &rules_of_role(new));
        let every_right = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]}]});
        let why = if !missing.is_empty() {
            let lines = missing.into_iter().collect::<Vec<_>>().join("\n");
            let (name, groups) = (quoted(&user.name), quoted_list(&user.groups));
            format!(
                "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}"
            )
        } else if (is_aggregated(new) || old.is_some_and(is_aggregated))
            && !missing_rights(&held, &rules_of_role(&every_right)).is_empty()
        {
            "must have cluster-admin privileges to use the aggregationRule".to_owned()
        } else {
            return Ok(());
        };
        let name = meta(new, "name");
        let message = format!("{} {} is forbidden: {why}", resource.qualified(), quoted(name));
        Err(ApiError::forbidden(resource.details(name), message))
    }
}
