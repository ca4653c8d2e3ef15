//! The page of rights, from the manifests of `deploy/controllers`.

use std::io;

use kubectl_nonet::controllers::ALL;
use serde_json::Value;

use super::markdown::{codes, head, plain, section, table};
use crate::generate;

const INTRODUCTION: &str = "What the ServiceAccount of each controller may do, from `deploy/controllers/NAME/rbac.yaml`. Rules of the \
    ClusterRole apply to all namespaces. Rules of the Role apply to the namespace of the controller, in which its Lease is. The \
    reason is the comment above a rule in the manifest; it can be true of the rules below it, too. Shadows have ClusterRoles of their \
    own, which only read (`deploy/shadows`), and the component `gang-scheduling` adds a rule to job-controller.";

/// A document of a manifest that is a role, with the reason of each rule.
struct Role {
    kind: String,
    rules: Vec<(Value, String)>,
}

fn roles(manifest: &str) -> Result<Vec<Role>, String> {
    let mut roles = Vec::new();
    for document in manifest.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).map_err(|error| error.to_string())?;
        let Some(rules) = object["rules"].as_array() else { continue };
        let reasons = reasons(document);
        if reasons.len() != rules.len() {
            return Err("a rule does not begin with `  - apiGroups:`".to_owned());
        }
        let rules = rules.iter().cloned().zip(reasons).collect();
        roles.push(Role { kind: object["kind"].as_str().unwrap_or_default().to_owned(), rules });
    }
    Ok(roles)
}

fn reasons(document: &str) -> Vec<String> {
    let (mut reasons, mut comment): (Vec<String>, Vec<&str>) = Default::default();
    for line in document.lines() {
        if let Some(text) = line.strip_prefix("  # ") {
            comment.push(text);
        } else {
            if line.starts_with("  - apiGroups:") {
                reasons.push(comment.join(" "));
            }
            comment.clear();
        }
    }
    reasons
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn row((rule, reason): &(Value, String)) -> Vec<String> {
    let resources = codes(strings(&rule["resources"]));
    let names = codes(strings(&rule["resourceNames"]));
    vec![
        codes(strings(&rule["apiGroups"]).into_iter().map(|name| if name.is_empty() { "core" } else { name })),
        if names.is_empty() { resources } else { format!("{resources} named {names}") },
        codes(strings(&rule["verbs"])),
        plain(reason),
    ]
}

pub(super) fn page() -> io::Result<String> {
    let mut text = head("Rights", INTRODUCTION);
    for controller in ALL {
        let manifest = generate::rbac(controller)?;
        let roles = roles(&manifest).map_err(|why| io::Error::other(format!("{}: {why}", controller.name)))?;
        let of_role = |role: &Role| {
            let rows: Vec<_> = role.rules.iter().map(row).collect();
            format!("{}:\n\n{}", role.kind, table(&["API groups", "resources", "verbs", "reason"], &rows))
        };
        let content: Vec<String> = roles.iter().map(of_role).collect();
        section(&mut text, &format!("## {}", controller.name), &content.join("\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_the_comment_above_it() {
        let manifest = "kind: ClusterRole\nrules:\n  # For one\n  # reason.\n  - apiGroups: [\"\"]\n    resources: [pods]\n    \
            verbs: [get]\n  - apiGroups: [apps]\n    resources: [deployments]\n    resourceNames: [web]\n    verbs: [list]\n---\nkind: X\n";
        let roles = roles(manifest).unwrap();
        let rows: Vec<_> = roles.iter().flat_map(|role| &role.rules).map(row).collect();
        assert_eq!(rows[0], ["`core`", "`pods`", "`get`", "For one reason."]);
        assert_eq!(rows[1], ["`apps`", "`deployments` named `web`", "`list`", ""]);
    }
}
