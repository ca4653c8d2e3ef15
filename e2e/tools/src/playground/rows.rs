//! Workloads, Services, Jobs, CronJobs and nodes as lines of text.

use std::fmt::Write as _;

use common::meta::NamespacedName;
use jiff::Timestamp;

use super::world::{Census, Object, World};

/// The annotation that switches a node off (`off`) and on again (anything else, or none).
pub(super) const POWER: &str = "sim/power";
/// The number of nodes in an unusual state whose names are shown.
const NAMED: usize = 3;

/// The progress of an object towards its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The object is as its spec asks for.
    Done,
    /// The controller has not finished yet.
    Underway,
    /// The controller has given up.
    Failed,
    /// The user has suspended it.
    Suspended,
}

/// One object in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: &'static str,
    pub(super) key: NamespacedName,
    pub(super) generation: i64,
    pub(super) progress: Progress,
    /// The progress in one word, which depends on the kind.
    pub(super) word: &'static str,
    pub(super) text: String,
    /// Its Pods; for a CronJob, those of all its Jobs.
    pub(super) pods: Census,
    /// The ReplicaSets of a Deployment, newest template first.
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) revision: i64,
    pub(super) image: String,
    pub(super) size: i32,
    pub(super) pods: Census,
}

impl Row {
    /// The row in one line.
    pub(super) fn line(&self) -> String {
        let states = self.pods.line();
        let pods = if states.is_empty() { states } else { format!(" | Pods: {states}") };
        format!("{}: {}{pods}", self.word, self.text)
    }
}

type Described = (Progress, &'static str, String);

/// All rows: by kind, and by name within a kind. Jobs of a CronJob are part of its row.
pub(super) fn rows(world: &World, now: Timestamp) -> Vec<Row> {
    let is_shown = |kind: &str, object: &Object| match kind {
        "Service" => object.0["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty()),
        "Job" => world.with_uid("CronJob", object.owner()).is_none(),
        _ => true,
    };
    let mut rows = Vec::new();
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "Service", "Job", "CronJob"] {
        for object in world.all(kind).filter(|object| is_shown(kind, object)) {
            let (progress, word, text) = match kind {
                "Service" => service(world, object),
                "Job" => job(object),
                "CronJob" => cron_job(world, object),
                _ => workload(object),
            };
            let pods = match kind {
                "Deployment" => world.census_of_owned("ReplicaSet", object, now),
                "CronJob" => world.census_of_owned("Job", object, now),
                _ => world.census(object, now),
            };
            let parts = if kind == "Deployment" { parts(world, object, now) } else { Vec::new() };
            let generation = object.number("/metadata/generation");
            rows.push(Row { kind, key: object.key(), generation, progress, word, text, pods, parts });
        }
    }
    rows
}

/// The progress of a Deployment, a StatefulSet or a DaemonSet. Upstream: `kubectl rollout status`.
fn workload(object: &Object) -> Described {
    // A DaemonSet has other names for its numbers; each kind has one of the two.
    let count = |a: &str, b: &str| object.number(&format!("/status/{a}")) + object.number(&format!("/status/{b}"));
    let wanted = object.number("/spec/replicas") + object.number("/status/desiredNumberScheduled");
    let replicas = count("replicas", "desiredNumberScheduled");
    let [updated, ready, available] = [
        count("updatedReplicas", "updatedNumberScheduled"),
        count("readyReplicas", "numberReady"),
        count("availableReplicas", "numberAvailable"),
    ];
    let partition = object.number("/spec/updateStrategy/rollingUpdate/partition");
    let is_observed = object.number("/status/observedGeneration") >= object.number("/metadata/generation");
    let is_complete = replicas == wanted && available == wanted && updated >= wanted - partition;
    let (condition, message) = object.condition("Progressing");
    let old = if replicas > updated { format!("old {}  ", replicas - updated) } else { String::new() };
    let mut text = format!("new {updated}/{wanted}  {old}ready {ready}  available {available}  {}", object.image());
    if let Some(bounds) = object.bounds().filter(|_| object.0["spec"]["strategy"].is_object()) {
        let revision = object.revision();
        let _ = write!(text, "  revision {revision}  ({} to {} Pods)", bounds.least, bounds.most);
    }
    match (is_observed, is_complete) {
        (false, _) => (Progress::Underway, "pending", text),
        (true, true) => (Progress::Done, "complete", text),
        (true, false) if object.0["spec"]["paused"] == true => (Progress::Suspended, "paused", text),
        (true, false) if condition == "False" => (Progress::Failed, "failed", format!("{text}  {message}")),
        (true, false) => (Progress::Underway, "rolling", text),
    }
}

/// The ReplicaSets of a Deployment that have Pods or a size above zero.
fn parts(world: &World, deployment: &Object, now: Timestamp) -> Vec<Part> {
    let part = |set: &Object| Part {
        name: set.text("/metadata/name").to_owned(),
        revision: set.revision(),
        image: set.image().to_owned(),
        size: set.replicas(),
        pods: world.census(set, now),
    };
    let mut parts: Vec<Part> = world.owned("ReplicaSet", deployment).map(part).collect();
    parts.retain(|part| part.size > 0 || part.pods != Census::default());
    parts.sort_by_key(|part| std::cmp::Reverse(part.revision));
    parts
}

/// The progress of a Service that has to lead to the ready Pods that it selects.
fn service(world: &World, service: &Object) -> Described {
    let is_its = |slice: &&Object| {
        slice.text("/metadata/labels/kubernetes.io~1service-name") == service.text("/metadata/name")
            && slice.text("/metadata/namespace") == service.text("/metadata/namespace")
    };
    let slices: Vec<&Object> = world.all("EndpointSlice").filter(is_its).collect();
    let endpoints = slices.iter().flat_map(|slice| slice.items("/endpoints"));
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false).count();
    let expected = world.ready_pods(service);
    let address = service.text("/spec/clusterIP").replace("None", "headless");
    let plural = if slices.len() == 1 { "" } else { "s" };
    let text = format!("endpoints {ready}/{expected} ready Pods, {} slice{plural}, {address}", slices.len());
    match (ready == expected, ready) {
        (false, _) => (Progress::Underway, "updating", text),
        (true, 0) => (Progress::Done, "empty", text),
        (true, _) => (Progress::Done, "current", text),
    }
}

