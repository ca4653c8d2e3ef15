//! Validation of probes and lifecycle hooks.

use serde_json::Value;

use super::{
    containers::Surroundings,
    errors::{Errors, Path},
    syntax,
    value::{int, list, text},
};

/// Validates the hooks and probes of a container.
pub(super) fn validate_all(errors: &mut Errors, container: &Value, pod: &Surroundings<'_>, at: &Path<'_>) {
    let lifecycle = &container["lifecycle"];
    if lifecycle.is_object() {
        let at = at.child("lifecycle");
        for hook in ["postStart", "preStop"] {
            if lifecycle[hook].is_object() {
                validate_handler(errors, &lifecycle[hook], pod.grace, &at.child(hook));
            }
        }
        if let Some(signal) = lifecycle["stopSignal"].as_str() {
            validate_stop_signal(errors, signal, &pod.spec["os"], &at.child("stopSignal"));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[kind];
        if !probe.is_object() {
            continue;
        }
        let at = at.child(kind);
        validate_probe(errors, probe, pod.grace, &at);
        if kind == "readinessProbe" {
            if let Some(grace) = probe["terminationGracePeriodSeconds"].as_i64() {
                let message = "must not be set for readinessProbes";
                errors.invalid(&at.child("terminationGracePeriodSeconds"), grace, message);
            }
        } else if int(&probe["successThreshold"]) != 1 {
            errors.invalid(&at.child("successThreshold"), int(&probe["successThreshold"]), "must be 1");
        }
    }
}

fn validate_probe(errors: &mut Errors, probe: &Value, grace: Option<i64>, at: &Path<'_>) {
    validate_handler(errors, probe, grace, at);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.non_negative(&at.child(field), probe[field].as_i64());
    }
    if let Some(grace) = probe["terminationGracePeriodSeconds"].as_i64().filter(|grace| *grace <= 0) {
        errors.invalid(&at.child("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
}

fn validate_handler(errors: &mut Errors, handler: &Value, grace: Option<i64>, at: &Path<'_>) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = &handler[kind];
        if !action.is_object() {
            continue;
        }
        let at = at.child(kind);
        if std::mem::replace(&mut found, true) {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        match kind {
            "exec" if list(&action["command"]).is_empty() => errors.required(&at.child("command"), ""),
            "httpGet" => validate_http_get(errors, action, &at),
            "tcpSocket" | "grpc" => validate_port(errors, &action["port"], &at.child("port")),
            "sleep" => {
                let seconds = int(&action["seconds"]);
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let message = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&at, seconds, &message);
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.required(at, "must specify a handler type");
    }
}

fn validate_http_get(errors: &mut Errors, action: &Value, at: &Path<'_>) {
    if text(&action["path"]).is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_port(errors, &action["port"], &at.child("port"));
    let scheme = text(&action["scheme"]);
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(&at.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in list(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.syntax(&at.child("httpHeaders"), name, syntax::http_header(name));
    }
}

/// Validates a port that is a number or a name.
pub(super) fn validate_port(errors: &mut Errors, port: &Value, at: &Path<'_>) {
    match port {
        Value::String(name) => errors.syntax(at, name, syntax::port_name(name)),
        number => {
            if let Some(message) = syntax::port_number(int(number)) {
                errors.invalid(at, int(number), &message);
            }
        }
    }
}

fn validate_stop_signal(errors: &mut Errors, signal: &str, os: &Value, at: &Path<'_>) {
    match text(&os["name"]) {
        "" => errors.forbidden(at, "may not be set for containers with empty `spec.os.name`"),
        "windows" if !["SIGKILL", "SIGTERM"].contains(&signal) => {
            errors.not_supported(at, signal, &["SIGKILL", "SIGTERM"]);
        }
        "linux" if !signal.starts_with("SIG") => errors.not_supported(at, signal, &["SIGKILL", "SIGTERM"]),
        _ => {}
    }
}
