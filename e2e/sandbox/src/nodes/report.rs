//! What a kubelet reports of a Pod: the patch of its status.

use std::{
    iter,
    net::{IpAddr, Ipv4Addr},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    address::other_family,
    life::{End, Flip, Life, Run, Stage},
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
    /// Address of its node.
    pub(super) host: Ipv4Addr,
    /// Its own address.
    pub(super) pod: Ipv4Addr,
    /// Whether Pods and nodes have an address of the other family, too.
    pub(super) is_dual_stack: bool,
}

impl Place {
    /// An address, and that of the other family if there is one.
    fn addresses(self, address: Ipv4Addr) -> Vec<Ip> {
        let other = self.is_dual_stack.then(|| other_family(address).into());
        iter::once(address.into()).chain(other).map(|ip| Ip { ip }).collect()
    }
}

/// A strategic merge patch of `/status`, which goes to one Pod and to no other of its name.
#[derive(Serialize)]
pub(super) struct Patch<'a> {
    metadata: Identity,
    status: Status<'a>,
}

#[derive(Serialize)]
struct Identity {
    uid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    observed_generation: i64,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    conditions: Vec<Condition>,
    #[serde(rename = "hostIP")]
    host_ip: Ipv4Addr,
    #[serde(rename = "hostIPs")]
    host_ips: Vec<Ip>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pod_ip: Option<Ipv4Addr>,
    #[serde(rename = "podIPs", skip_serializing_if = "Option::is_none")]
    pod_ips: Option<Vec<Ip>>,
    start_time: Time,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Serialize)]
struct Ip {
    ip: IpAddr,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    r#type: &'static str,
    status: &'static str,
    observed_generation: i64,
    last_transition_time: Time,
    /// Written as null where an earlier reason has to go.
    reason: Option<&'static str>,
    message: Option<String>,
}

/// A time of the API: whole seconds.
#[derive(Clone, Copy)]
struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    name: &'a str,
    state: State,
    last_state: LastState,
    ready: bool,
    restart_count: u32,
    image: &'a str,
    #[serde(rename = "imageID")]
    image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
    started: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    #[serde(rename_all = "camelCase")]
    Waiting {
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    #[serde(rename_all = "camelCase")]
    Running {
        started_at: Time,
    },
    Terminated(Terminated),
}

#[derive(Serialize)]
struct LastState {
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated: Option<Terminated>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    exit_code: i32,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
}

impl Terminated {
    fn of(run: &Run, container: &str, script: Option<&Script>) -> Self {
        let exit_code = run.code(container, script);
        Self {
            exit_code,
            reason: match run.ending {
                super::life::Ending::Lost => "Unknown",
                _ if exit_code == 0 => "Completed",
                _ => "Error",
            },
            message: None,
            started_at: Some(Time(run.started)),
            finished_at: Some(Time(run.finished)),
        }
    }

    fn never_seen() -> Self {
        Self {
            exit_code: 137,
            reason: "ContainerStatusUnknown",
            message: Some("The container could not be located when the pod was terminated"),
            started_at: None,
            finished_at: None,
        }
    }
}

