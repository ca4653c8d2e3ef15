//! What a kubelet reports of a Pod: the patch of its status.

use std::{iter, net::Ipv4Addr};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    address::other_family,
    life::{End, Ending, Flip, Life, Run, Stage},
    objects::{Container, Pod, RestartPolicy},
    script::Script,
};

/// The part of a life that shows: a status is written when this changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    generation: i64,
    stage: Stage,
    restarts: u32,
    flips: [Flip; 3],
}

impl Shown {
    /// What shows of a Pod now. The number of readiness changes is seen by its conditions.
    pub(super) fn of(pod: &Pod, life: &Life) -> Self {
        let mut stage = life.stage;
        if let Stage::Running { probed, .. } = &mut stage {
            *probed = 0;
        }
        Self {
            // Once a Pod has ended, a new generation (deletion makes one) changes nothing that was reported.
            generation: if life.has_ended() { 0 } else { pod.metadata.generation },
            stage,
            restarts: life.restarts,
            flips: [life.initialized, life.containers_ready, life.ready],
        }
    }
}

/// Where a Pod runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) host: Ipv4Addr,
    pub(super) pod: Ipv4Addr,
    /// Whether Pods and nodes have an address of the other family, too.
    pub(super) is_dual_stack: bool,
}

impl Place {
    /// An address, and that of the other family if there is one.
    fn addresses(self, address: Ipv4Addr) -> Value {
        let other = self.is_dual_stack.then(|| json!({"ip": other_family(address)}));
        iter::once(json!({"ip": address})).chain(other).collect()
    }
}

/// A time of the API: whole seconds.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

