//! Pods in tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    table::{or, since},
    value::{int, list, text, yes},
};

/// What the containers of a Pod add up to.
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: String,
}

fn is_sidecar(container: Option<&Value>) -> bool {
    container.is_some_and(|container| text(&container["restartPolicy"]) == "Always")
}

fn condition_is_true(status: &Value, kind: &str) -> bool {
    list(&status["conditions"]).iter().any(|c| text(&c["type"]) == kind && text(&c["status"]) == "True")
}

/// Why a container ended, in a word.
fn ended(terminated: &Value, prefix: &str) -> String {
    match (text(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("{prefix}ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

fn later(last: &mut String, status: &Value) {
    let finished = text(&status["lastState"]["terminated"]["finishedAt"]);
    if finished > last.as_str() {
        finished.clone_into(last);
    }
}

fn summarize(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut reason = or(text(&status["reason"]), text(&status["phase"])).to_owned();
    let gated = |c: &Value| text(&c["type"]) == "PodScheduled" && text(&c["reason"]) == "SchedulingGated";
    if list(&status["conditions"]).iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let init = list(&spec["initContainers"]);
    let mut summary = Summary { reason, ready: 0, restarts: 0, last_restart: String::new() };
    let (mut sidecar_restarts, mut sidecar_last) = (0, String::new());
    let mut initializing = false;
    for (i, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
        let sidecar = is_sidecar(init.iter().find(|c| c["name"] == container["name"]));
        summary.restarts += int(&container["restartCount"]);
        later(&mut summary.last_restart, container);
        if sidecar {
            sidecar_restarts += int(&container["restartCount"]);
            later(&mut sidecar_last, container);
        }
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if state["terminated"].is_object() && int(&state["terminated"]["exitCode"]) == 0 {
            continue;
        }
        if sidecar && yes(&container["started"]) {
            summary.ready += usize::from(yes(&container["ready"]));
            continue;
        }
        if state["terminated"].is_object() {
            summary.reason = ended(&state["terminated"], "Init:");
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            summary.reason = format!("Init:{waiting}");
        } else {
            summary.reason = format!("Init:{i}/{}", init.len());
        }
        initializing = true;
        break;
    }
    if !initializing || condition_is_true(status, "Initialized") {
        summary.restarts = sidecar_restarts;
        summary.last_restart = sidecar_last;
        summarize_containers(&mut summary, status);
    }
    summary
}

fn summarize_containers(summary: &mut Summary, status: &Value) {
    let mut running = false;
    let mut error = String::new();
    for container in list(&status["containerStatuses"]).iter().rev() {
        summary.restarts += int(&container["restartCount"]);
        later(&mut summary.last_restart, container);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if state["terminated"].is_object() {
            summary.reason = ended(&state["terminated"], "");
            if int(&state["terminated"]["exitCode"]) != 0 {
                error.clone_from(&summary.reason);
            }
        } else if yes(&container["ready"]) && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && condition_is_true(status, "Ready") {
            "Running".clone_into(&mut summary.reason);
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}

/// The cells that the containers and conditions of a Pod decide.
pub(super) fn cell(pod: &Value, now: Timestamp, column: &str) -> Option<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let shown = match column {
        "Ready" => {
            let sidecars = list(&spec["initContainers"]).iter().filter(|container| is_sidecar(Some(container))).count();
            format!("{}/{}", summarize(pod).ready, list(&spec["containers"]).len() + sidecars)
        }
        "Status" => match (pod["metadata"]["deletionTimestamp"].is_string(), text(&status["reason"])) {
            (true, "NodeLost") => "Unknown".to_owned(),
            (true, _) if !matches!(text(&status["phase"]), "Succeeded" | "Failed") => "Terminating".to_owned(),
            _ => summarize(pod).reason,
        },
        "Restarts" => {
            let Summary { restarts, last_restart, .. } = summarize(pod);
            if restarts == 0 || last_restart.is_empty() {
                restarts.to_string()
            } else {
                format!("{restarts} ({} ago)", since(&last_restart.into(), now))
            }
        }
        "Readiness Gates" => {
            let gates = list(&spec["readinessGates"]);
            let met = gates.iter().filter(|gate| condition_is_true(status, text(&gate["conditionType"]))).count();
            if gates.is_empty() { "<none>".to_owned() } else { format!("{met}/{}", gates.len()) }
        }
        _ => return None,
    };
    Some(shown.into())
}

/// Conditions of a Pod's row: whether it is finished.
pub(super) fn conditions(pod: &Value) -> Vec<Value> {
    let (phase, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return vec![],
    };
    vec![json!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(status: &Value) -> (String, String, String) {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": status,
        });
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let shown = |column| cell(&pod, now, column).unwrap().as_str().unwrap().to_owned();
        (shown("Ready"), shown("Status"), shown("Restarts"))
    }

    #[test]
    fn shows_what_containers_do() {
        let shown =
            |ready: &str, status: &str, restarts: &str| (ready.to_owned(), status.to_owned(), restarts.to_owned());
        assert_eq!(cells(&json!({"phase": "Pending"})), shown("0/2", "Pending", "0"));
        let waiting = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]});
        assert_eq!(cells(&waiting), shown("0/2", "Init:0/1", "0"));
        let crashed = json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "ready": true, "state": {"running": {}}},
            {"name": "b", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}}},
        ]});
        assert_eq!(cells(&crashed), shown("1/2", "CrashLoopBackOff", "3 (30s ago)"));
        let failed = json!({"phase": "Failed", "containerStatuses": [
            {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "b", "state": {"terminated": {"exitCode": 42}}},
        ]});
        assert_eq!(cells(&failed), shown("0/2", "ExitCode:42", "0"));
    }
}