fn job(job: &Object) -> Described {
    let [active, succeeded, failed] =
        ["active", "succeeded", "failed"].map(|field| job.number(&format!("/status/{field}")));
    let wanted = job.0["spec"]["completions"].as_i64().map_or_else(String::new, |n| format!("/{n}"));
    let mut text = format!("succeeded {succeeded}{wanted}  active {active}");
    if failed > 0 {
        let _ = write!(text, "  failed {failed}");
    }
    let is = |kind: &str| job.condition(kind).0 == "True";
    let (progress, word) = if is("Complete") {
        (Progress::Done, "complete")
    } else if is("Failed") {
        (Progress::Failed, "failed")
    } else if job.0["spec"]["suspend"] == true {
        (Progress::Suspended, "suspended")
    } else {
        (Progress::Underway, "running")
    };
    (progress, word, text)
}

fn cron_job(world: &World, cron_job: &Object) -> Described {
    let jobs: Vec<&Object> = world.owned("Job", cron_job).collect();
    let last = jobs.iter().max_by_key(|job| (job.text("/metadata/creationTimestamp"), job.text("/metadata/name")));
    let last = last.map_or_else(
        || "no Job yet".to_owned(),
        |last| {
            let plural = if jobs.len() == 1 { "" } else { "s" };
            format!("{} Job{plural}, last {} {}", jobs.len(), last.text("/metadata/name"), job(last).1)
        },
    );
    let has = |field: &str| !cron_job.text(&format!("/status/{field}")).is_empty();
    let text = format!("\"{}\", {last}", cron_job.text("/spec/schedule"));
    if cron_job.0["spec"]["suspend"] == true {
        (Progress::Suspended, "suspended", text)
    } else if has("lastScheduleTime") && has("lastSuccessfulTime") {
        (Progress::Done, "has run", text)
    } else {
        (Progress::Underway, "scheduled", text)
    }
}

pub(super) fn is_off(node: &Object) -> bool {
    node.0["metadata"]["annotations"][POWER] == "off"
}

/// The state of a node as `kubectl get nodes` has it, with power and `NoExecute` taints.
pub(super) fn node_state(node: &Object) -> String {
    let mut state = if node.condition("Ready").0 == "True" { "Ready" } else { "NotReady" }.to_owned();
    if node.0["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    if is_off(node) {
        state.push_str(", switched off");
    }
    for taint in node.items("/spec/taints").filter(|taint| taint["effect"] == "NoExecute") {
        let key = taint["key"].as_str().unwrap_or_default();
        let _ = write!(state, ", {}:NoExecute", key.rsplit('/').next().unwrap_or(key));
    }
    state
}

/// One line with the number of ready nodes and the names of the others; `None` if all nodes are in the usual state.
pub(super) fn node_line(world: &World) -> Option<String> {
    let states = world.all("Node").map(|node| (node.text("/metadata/name"), node_state(node)));
    let states: Vec<(&str, String)> = states.collect();
    let ready = states.iter().filter(|(_, state)| state.starts_with("Ready")).count();
    let unusual: Vec<_> = states.iter().filter(|(_, state)| state != "Ready").collect();
    let mut line = format!("nodes: {ready} of {} Ready", states.len());
    for (name, state) in unusual.iter().take(NAMED) {
        let _ = write!(line, "; {name} {state}");
    }
    if unusual.len() > NAMED {
        let _ = write!(line, "; and {} more", unusual.len() - NAMED);
    }
    (!unusual.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests;
