//! Kinds that are stored and shown, and little else.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    behaviour::Behaviour,
    schema, services, strategy,
    value::{child, for_each_object_in_list, insert_default, list, object, text, with_object_in_field, yes},
};

pub(super) fn signing_request() -> Behaviour {
    Behaviour {
        cell: Some(|request, _, column| (column == "Condition").then(|| signing_state(request).into())),
        ..Behaviour::default()
    }
}

pub(super) fn resource_claim() -> Behaviour {
    Behaviour {
        cell: Some(|claim, _, column| (column == "State").then(|| claim_state(claim).into())),
        ..Behaviour::default()
    }
}

pub(super) fn ingress() -> Behaviour {
    Behaviour {
        cell: Some(|ingress, _, column| match column {
            "Hosts" => Some(hosts_cell(ingress).into()),
            "Address" => Some(services::ingress_points(ingress).into_iter().collect::<Vec<_>>().join(",").into()),
            _ => None,
        }),
        ..Behaviour::default()
    }
}

pub(super) fn ingress_class() -> Behaviour {
    Behaviour { cell: Some(name_of_class), ..Behaviour::default() }
}

pub(super) fn storage_class() -> Behaviour {
    Behaviour { cell: Some(name_of_class), ..Behaviour::default() }
}

pub(super) fn attributes_class() -> Behaviour {
    Behaviour {
        prepare_create: Some(|class, _| strategy::add_finalizer(class, "kubernetes.io/vac-protection")),
        ..Behaviour::default()
    }
}

/// `csidrivers`: their generation counts from the first update.
pub(super) fn driver() -> Behaviour {
    Behaviour {
        prepare_update: Some(|new, old, _| strategy::update("storage/v1.CSIDriver", new, old, true)),
        ..Behaviour::default()
    }
}

pub(super) fn network_policy() -> Behaviour {
    Behaviour {
        default: Some(|policy| {
            with_object_in_field(object(policy), "spec", |spec| {
                let both = spec.get("egress").is_some_and(|rules| !list(rules).is_empty());
                insert_default(
                    spec,
                    "policyTypes",
                    if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) },
                );
            });
        }),
        ..Behaviour::default()
    }
}

pub(super) fn role_binding() -> Behaviour {
    Behaviour {
        default: Some(|binding| {
            for_each_object_in_list(object(binding), "subjects", |subject| {
                if matches!(subject.get("kind").map(text), Some("User" | "Group")) {
                    insert_default(subject, "apiGroup", "rbac.authorization.k8s.io");
                }
            });
        }),
        validate: Some(|errors, new, old| {
            if !old.is_null() && new["roleRef"] != old["roleRef"] {
                errors.invalid(&"roleRef", &new["roleRef"], "cannot change roleRef");
            }
        }),
        cell: Some(subjects_cell),
        ..Behaviour::default()
    }
}

pub(super) fn definition() -> Behaviour {
    Behaviour {
        default: Some(default_definition),
        prepare_create: Some(|definition, _| {
            strategy::create("apiextensions/v1.CustomResourceDefinition", definition, true);
            default_stored_versions(definition);
        }),
        ..Behaviour::default()
    }
}

fn default_definition(definition: &mut Value) {
    with_object_in_field(child(definition, "spec"), "names", |names| {
        let kind = names.get("kind").map(text).unwrap_or_default().to_owned();
        insert_default(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            insert_default(names, "listKind", format!("{kind}List"));
        }
    });
    default_stored_versions(definition);
}

/// The version that is stored is one that was stored.
fn default_stored_versions(definition: &mut Value) {
    let stored = list(&definition["spec"]["versions"]).iter().find(|version| yes(&version["storage"]));
    let Some(stored) = stored.map(|version| version["name"].clone()) else { return };
    let status = object(definition)
        .entry("status")
        .or_insert_with(|| schema::zero("apiextensions/v1.CustomResourceDefinitionStatus"));
    if list(&status["storedVersions"]).is_empty() {
        object(status).insert("storedVersions".to_owned(), json!([stored]));
    }
}

fn name_of_class(class: &Value, _: Timestamp, column: &str) -> Option<Value> {
    const DEFAULT: [&str; 3] = [
        "ingressclass.kubernetes.io/is-default-class",
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let annotations = &class["metadata"]["annotations"];
    let default = DEFAULT.iter().any(|annotation| text(&annotations[*annotation]) == "true");
    let name = text(&class["metadata"]["name"]);
    (column == "Name" && default).then(|| format!("{name} (default)").into())
}

fn hosts_cell(ingress: &Value) -> String {
    let rules = list(&ingress["spec"]["rules"]);
    const MOST: usize = 3;
    let mut hosts: Vec<&str> = vec![];
    let mut more = false;
    for host in rules.iter().map(|rule| text(&rule["host"])) {
        more |= hosts.len() == MOST;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - MOST),
        (false, false) => hosts.join(","),
    }
}

fn subjects_cell(binding: &Value, _: Timestamp, column: &str) -> Option<Value> {
    let kind = ["User", "Group", "ServiceAccount"].into_iter().find(|kind| column.strip_suffix('s') == Some(kind))?;
    let shown: Vec<String> = list(&binding["subjects"])
        .iter()
        .filter(|subject| text(&subject["kind"]) == kind)
        .map(|subject| match (kind, text(&subject["namespace"])) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        })
        .collect();
    Some(shown.join(", ").into())
}

fn signing_state(request: &Value) -> String {
    let has = |kind: &str| list(&request["status"]["conditions"]).iter().any(|c| text(&c["type"]) == kind);
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&request["status"]["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim["metadata"]["deletionTimestamp"].is_string();
    let mut states = vec![];
    if deleted {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if !list(&claim["status"]["reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    states.join(",")
}
