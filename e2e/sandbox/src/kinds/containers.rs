//! Validation of the containers of a Pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    environment,
    errors::{Errors, Path},
    pod_security, probes, resources, syntax,
    value::{entries, int, list, text, yes},
    volumes::{self, Volumes},
};

/// The Pod around a container.
pub(super) struct Surroundings<'a> {
    /// The Pod's spec.
    pub(super) spec: &'a Value,
    /// Its volumes that are in order.
    pub(super) volumes: &'a Volumes<'a>,
    /// Names of its resource claims.
    pub(super) claims: &'a BTreeSet<&'a str>,
    /// Its grace period.
    pub(super) grace: Option<i64>,
}

/// Validates the regular containers.
pub(super) fn validate(errors: &mut Errors, pod: &Surroundings<'_>, at: &Path<'_>) {
    let at = at.child("containers");
    let containers = list(&pod.spec["containers"]);
    if containers.is_empty() {
        return errors.required(&at, "");
    }
    let mut names = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        validate_common(errors, pod, container, &at);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        probes::validate_all(errors, container, pod, &at);
        validate_restart_rules(errors, container, &at);
    }
    let mut ports = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        validate_host_ports(errors, container, &mut ports, &at.index(i));
    }
}

/// Validates the init containers.
pub(super) fn validate_init(errors: &mut Errors, pod: &Surroundings<'_>, at: &Path<'_>) {
    let containers = list(&pod.spec["initContainers"]);
    if containers.is_empty() {
        return;
    }
    let at = at.child("initContainers");
    let mut names: BTreeSet<&str> = list(&pod.spec["containers"]).iter().map(|c| text(&c["name"])).collect();
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        validate_common(errors, pod, container, &at);
        validate_restart_rules(errors, container, &at);
        let name = text(&container["name"]);
        if names.contains(name) {
            errors.duplicate(&at.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        validate_host_ports(errors, container, &mut BTreeSet::new(), &at);
        if text(&container["restartPolicy"]) == "Always" {
            probes::validate_all(errors, container, pod, &at);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container[field].is_object() {
                    let message = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&at.child(field), message);
                }
            }
        }
    }
}

/// What an ephemeral container may have.
const EPHEMERAL: [&str; 22] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "resizePolicy",
    "ports",
];

