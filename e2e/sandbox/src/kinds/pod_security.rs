//! Validation of security contexts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::{Bad, Errors, Path},
    pod_os, syntax,
    value::{list, text, yes},
    volumes,
};

/// Validates the security context of a Pod.
pub(super) fn validate_pod(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let context = &spec["securityContext"];
    if !context.is_object() {
        return;
    }
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(errors, &context[field], &at.child(field));
    }
    let groups = at.child("supplementalGroups");
    for (i, group) in list(&context["supplementalGroups"]).iter().enumerate() {
        validate_id(errors, group, &groups.index(i));
    }
    if yes(&spec["shareProcessNamespace"]) && yes(&spec["hostPID"]) {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&at.child("shareProcessNamespace"), true, message);
    }
    validate_sysctls(errors, context, spec, &at.child("sysctls"));
    validate_word(errors, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], at);
    validate_profile(errors, &context["seccompProfile"], "seccomp", &at.child("seccompProfile"));
    pod_os::validate_options(errors, &context["windowsOptions"], &at.child("windowsOptions"));
    validate_profile(errors, &context["appArmorProfile"], "AppArmor", &at.child("appArmorProfile"));
    validate_word(errors, context, "supplementalGroupsPolicy", &["Merge", "Strict"], at);
    validate_word(errors, context, "seLinuxChangePolicy", &["Recursive"], at);
}

fn validate_id(errors: &mut Errors, id: &Value, at: &Path<'_>) {
    if let Some(id) = id.as_i64()
        && let Some(message) = syntax::unix_id(id)
    {
        errors.invalid(at, id, &message);
    }
}

fn validate_word(errors: &mut Errors, context: &Value, field: &str, known: &[&str], at: &Path<'_>) {
    if let Some(word) = context[field].as_str().filter(|word| !known.contains(word)) {
        errors.not_supported(&at.child(field), word, known);
    }
}

fn validate_sysctls(errors: &mut Errors, context: &Value, spec: &Value, at: &Path<'_>) {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let segment = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&b| edge(b))
            && bytes.last().is_some_and(|&b| edge(b))
            && bytes.iter().all(|&b| edge(b) || matches!(b, b'-' | b'_'))
    };
    let mut names = BTreeSet::new();
    for (i, sysctl) in list(&context["sysctls"]).iter().enumerate() {
        let at = at.index(i);
        let at = at.child("name");
        let name = text(&sysctl["name"]);
        if name.is_empty() {
            errors.required(&at, "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(segment) {
            let message = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&at, name, message);
        } else if names.contains(name) {
            errors.duplicate(&at, name);
        }
        names.insert(name);
        let dotted = name.replace('/', ".");
        if yes(&spec["hostNetwork"]) && dotted.starts_with("net.") {
            errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        }
        let ipc = ["kernel.msg", "kernel.sem", "kernel.shm", "fs.mqueue."];
        if yes(&spec["hostIPC"]) && ipc.iter().any(|prefix| dotted.starts_with(prefix)) {
            errors.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

/// Validates a seccomp or `AppArmor` profile.
fn validate_profile(errors: &mut Errors, profile: &Value, what: &str, at: &Path<'_>) {
    if !profile.is_object() {
        return;
    }
    let known = ["Localhost", "RuntimeDefault", "Unconfined"];
    let kind = text(&profile["type"]);
    let local = profile["localhostProfile"].as_str();
    let field = if what == "seccomp" { "seccompProfile" } else { "appArmorProfile" };
    if kind.is_empty() {
        errors.required(&at.child("type"), &format!("type is required when {field} is set"));
    } else if !known.contains(&kind) {
        errors.not_supported(&at.child("type"), kind, &known);
    }
    let local_at = at.child("localhostProfile");
    match (kind, local) {
        ("Localhost", None | Some("")) => {
            errors.required(&local_at, &format!("must be set when {what} type is Localhost"));
        }
        ("Localhost", Some(path)) if what == "seccomp" => volumes::validate_relative(errors, path, &local_at),
        ("Localhost", Some(path)) if path.trim() != path => {
            errors.invalid(&local_at, path, "must not be padded with whitespace");
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(path)) => {
            let message = format!("can only be set when {what} type is Localhost");
            if what == "seccomp" {
                let shown = format!(r#"{{"Type":"{kind}","LocalhostProfile":"{path}"}}"#);
                errors.invalid(&local_at, Bad::raw(shown), &message);
            } else {
                errors.invalid(&local_at, path, &message);
            }
        }
    }
}

/// Validates the security context of a container.
pub(super) fn validate_container(errors: &mut Errors, context: &Value, at: &Path<'_>) {
    if !context.is_object() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        validate_id(errors, &context[field], &at.child(field));
    }
    validate_word(errors, context, "procMount", &["Default", "Unmasked"], at);
    validate_profile(errors, &context["seccompProfile"], "seccomp", &at.child("seccompProfile"));
    if context["allowPrivilegeEscalation"].as_bool() == Some(false) {
        if yes(&context["privileged"]) {
            let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(at, shown(context), message);
        }
        if list(&context["capabilities"]["add"]).iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let message = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(at, shown(context), message);
        }
    }
    pod_os::validate_options(errors, &context["windowsOptions"], &at.child("windowsOptions"));
    validate_profile(errors, &context["appArmorProfile"], "AppArmor", &at.child("appArmorProfile"));
}

fn shown(context: &Value) -> Bad {
    Bad::raw(super::dump::internal("SecurityContext", context))
}
