//! What may change about a Pod once it exists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::{Bad, Errors, Path},
    pod_spec, syntax,
    value::{int, list, object, take, text},
};

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(errors: &mut Errors, new: &Value, old: &Value) {
    let (new, old) = (&new["spec"], &old["spec"]);
    let spec = Path::new("spec");
    for field in ["containers", "initContainers"] {
        if list(&new[field]).len() != list(&old[field]).len() {
            return errors.forbidden(&spec.child(field), "pod updates may not add or remove containers");
        }
    }
    let deadline = spec.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(seconds), Some(before)) if before < seconds => {
            return errors.invalid(&deadline, seconds, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            errors.invalid(&deadline, Bad::raw("null"), "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    validate_tolerations(errors, new, old, &spec.child("tolerations"));
    validate_gates(errors, new, old, &spec.child("schedulingGates"));
    if allow(new, old) != *old {
        errors.forbidden(&spec, MUTABLE);
    }
}

/// The new spec with everything that may change set back.
fn allow(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for field in ["containers", "initContainers"] {
        let images = list(&old[field]).iter().map(|container| container["image"].clone());
        if let Some(Value::Array(containers)) = spec.get_mut(field) {
            for (container, image) in containers.iter_mut().zip(images) {
                object(container).insert("image".to_owned(), image);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        take(&mut spec, old, field);
    }
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        take(&mut spec, old, "terminationGracePeriodSeconds");
    }
    // A Pod that waits for its gates may still be narrowed to fewer Nodes.
    if !list(&old["schedulingGates"]).is_empty() {
        take(&mut spec, old, "nodeSelector");
        take(&mut spec, old, "affinity");
    }
    spec
}

fn validate_tolerations(errors: &mut Errors, new: &Value, old: &Value, at: &Path<'_>) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object(&mut toleration).remove("tolerationSeconds");
        toleration
    };
    let (new, old) = (list(&new["tolerations"]), list(&old["tolerations"]));
    if new == old {
        return;
    }
    for held in old.iter().map(without_seconds) {
        if !new.iter().any(|toleration| without_seconds(toleration) == held) {
            return errors.forbidden(at, "existing toleration can not be modified except its tolerationSeconds");
        }
    }
}

fn validate_gates(errors: &mut Errors, new: &Value, old: &Value, at: &Path<'_>) {
    let held: BTreeSet<&str> = list(&old["schedulingGates"]).iter().map(|gate| text(&gate["name"])).collect();
    for (i, gate) in list(&new["schedulingGates"]).iter().map(|gate| text(&gate["name"])).enumerate() {
        if !held.contains(gate) {
            let message = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.forbidden(&at.index(i).child("name"), &message);
        }
    }
}

pub(super) fn validate_status(errors: &mut Errors, new: &Value, old: &Value) {
    pod_spec::validate_annotations(errors, new);
    let at = Path::new("status");
    let (new_status, old_status) = (&new["status"], &old["status"]);
    let conditions = at.child("conditions");
    for (i, condition) in list(&new_status["conditions"]).iter().enumerate() {
        let at = conditions.index(i);
        let generation = int(&condition["observedGeneration"]);
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(&condition["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.syntax(&at.child("Type"), kind, syntax::qualified_name(kind));
        }
    }
    validate_nomination(errors, new, old, &at.child("nominatedNodeName"));
    let generation = int(&new_status["observedGeneration"]);
    if generation < 0 {
        errors.invalid(&at.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    errors.immutable(&at.child("qosClass"), &new_status["qosClass"], &old_status["qosClass"]);
    for (field, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        validate_transitions(errors, new_status, old_status, field, &old["spec"], containers, &at.child(field));
    }
    let field = "ephemeralContainerStatuses";
    validate_transitions(errors, new_status, old_status, field, &Value::Null, "", &at.child(field));
    validate_claims(errors, new, &at.child("resourceClaimStatuses"));
    for field in ["podIPs", "hostIPs"] {
        validate_addresses(errors, new_status, old_status, field, &at.child(field));
    }
}

fn validate_nomination(errors: &mut Errors, new: &Value, old: &Value, at: &Path<'_>) {
    let (nominated, before) = (text(&new["status"]["nominatedNodeName"]), text(&old["status"]["nominatedNodeName"]));
    if nominated == before || nominated.is_empty() {
        return;
    }
    errors.syntax(at, nominated, syntax::subdomain(nominated));
    if !text(&old["spec"]["nodeName"]).is_empty() {
        errors.forbidden(at, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended stays so, unless it may be restarted.
fn validate_transitions(
    errors: &mut Errors,
    new: &Value,
    old: &Value,
    field: &str,
    spec: &Value,
    containers: &str,
    at: &Path<'_>,
) {
    if restarts_all(spec) {
        return;
    }
    for (i, before) in list(&old[field]).iter().enumerate() {
        let ended = &before["state"]["terminated"];
        let name = text(&before["name"]);
        let runs =
            list(&new[field]).iter().any(|now| text(&now["name"]) == name && !now["state"]["terminated"].is_object());
        if !ended.is_object() || !runs {
            continue;
        }
        let container = list(&spec[containers]).iter().find(|container| text(&container["name"]) == name);
        let allowed = container.is_some_and(|container| may_restart(container, spec, int(&ended["exitCode"])));
        if !allowed {
            errors.forbidden(&at.index(i).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

fn restarts_all(spec: &Value) -> bool {
    let rules = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| list(&spec[field]))
        .flat_map(|container| list(&container["restartPolicyRules"]));
    rules.into_iter().any(|rule| text(&rule["action"]) == "RestartAllContainers")
}

fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    for rule in list(&container["restartPolicyRules"]) {
        let listed = list(&rule["exitCodes"]["values"]).iter().any(|value| int(value) == code);
        if listed == (text(&rule["exitCodes"]["operator"]) == "In") {
            return text(&rule["action"]) == "Restart";
        }
    }
    match container["restartPolicy"].as_str().unwrap_or_else(|| text(&spec["restartPolicy"])) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

fn validate_claims(errors: &mut Errors, pod: &Value, at: &Path<'_>) {
    let claims: BTreeSet<&str> = list(&pod["spec"]["resourceClaims"]).iter().map(|c| text(&c["name"])).collect();
    for (i, status) in list(&pod["status"]["resourceClaimStatuses"]).iter().enumerate() {
        let at = at.index(i);
        let name = text(&status["name"]);
        if !claims.contains(name) {
            errors.invalid(&at.child("name"), name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            errors.syntax(&at.child("resourceClaimName"), claim, syntax::subdomain(claim));
        }
    }
}

fn validate_addresses(errors: &mut Errors, new: &Value, old: &Value, field: &str, at: &Path<'_>) {
    let (addresses, before) = (list(&new[field]), list(&old[field]));
    if field == "hostIPs"
        && let Some(first) = addresses.first()
        && text(&first["ip"]) != text(&new["hostIP"])
    {
        errors.invalid(&at.index(0).child("ip"), text(&first["ip"]), "must be equal to `hostIP`");
    }
    for (i, address) in addresses.iter().enumerate().filter(|(_, address)| !before.contains(address)) {
        if let Some(wrong) = syntax::ip_error(text(&address["ip"])) {
            errors.invalid(&at.index(i), text(&address["ip"]), wrong);
        }
    }
    let broken = addresses.iter().position(|address| text(&address["ip"]).parse::<std::net::IpAddr>().is_err());
    if let Some(i) = broken.filter(|_| addresses.len() > 1) {
        let message =
            format!("failed to check for dual stack with error:invalid IP[{i}]: {}", text(&addresses[i]["ip"]));
        errors.internal(at, &message);
    }
    let families: BTreeSet<bool> = addresses.iter().map(|address| text(&address["ip"]).contains(':')).collect();
    if addresses.len() > 1 && (families.len() != 2 || addresses.len() > 2) {
        let ips: Vec<String> = addresses.iter().map(|a| format!(r#"{{"IP":"{}"}}"#, text(&a["ip"]))).collect();
        let message = "may specify no more than one IP for each IP family";
        errors.invalid(at, Bad::raw(format!("[{}]", ips.join(","))), message);
    }
}
