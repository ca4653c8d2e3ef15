//! Roles and their bindings.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    FieldError, NameRule,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::{Bad, Errors, Path},
    syntax,
    table::{age, name, name_and_created},
    value::{for_each_object_in_list, insert_default, list, object, text, with_object_in_field},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// `roles`.
pub(super) const ROLE: Behaviour = behaviour!("rbac.Role", plain,
    name: NameRule::PathSegment,
    create_on_update: true,
    validate_create: |role| validate_rules(role, true),
    validate_update: |new, _| validate_rules(new, true),
    row: name_and_created,
);

/// `clusterroles`.
pub(super) const CLUSTER_ROLE: Behaviour = behaviour!("rbac.ClusterRole", plain,
    name: NameRule::PathSegment,
    create_on_update: true,
    validate_create: |role| validate_rules(role, false),
    validate_update: |new, _| validate_rules(new, false),
    row: name_and_created,
);

/// `rolebindings`.
pub(super) const ROLE_BINDING: Behaviour = behaviour!("rbac.RoleBinding", plain,
    default: |binding| default_binding("rbac.RoleBinding", binding),
    name: NameRule::PathSegment,
    create_on_update: true,
    validate_create: |binding| validate_binding(binding, &["Role", "ClusterRole"]).into_list(),
    validate_update: |new, old| validate_binding_update(new, old, &["Role", "ClusterRole"]),
    row: binding_row,
);

/// `clusterrolebindings`.
pub(super) const CLUSTER_ROLE_BINDING: Behaviour = behaviour!("rbac.ClusterRoleBinding", plain,
    default: |binding| default_binding("rbac.ClusterRoleBinding", binding),
    name: NameRule::PathSegment,
    create_on_update: true,
    validate_create: |binding| validate_binding(binding, &["ClusterRole"]).into_list(),
    validate_update: |new, old| validate_binding_update(new, old, &["ClusterRole"]),
    row: binding_row,
);

fn default_binding(id: &str, binding: &mut Value) {
    canonicalize(id, binding);
    let map = object(binding);
    with_object_in_field(map, "roleRef", |role| {
        if role.get("apiGroup").map(text).unwrap_or_default().is_empty() {
            role.insert("apiGroup".to_owned(), GROUP.into());
        }
    });
    for_each_object_in_list(map, "subjects", |subject: &mut Map<String, Value>| {
        if matches!(subject.get("kind").map(text), Some("User" | "Group")) {
            insert_default(subject, "apiGroup", GROUP);
        }
    });
}

fn validate_rules(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("rules");
    for (i, rule) in list(&role["rules"]).iter().enumerate() {
        let at = at.index(i);
        if list(&rule["verbs"]).is_empty() {
            errors.required(&at.child("verbs"), "verbs must contain at least one value");
        }
        let [urls, groups, resources] = ["nonResourceURLs", "apiGroups", "resources"].map(|field| list(&rule[field]));
        if !urls.is_empty() {
            let at = at.child("nonResourceURLs");
            if namespaced {
                errors.invalid(&at, &rule["nonResourceURLs"], "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !list(&rule["resourceNames"]).is_empty() {
                let message = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&at, &rule["nonResourceURLs"], message);
            }
            continue;
        }
        if groups.is_empty() {
            errors.required(&at.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            errors.required(&at.child("resources"), "resource rules must supply at least one resource");
        }
    }
    errors.into_list()
}

fn validate_binding(binding: &Value, kinds: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let namespaced = binding["metadata"]["namespace"].is_string();
    let role = &binding["roleRef"];
    let at = Path::new("roleRef");
    if text(&role["apiGroup"]) != GROUP {
        errors.not_supported(&at.child("apiGroup"), text(&role["apiGroup"]), &[GROUP]);
    }
    let kind = text(&role["kind"]);
    if !kinds.contains(&kind) {
        errors.not_supported(&at.child("kind"), kind, kinds);
    }
    if text(&role["name"]).is_empty() {
        errors.required(&at.child("name"), "");
    }
    let at = Path::new("subjects");
    for (i, subject) in list(&binding["subjects"]).iter().enumerate() {
        let at = at.index(i);
        let (kind, group) = (text(&subject["kind"]), text(&subject["apiGroup"]));
        if text(&subject["name"]).is_empty() {
            errors.required(&at.child("name"), "");
        }
        match kind {
            "ServiceAccount" => {
                let name = text(&subject["name"]);
                if !name.is_empty() {
                    errors.syntax(&at.child("name"), name, syntax::subdomain(name));
                }
                if !group.is_empty() {
                    errors.not_supported(&at.child("apiGroup"), group, &[""]);
                }
                if !namespaced && text(&subject["namespace"]).is_empty() {
                    errors.required(&at.child("namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.not_supported(&at.child("apiGroup"), group, &[GROUP]);
                }
            }
            kind => errors.not_supported(&at.child("kind"), kind, &["ServiceAccount", "User", "Group"]),
        }
    }
    errors
}

fn validate_binding_update(new: &Value, old: &Value, kinds: &[&str]) -> Vec<FieldError> {
    let mut errors = validate_binding(new, kinds);
    if new["roleRef"] != old["roleRef"] {
        let role = &new["roleRef"];
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| text(&role[field]));
        let shown = format!(r#"{{"APIGroup":"{group}","Kind":"{kind}","Name":"{name}"}}"#);
        errors.invalid(&"roleRef", Bad::raw(shown), "cannot change roleRef");
    }
    errors.into_list()
}

fn binding_row(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = &binding["roleRef"];
    let subjects = |kind: &str| {
        let shown: Vec<String> = list(&binding["subjects"])
            .iter()
            .filter(|subject| text(&subject["kind"]) == kind)
            .map(|subject| match (kind, text(&subject["namespace"])) {
                ("ServiceAccount", namespace) => format!("{namespace}/{}", text(&subject["name"])),
                _ => text(&subject["name"]).to_owned(),
            })
            .collect();
        Value::from(shown.join(", "))
    };
    vec![
        name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
