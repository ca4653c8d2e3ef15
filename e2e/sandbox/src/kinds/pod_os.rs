//! What Pods of one operating system may say, and the options of Windows containers.

use serde_json::Value;

use super::{
    errors::{Bad, Errors, Path},
    syntax,
    value::{list, text, yes},
};

/// Validates the operating system of a Pod, and that nothing is said that it does not know.
pub(super) fn validate(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    if !spec["os"].is_object() {
        return;
    }
    let os_at = at.child("os");
    match text(&spec["os"]["name"]) {
        "" => errors.required(&os_at.child("name"), ""),
        "linux" => validate_linux(errors, spec, at),
        "windows" => validate_windows(errors, spec, at),
        name => errors.not_supported(&os_at, name, &["linux", "windows"]),
    }
}

/// Calls `look` with each container's security context, the context's place, and the container's.
fn each_container(spec: &Value, at: &Path<'_>, mut look: impl FnMut(&Value, &Path<'_>)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        let at = at.child(field);
        for (i, container) in list(&spec[field]).iter().enumerate() {
            let at = at.index(i);
            look(&container["securityContext"], &at.child("securityContext"));
        }
    }
}

fn validate_linux(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let mut refuse = |context: &Value, at: &Path<'_>| {
        if context["windowsOptions"].is_object() {
            errors.forbidden(&at.child("windowsOptions"), "windows options cannot be set for a linux pod");
        }
    };
    refuse(&spec["securityContext"], &at.child("securityContext"));
    each_container(spec, at, refuse);
}

/// Fields of a Pod that Windows does not know, in the order they are looked at, and whether they are of the context.
const POD_FIELDS: [(&str, bool); 15] = [
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn validate_windows(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    const MESSAGE: &str = "cannot be set for a windows pod";
    let context_at = at.child("securityContext");
    for (field, of_context) in POD_FIELDS {
        if of_context && spec["securityContext"].get(field).is_some() {
            errors.forbidden(&context_at.child(field), MESSAGE);
        } else if !of_context && spec.get(field).is_some() {
            errors.forbidden(&at.child(field), MESSAGE);
        }
    }
    each_container(spec, at, |context, at| {
        for field in CONTAINER_FIELDS {
            if context.get(field).is_some() {
                errors.forbidden(&at.child(field), MESSAGE);
            }
        }
    });
}

/// Containers that run as processes of the host.
pub(super) fn validate_host_processes(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, at, |context, at| {
        all += 1;
        let own = context["windowsOptions"]["hostProcess"].as_bool();
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let at = at.child("windowsOptions");
            let message = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&at.child("hostProcess"), own, &message);
        }
        of_host += usize::from(own.or(of_pod) == Some(true));
    });
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let message = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", message);
    }
    if !yes(&spec["hostNetwork"]) {
        let message = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.child("hostNetwork"), false, message);
    }
}

/// Validates the Windows options of a security context.
pub(super) fn validate_options(errors: &mut Errors, options: &Value, at: &Path<'_>) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        errors.syntax(&at.child("gmsaCredentialSpecName"), name, syntax::subdomain(name));
    }
    if let Some(content) = options["gmsaCredentialSpec"].as_str() {
        let at = at.child("gmsaCredentialSpec");
        if content.is_empty() {
            errors.invalid(&at, content, "gmsaCredentialSpec cannot be an empty string");
        } else if content.len() > 64 * 1024 {
            errors.invalid(&at, content, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = options["runAsUserName"].as_str() {
        let at = at.child("runAsUserName");
        for message in wrong_user(name) {
            errors.invalid(&at, Bad::from(name), &message);
        }
    }
}

fn wrong_user(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut wrong = vec![];
    let mut refuse = |holds: bool, message: &str| {
        if holds {
            wrong.push(message.to_owned());
        }
    };
    if let Some(domain) = domain {
        refuse(domain.len() >= 256, "runAsUserName's Domain length must be under 256 characters");
        let short = (1..=15).contains(&domain.chars().count())
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
        let long = domain.split('.').all(|part| {
            let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
            edge(part.as_bytes().first())
                && edge(part.as_bytes().last())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        });
        refuse(!short && !long, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    refuse(user.is_empty(), "runAsUserName's User cannot be empty");
    refuse(user.len() > 104, "runAsUserName's User length must not be longer than 104 characters");
    let only_dots = !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' '));
    refuse(only_dots, "runAsUserName's User cannot contain only periods or spaces");
    let odd = user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']);
    refuse(odd, r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_users_of_windows() {
        for name in ["ContainerUser", r"NT AUTHORITY\SYSTEM", r"example.com\user", "a b"] {
            assert!(wrong_user(name).is_empty(), "{name}");
        }
        for (name, wrong) in [("", 1), ("a\tb", 1), (r"a\b\c", 1), (r"a\", 1), ("..", 1), ("a@b", 1), (r"-.-\x", 0)] {
            assert_eq!(wrong_user(name).len(), wrong, "{name}: {:?}", wrong_user(name));
        }
    }
}