fn terminated(run: &Run, container: &str, script: Option<&Script>) -> Value {
    let exit_code = run.code(container, script);
    let reason = match run.ending {
        Ending::Lost => "Unknown",
        _ if exit_code == 0 => "Completed",
        _ => "Error",
    };
    let (started, finished) = (time(run.started), time(run.finished));
    json!({"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished})
}

/// The names of containers, as kubelets write them into messages: `[a b]`.
fn names(containers: &[Container]) -> String {
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

/// The report of a Pod: a strategic merge patch of `/status`, which goes to one Pod and to no other of its name.
pub(super) fn patch(pod: &Pod, life: &Life, script: Option<&Script>, place: Place) -> Value {
    let end = match life.stage {
        Stage::Ended { end, .. } => Some(end),
        _ => None,
    };
    let phase = match (life.stage, end) {
        (_, Some(End::Succeeded)) => "Succeeded",
        (_, Some(_)) => "Failed",
        (Stage::Creating { .. }, _) => "Pending",
        _ => "Running",
    };
    let (reason, message) = match end {
        Some(End::Scripted) => {
            (script.and_then(|s| s.fail_reason.as_deref()), script.and_then(|s| s.fail_message.as_deref()))
        }
        Some(End::DeadlineExceeded) => {
            (Some("DeadlineExceeded"), Some("Pod was active on the node longer than the specified deadline"))
        }
        _ => (None, None),
    };
    // A node that turns a Pod away never makes containers for it.
    let rejected = matches!(life.stage, Stage::Ended { run: None, end: End::Scripted }) && life.last.is_none();
    let spec = &pod.spec;
    let statuses = |all: &[Container], status: &dyn Fn(&Container) -> Value| {
        (!rejected && !all.is_empty()).then(|| all.iter().map(status).collect::<Value>())
    };
    let address = if spec.host_network { place.host } else { place.pod };
    let placed = !rejected && !matches!(life.stage, Stage::Creating { .. });
    let status = without_nulls(json!({
        "observedGeneration": pod.metadata.generation,
        "phase": phase,
        "reason": reason,
        "message": message,
        "conditions": conditions(pod, life, end),
        "hostIP": place.host,
        "hostIPs": place.addresses(place.host),
        "podIP": placed.then_some(address),
        "podIPs": placed.then(|| place.addresses(address)),
        "startTime": time(life.start_time),
        "initContainerStatuses": statuses(&spec.init_containers, &|container| init_status(container, life)),
        "containerStatuses": statuses(&spec.containers, &|container| status(pod, container, life, script)),
    }));
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}

fn conditions(pod: &Pod, life: &Life, end: Option<End>) -> Vec<Value> {
    let condition = |kind, value, since, why: Option<(&str, String)>| {
        let (reason, message) = why.unzip();
        // Null where an earlier reason has to go.
        json!({
            "type": kind,
            "status": if value { "True" } else { "False" },
            "observedGeneration": pod.metadata.generation,
            "lastTransitionTime": time(since),
            "reason": reason,
            "message": message.filter(|message| !message.is_empty()),
        })
    };
    let over = end.map(|end| match end {
        End::Succeeded => ("PodCompleted", String::new()),
        _ => ("PodFailed", String::new()),
    });
    let unready = || {
        over.clone().or_else(|| {
            Some(("ContainersNotReady", format!("containers with unready status: {}", names(&pod.spec.containers))))
        })
    };
    // The sandbox comes with the containers and goes with them.
    let sandbox = life.initialized.value && end.is_none();
    let sandbox_since = if end.is_some() { life.containers_ready.since } else { life.initialized.since };
    let initialized = life.initialized.value || pod.spec.init_containers.is_empty();
    let waiting = || {
        let message = format!("containers with incomplete status: {}", names(&pod.spec.init_containers));
        Some(("ContainersNotInitialized", message))
    };
    let why_initialized = match end {
        Some(End::Succeeded) => over.clone(),
        _ if initialized => None,
        _ => waiting(),
    };
    let why_not_ready = if life.ready.value {
        None
    } else if life.containers_ready.value {
        let missing = pod.spec.readiness_gates.iter().find(|g| !pod.has_condition(&g.condition_type));
        let text = missing.map_or_else(String::new, |g| gate_message(pod, &g.condition_type));
        Some(("ReadinessGatesNotReady", text))
    } else {
        unready()
    };
    let initialized_since =
        if initialized && !pod.spec.init_containers.is_empty() { life.initialized.since } else { life.start_time };
    let mut all = vec![
        condition("PodReadyToStartContainers", sandbox, sandbox_since, None),
        condition("Initialized", initialized, initialized_since, why_initialized),
        condition("Ready", life.ready.value, life.ready.since, why_not_ready),
        condition(
            "ContainersReady",
            life.containers_ready.value,
            life.containers_ready.since,
            if life.containers_ready.value { None } else { unready() },
        ),
    ];
    // The binding wrote it, unless the Pod named its node from the start.
    if !pod.has_condition("PodScheduled") {
        all.push(condition("PodScheduled", true, life.start_time, None));
    }
    all
}

fn gate_message(pod: &Pod, kind: &str) -> String {
    match pod.status.conditions.iter().find(|c| c.kind == *kind) {
        Some(c) => format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {}", c.status),
        None => format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."),
    }
}

fn status(pod: &Pod, container: &Container, life: &Life, script: Option<&Script>) -> Value {
    let (name, meta) = (&container.name, &pod.metadata);
    let terminated = |run: &Run| json!({"terminated": terminated(run, name, script)});
    let never_seen = || {
        let message = "The container could not be located when the pod was terminated";
        json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}})
    };
    let is_running = matches!(life.stage, Stage::Running { .. });
    let (state, last) = match life.stage {
        Stage::Creating { .. } => (json!({"waiting": {"reason": "ContainerCreating"}}), None),
        Stage::Running { started, .. } => (json!({"running": {"startedAt": time(started)}}), life.last.as_ref()),
        Stage::BackOff { delay, .. } => {
            let message = format!(
                "back-off {} restarting failed container={name} pod={}_{}({})",
                common::duration::format(delay),
                meta.name,
                meta.namespace,
                meta.uid
            );
            (json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}), life.last.as_ref())
        }
        Stage::Ended { run: Some(run), .. } => (terminated(&run), None),
        Stage::Ended { run: None, .. } => (life.last.as_ref().map_or_else(never_seen, terminated), None),
    };
    let started = is_running || last.is_some();
    without_nulls(json!({
        "name": name,
        "state": state,
        "lastState": last.map_or_else(|| json!({}), terminated),
        "ready": is_running && life.containers_ready.value,
        "restartCount": life.restarts,
        "image": container.image,
        "imageID": if started { format!("sim://{}", container.image) } else { String::new() },
        "containerID": started.then(|| format!("sim://{}/{name}/{}", meta.uid, life.restarts)),
        "started": is_running,
    }))
}