/// Validates the ephemeral containers.
pub(super) fn validate_ephemeral(errors: &mut Errors, pod: &Surroundings<'_>, at: &Path<'_>) {
    let containers = list(&pod.spec["ephemeralContainers"]);
    if containers.is_empty() {
        return;
    }
    let at = at.child("ephemeralContainers");
    let others = list(&pod.spec["containers"]).iter().chain(list(&pod.spec["initContainers"]));
    let targets: BTreeSet<&str> = others.map(|container| text(&container["name"])).collect();
    let mut names = targets.clone();
    for (i, container) in containers.iter().enumerate() {
        let at = at.index(i);
        validate_common(errors, pod, container, &at);
        validate_image_padding(errors, container, &at);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !targets.contains(target) {
            errors.not_found(&at.child("targetContainerName"), target);
        }
        let refused = ["ports", "resizePolicy", "restartPolicy", "restartPolicyRules"];
        for (field, value) in entries(container) {
            let empty_resources = field == "resources" && entries(value).next().is_none();
            if !EPHEMERAL.contains(&field) || refused.contains(&field) || (field == "resources" && !empty_resources) {
                errors.forbidden(&at.child(field), "cannot be set for an Ephemeral Container");
            }
        }
        let mounts = at.child("volumeMounts");
        for (j, mount) in list(&container["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    errors.forbidden(&mounts.index(j).child(field), "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// An image's name may be padded in templates, but not in Pods.
pub(super) fn validate_image_padding(errors: &mut Errors, container: &Value, at: &Path<'_>) {
    let image = text(&container["image"]);
    if image.trim().len() != image.len() {
        errors.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn validate_common(errors: &mut Errors, pod: &Surroundings<'_>, container: &Value, at: &Path<'_>) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else {
        errors.syntax(&at.child("name"), name, syntax::label(name));
    }
    if text(&container["image"]).is_empty() {
        errors.required(&at.child("image"), "");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.one_of(&at.child("terminationMessagePolicy"), text(&container["terminationMessagePolicy"]), &policies);
    validate_ports(errors, list(&container["ports"]), &at.child("ports"));
    environment::validate(errors, list(&container["env"]), pod, &at.child("env"));
    environment::validate_sources(errors, list(&container["envFrom"]), &at.child("envFrom"));
    volumes::validate_mounts(errors, container, pod.volumes, at);
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.one_of(&at.child("imagePullPolicy"), text(&container["imagePullPolicy"]), &policies);
    resources::validate(errors, &container["resources"], pod.claims, &at.child("resources"));
    validate_resize_policy(errors, container, text(&pod.spec["restartPolicy"]), &at.child("resizePolicy"));
    pod_security::validate_container(errors, &container["securityContext"], &at.child("securityContext"));
}

fn validate_ports(errors: &mut Errors, ports: &[Value], at: &Path<'_>) {
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let wrong = syntax::port_name(name);
            if wrong.is_empty() {
                if !names.insert(name) {
                    errors.duplicate(&at.child("name"), name);
                }
            } else {
                errors.syntax(&at.child("name"), name, wrong);
            }
        }
        match int(&port["containerPort"]) {
            0 => errors.required(&at.child("containerPort"), ""),
            number => {
                if let Some(message) = syntax::port_number(number) {
                    errors.invalid(&at.child("containerPort"), number, &message);
                }
            }
        }
        let host = int(&port["hostPort"]);
        if host != 0
            && let Some(message) = syntax::port_number(host)
        {
            errors.invalid(&at.child("hostPort"), host, &message);
        }
        errors.one_of(&at.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
    }
}

/// Protocols of ports.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn validate_host_ports<'a>(
    errors: &mut Errors,
    container: &'a Value,
    taken: &mut BTreeSet<(&'a str, &'a str, i64)>,
    at: &Path<'_>,
) {
    let at = at.child("ports");
    for (i, port) in list(&container["ports"]).iter().enumerate() {
        let (protocol, ip, number) = (text(&port["protocol"]), text(&port["hostIP"]), int(&port["hostPort"]));
        if number != 0 && !taken.insert((protocol, ip, number)) {
            errors.duplicate(&at.index(i).child("hostPort"), format!("{protocol}/{ip}/{number}").as_str());
        }
    }
}

fn validate_restart_rules(errors: &mut Errors, container: &Value, at: &Path<'_>) {
    let rules = list(&container["restartPolicyRules"]);
    match container["restartPolicy"].as_str() {
        None if !rules.is_empty() => {
            errors.required(&at.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
        }
        None => return,
        Some(policy) => {
            if !["Always", "Never", "OnFailure"].contains(&policy) {
                errors.not_supported(&at.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
            }
        }
    }
    let at = at.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_many(&at, rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        let action = text(&rule["action"]);
        if !["Restart", "RestartAllContainers"].contains(&action) {
            errors.not_supported(&at.child("action"), action, &["Restart", "RestartAllContainers"]);
        }
        let codes = at.child("exitCodes");
        if !rule["exitCodes"].is_object() {
            errors.required(&codes, "must be specified");
            continue;
        }
        let operator = text(&rule["exitCodes"]["operator"]);
        if !["In", "NotIn"].contains(&operator) {
            errors.not_supported(&codes.child("operator"), operator, &["In", "NotIn"]);
        }
        let values = list(&rule["exitCodes"]["values"]).len();
        if values > 255 {
            errors.too_many(&codes.child("values"), values, 255);
        }
    }
}

fn validate_resize_policy(errors: &mut Errors, container: &Value, restart: &str, at: &Path<'_>) {
    let mut seen = BTreeSet::new();
    for (i, policy) in list(&container["resizePolicy"]).iter().enumerate() {
        let resource = text(&policy["resourceName"]);
        if !seen.insert(resource) {
            errors.duplicate(&at.index(i), resource);
        }
        errors.one_of(at, resource, &["cpu", "memory"]);
        let action = text(&policy["restartPolicy"]);
        errors.one_of(at, action, &["NotRequired", "RestartContainer"]);
        if restart == "Never" && action != "NotRequired" {
            errors.invalid(at, action, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Containers of all sorts with their places.
pub(super) fn all(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|field| list(&spec[field]))
}

/// Whether a container runs with all privileges.
pub(super) fn is_privileged(container: &Value) -> bool {
    yes(&container["securityContext"]["privileged"])
}