/// The names of containers, as kubelets write them into messages: `[a b]`.
fn names(containers: &[Container]) -> String {
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

/// The report of a Pod.
pub(super) fn patch<'a>(pod: &'a Pod, life: &Life, script: Option<&'a Script>, place: Place) -> Patch<'a> {
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
    let (init_container_statuses, container_statuses) = if rejected {
        (Vec::new(), Vec::new())
    } else {
        (
            spec.init_containers.iter().map(|c| init_status(c, life)).collect(),
            spec.containers.iter().map(|c| status(pod, c, life, script)).collect(),
        )
    };
    let address = if spec.host_network { place.host } else { place.pod };
    let placed = !rejected && !matches!(life.stage, Stage::Creating { .. });
    Patch {
        metadata: Identity { uid: pod.metadata.uid.to_string() },
        status: Status {
            observed_generation: pod.metadata.generation,
            phase,
            reason,
            message,
            conditions: conditions(pod, life, end),
            host_ip: place.host,
            host_ips: place.addresses(place.host),
            pod_ip: placed.then_some(address),
            pod_ips: placed.then(|| place.addresses(address)),
            start_time: Time(life.start_time),
            init_container_statuses,
            container_statuses,
        },
    }
}

fn conditions(pod: &Pod, life: &Life, end: Option<End>) -> Vec<Condition> {
    let generation = pod.metadata.generation;
    let condition = |kind, value, since, why: Option<(&'static str, String)>| {
        let (reason, message) = why.unzip();
        Condition {
            r#type: kind,
            status: if value { "True" } else { "False" },
            observed_generation: generation,
            last_transition_time: Time(since),
            reason,
            message: message.filter(|m| !m.is_empty()),
        }
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

fn status<'a>(pod: &Pod, container: &'a Container, life: &Life, script: Option<&Script>) -> ContainerStatus<'a> {
    let name = &container.name;
    let terminated = |run: &Run| Terminated::of(run, name, script);
    let (state, last) = match life.stage {
        Stage::Creating { .. } => (State::Waiting { reason: "ContainerCreating", message: None }, None),
        Stage::Running { started, .. } => (State::Running { started_at: Time(started) }, life.last.as_ref()),
        Stage::BackOff { delay, .. } => {
            let meta = &pod.metadata;
            let message = format!(
                "back-off {} restarting failed container={name} pod={}_{}({})",
                common::duration::format(delay),
                meta.name,
                meta.namespace,
                meta.uid
            );
            (State::Waiting { reason: "CrashLoopBackOff", message: Some(message) }, life.last.as_ref())
        }
        Stage::Ended { run: Some(run), .. } => (State::Terminated(terminated(&run)), life.last.as_ref()),
        Stage::Ended { run: None, .. } => {
            let state = life.last.as_ref().map_or_else(Terminated::never_seen, terminated);
            (State::Terminated(state), None)
        }
    };
    let running = matches!(state, State::Running { .. });
    let started = running || last.is_some();
    ContainerStatus {
        name,
        state,
        last_state: LastState { terminated: last.map(terminated) },
        ready: running && life.containers_ready.value,
        restart_count: life.restarts,
        image: &container.image,
        image_id: if started { format!("sim://{}", container.image) } else { String::new() },
        container_id: started.then(|| format!("sim://{}/{name}/{}", pod.metadata.uid, life.restarts)),
        started: running,
    }
}

fn init_status<'a>(container: &'a Container, life: &Life) -> ContainerStatus<'a> {
    let sidecar = container.restart_policy == Some(RestartPolicy::Always);
    let creating = matches!(life.stage, Stage::Creating { .. });
    let running = sidecar && matches!(life.stage, Stage::Running { .. } | Stage::BackOff { .. });
    let state = if creating {
        State::Waiting { reason: "PodInitializing", message: None }
    } else if running {
        State::Running { started_at: Time(life.initialized.since) }
    } else {
        State::Terminated(Terminated {
            exit_code: 0,
            reason: "Completed",
            message: None,
            started_at: Some(Time(life.start_time)),
            finished_at: Some(Time(life.initialized.since)),
        })
    };
    ContainerStatus {
        name: &container.name,
        state,
        last_state: LastState { terminated: None },
        ready: !creating && (running || !sidecar),
        restart_count: 0,
        image: &container.image,
        image_id: if creating { String::new() } else { format!("sim://{}", container.image) },
        container_id: None,
        started: running,
    }
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;
    use serde_json::{Value, json};

    use super::{super::life::Now, *};

    fn report(clock: &Clock, spec: &Value, script: Option<&Script>) -> Value {
        let meta = json!({"name": "web-x", "namespace": "shop", "uid": "u", "generation": 1});
        let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
        let now = Now { instant: clock.monotonic_now(), wall: clock.now() };
        let mut life = Life::begin(&pod, script, now);
        life.advance(&pod, script, now);
        let place =
            Place { host: Ipv4Addr::new(192, 168, 0, 1), pod: Ipv4Addr::new(10, 64, 0, 1), is_dual_stack: false };
        serde_json::to_value(patch(&pod, &life, script, place)).unwrap()
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