fn init_status(container: &Container, life: &Life) -> Value {
    let sidecar = container.restart_policy == Some(RestartPolicy::Always);
    let creating = matches!(life.stage, Stage::Creating { .. });
    let running = sidecar && matches!(life.stage, Stage::Running { .. } | Stage::BackOff { .. });
    let (began, initialized) = (time(life.start_time), time(life.initialized.since));
    let state = if creating {
        json!({"waiting": {"reason": "PodInitializing"}})
    } else if running {
        json!({"running": {"startedAt": initialized}})
    } else {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": initialized}})
    };
    json!({
        "name": container.name,
        "state": state,
        "lastState": {},
        "ready": !creating && (running || !sidecar),
        "restartCount": 0,
        "image": container.image,
        "imageID": if creating { String::new() } else { format!("sim://{}", container.image) },
        "started": running,
    })
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;

    use super::{super::life::Now, *};

    fn report(clock: &Clock, spec: &Value, script: Option<&Script>) -> Value {
        let meta = json!({"name": "web-x", "namespace": "shop", "uid": "u", "generation": 1});
        let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
        let now = Now { instant: clock.monotonic_now(), wall: clock.now() };
        let mut life = Life::begin(&pod, script, now);
        life.advance(&pod, script, now);
        let place =
            Place { host: Ipv4Addr::new(192, 168, 0, 1), pod: Ipv4Addr::new(10, 64, 0, 1), is_dual_stack: false };
        patch(&pod, &life, script, place)
    }

    fn clock() -> Clock {
        Clock::simulated("2026-01-01T00:00:00.9Z".parse().unwrap(), 0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_pod_is_reported_ready_with_its_addresses() {
        let report = report(&clock(), &json!({"containers": [{"name": "c", "image": "img:1"}]}), None);
        assert_eq!(report["metadata"], json!({"uid": "u"}));
        let status = &report["status"];
        assert_eq!(status["phase"], "Running");
        assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.64.0.1"), &json!("192.168.0.1")));
        assert_eq!(status["startTime"], "2026-01-01T00:00:00Z");
        assert_eq!(status.get("initContainerStatuses"), None);
        let container = &status["containerStatuses"][0];
        assert_eq!(container["state"], json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}));
        assert_eq!((&container["lastState"], &container["ready"]), (&json!({}), &json!(true)));
        for condition in status["conditions"].as_array().unwrap() {
            assert_eq!(condition["status"], "True", "{condition}");
            assert_eq!(condition["reason"], Value::Null);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_pod_is_reported_with_the_exit_code() {
        let script = Script { exit: Some(42), ..Script::default() };
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let status = &report(&clock(), &spec, Some(&script))["status"];
        assert_eq!(status["phase"], "Failed");
        let terminated = &status["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&terminated["exitCode"], &terminated["reason"]), (&json!(42), &json!("Error")));
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("PodFailed")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_turned_away_is_reported_without_containers() {
        let script = Script { fail_reason: Some("OutOfcpu".into()), ..Script::default() };
        let status = &report(&clock(), &json!({"containers": [{"name": "c"}]}), Some(&script))["status"];
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
        assert_eq!((status.get("containerStatuses"), status.get("podIP")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_being_created_says_what_is_missing() {
        let script = Script { start_after: std::time::Duration::from_secs(9), ..Script::default() };
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
        let status = &report(&clock(), &spec, Some(&script))["status"];
        let condition = |kind: &str| {
            let all = status["conditions"].as_array().unwrap();
            all.iter().find(|c| c["type"] == kind).unwrap().clone()
        };
        assert_eq!(status["phase"], "Pending");
        assert_eq!(condition("Ready")["message"], "containers with unready status: [a b]");
        assert_eq!(condition("Initialized")["message"], "containers with incomplete status: [i]");
        assert_eq!(condition("PodScheduled")["status"], "True");
        assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    }
}
