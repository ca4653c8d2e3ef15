//! `StatefulSets` and `ControllerRevisions`.

use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    claims,
    errors::{Errors, Path},
    pod_defaults, strategy, syntax,
    value::{child, insert_default, list, object, take, text, with_object_in_field, yes},
    workloads,
};

pub(super) fn stateful_set() -> Behaviour {
    Behaviour {
        default: Some(default),
        prepare_create: Some(prepare_create),
        prepare_update: Some(prepare_update),
        validate: Some(validate),
        validate_status: Some(validate_status),
        ..Behaviour::default()
    }
}

pub(super) fn revision() -> Behaviour {
    Behaviour {
        validate: Some(validate_revision),
        cell: Some(|revision, _, column| (column == "Controller").then(|| controller_cell(revision).into())),
        ..Behaviour::default()
    }
}

fn default(set: &mut Value) {
    pod_defaults::in_spec(set);
    with_object_in_field(object(set), "spec", |spec| {
        if let Some(Value::Array(templates)) = spec.get_mut("volumeClaimTemplates") {
            for claim in templates {
                insert_default(object(claim), "apiVersion", "v1");
                insert_default(object(claim), "kind", "PersistentVolumeClaim");
                with_object_in_field(object(claim), "spec", pod_defaults::claim_spec);
            }
        }
        with_object_in_field(spec, "updateStrategy", |update| {
            if !update.contains_key("type") {
                insert_default(update, "type", "RollingUpdate");
                insert_default(update, "rollingUpdate", json!({"partition": 0}));
            }
        });
    });
}

/// A server without the feature does not keep `maxUnavailable`; one with it fills it in.
fn settle_max_unavailable(new: &mut Value, old: &Value, env: &Env<'_>) {
    let on = (env.gate)("MaxUnavailableStatefulSet");
    let in_use = old["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable").is_some();
    with_object_in_field(child(new, "spec"), "updateStrategy", |update| {
        with_object_in_field(update, "rollingUpdate", |rolling| {
            if on {
                insert_default(rolling, "maxUnavailable", 1);
            } else if !in_use {
                rolling.remove("maxUnavailable");
            }
        });
    });
}

fn prepare_create(set: &mut Value, env: &Env<'_>) {
    strategy::create("apps/v1.StatefulSet", set, true);
    settle_max_unavailable(set, &Value::Null, env);
}

fn prepare_update(new: &mut Value, old: &Value, env: &Env<'_>) {
    settle_max_unavailable(new, old, env);
    strategy::update("apps/v1.StatefulSet", new, old, true);
}

/// What of a set's spec may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn validate(errors: &mut Errors, set: &Value, old: &Value) {
    let spec = &set["spec"];
    let at = Path::new("spec");
    let policy = text(&spec["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&policy) {
        errors.invalid(&at.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'");
    }
    validate_strategy(errors, &spec["updateStrategy"], &at.child("updateStrategy"));
    workloads::validate(errors, spec, "statefulset");
    if old.is_null() {
        let claims_at = at.child("volumeClaimTemplates");
        for (i, claim) in list(&spec["volumeClaimTemplates"]).iter().enumerate() {
            claims::validate_spec(errors, &claim["spec"], &claims_at.index(i).child("spec"));
        }
        let service = text(&spec["serviceName"]);
        if !service.is_empty() {
            errors.syntax(&at.child("serviceName"), service, syntax::label(service));
        }
        return;
    }
    let mut allowed = spec.clone();
    for field in MUTABLE {
        take(&mut allowed, &old["spec"], field);
    }
    if allowed != old["spec"] {
        errors.forbidden(&at, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
}

fn validate_strategy(errors: &mut Errors, update: &Value, at: &Path<'_>) {
    let rolling = &update["rollingUpdate"];
    let rolling_at = at.child("rollingUpdate");
    match text(&update["type"]) {
        "OnDelete" if rolling.is_object() => {
            errors.invalid(&rolling_at, rolling, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let most = &rolling["maxUnavailable"];
            if !most.is_null() {
                let at = rolling_at.child("maxUnavailable");
                workloads::validate_int_or_percent(errors, most, &at);
                if workloads::int_or_percents(most) == 0 {
                    errors.invalid(&at, most, "cannot be 0");
                }
                workloads::validate_at_most_all(errors, most, &at);
            }
        }
        _ => errors.invalid(at, update, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn validate_status(errors: &mut Errors, new: &Value, old: &Value) {
    let most = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    workloads::validate_at_most_replicas(errors, &new["status"], &most);
    workloads::validate_available(errors, &new["status"], "status.readyReplicas");
    workloads::validate_collisions(errors, new, old);
}

fn validate_revision(errors: &mut Errors, revision: &Value, old: &Value) {
    match &revision["data"] {
        Value::Object(_) => {}
        _ if !old.is_null() => {}
        Value::Null => errors.required(&"data", "data is mandatory"),
        _ => errors.required(&"data", "data must be a valid JSON object"),
    }
}

fn controller_cell(revision: &Value) -> String {
    let owner = list(&revision["metadata"]["ownerReferences"]).iter().find(|owner| yes(&owner["controller"]));
    owner.map_or("<none>".to_owned(), |owner| {
        let kind = text(&owner["kind"]).to_lowercase();
        let group = text(&owner["apiVersion"]).rsplit_once('/').map(|(group, _)| group);
        let kind = group.map_or(kind.clone(), |group| format!("{kind}.{group}"));
        format!("{kind}/{}", text(&owner["name"]))
    })
}
