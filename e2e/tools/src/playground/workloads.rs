//! StatefulSets, DaemonSets, Services, Jobs and CronJobs from the accepted writes, each in one row.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use common::{
    intern::Labels,
    meta::{NamespacedName, Uid},
};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::world::{Census, World};
use crate::{sandbox::Write, suite::condition};

/// The label that names the Service of an `EndpointSlice`.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

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
    /// The numbers, as text.
    pub(super) text: String,
    /// Its Pods; for a CronJob, those of all its Jobs.
    pub(super) pods: Census,
}

/// A stored object, and what rows show of it.
#[derive(Debug)]
struct Object(Arc<Value>);

impl Object {
    /// The number at a pointer; 0 if there is none.
    fn number(&self, pointer: &str) -> i64 {
        self.0.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    /// The text at a pointer; empty if there is none.
    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn uid(&self) -> Uid {
        Uid::new(self.text("/metadata/uid"))
    }

    /// The UID of its controller.
    fn owner(&self) -> Option<&str> {
        let owners = self.0["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
    }

    fn is_observed(&self) -> bool {
        self.number("/status/observedGeneration") >= self.number("/metadata/generation")
    }

    /// The image of the first container of its template.
    fn image(&self) -> &str {
        self.text("/spec/template/spec/containers/0/image")
    }

    fn is_suspended(&self) -> bool {
        self.0["spec"]["suspend"] == true
    }

    fn pods(&self, world: &World, now: Timestamp) -> Census {
        let min_ready_seconds = i32::try_from(self.number("/spec/minReadySeconds")).unwrap_or(i32::MAX);
        world.census_of_owner(&self.uid(), min_ready_seconds, now)
    }

    /// The progress of a Job.
    fn progress_of_job(&self) -> (Progress, &'static str) {
        let is = |kind: &str| condition(&self.0, kind).is_some_and(|condition| condition["status"] == "True");
        if is("Complete") {
            (Progress::Done, "complete")
        } else if is("Failed") {
            (Progress::Failed, "failed")
        } else if self.is_suspended() {
            (Progress::Suspended, "suspended")
        } else {
            (Progress::Underway, "running")
        }
    }

    /// The progress of a set whose Pods are all wanted.
    fn progress_of_set(&self, is_complete: bool) -> (Progress, &'static str) {
        match (self.is_observed(), is_complete) {
            (false, _) => (Progress::Underway, "pending"),
            (true, false) => (Progress::Underway, "rolling"),
            (true, true) => (Progress::Done, "complete"),
        }
    }
}

type Objects = BTreeMap<NamespacedName, Object>;

/// The objects, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    stateful_sets: Objects,
    daemon_sets: Objects,
    services: Objects,
    slices: Objects,
    jobs: Objects,
    cron_jobs: Objects,
}

impl Workloads {
    /// Takes over the object of a write. Writes to other kinds have no effect.
    pub(super) fn apply(&mut self, write: &Write) {
        let objects = match (&*write.group, &*write.resource) {
            ("apps", "statefulsets") => &mut self.stateful_sets,
            ("apps", "daemonsets") => &mut self.daemon_sets,
            ("", "services") => &mut self.services,
            ("discovery.k8s.io", "endpointslices") => &mut self.slices,
            ("batch", "jobs") => &mut self.jobs,
            ("batch", "cronjobs") => &mut self.cron_jobs,
            _ => return,
        };
        let key = NamespacedName::new(&write.namespace, &write.name);
        match write.after() {
            Some(object) => objects.insert(key, Object(object)),
            None => objects.remove(&key),
        };
    }

    /// All rows: by kind, and by name within a kind. Jobs of a CronJob are part of its row.
    pub(super) fn rows(&self, world: &World, now: Timestamp) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |kind, key: &NamespacedName, object: &Object, (progress, word), text, pods| {
            let generation = object.number("/metadata/generation");
            rows.push(Row { kind, key: key.clone(), generation, progress, word, text, pods });
        };
        for (key, set) in &self.stateful_sets {
            let wanted = set.0["spec"]["replicas"].as_i64().unwrap_or(1);
            let [replicas, ready, updated] =
                ["replicas", "readyReplicas", "updatedReplicas"].map(|field| set.number(&format!("/status/{field}")));
            let is_updated = updated >= wanted - set.number("/spec/updateStrategy/rollingUpdate/partition");
            let progress = set.progress_of_set(replicas == wanted && ready == wanted && is_updated);
            let text = format!("new {updated}/{wanted}  ready {ready}  {}", set.image());
            add("StatefulSet", key, set, progress, text, set.pods(world, now));
        }
        for (key, set) in &self.daemon_sets {
            let [wanted, updated, available] = ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"]
                .map(|field| set.number(&format!("/status/{field}")));
            let progress = set.progress_of_set(updated >= wanted && available >= wanted);
            let text = format!("new {updated}/{wanted} nodes  available {available}  {}", set.image());
            add("DaemonSet", key, set, progress, text, set.pods(world, now));
        }
        for (key, service) in &self.services {
            let selector = Labels::deserialize(&service.0["spec"]["selector"]).unwrap_or_default();
            if !selector.is_empty() {
                let (progress, text) = self.endpoints(key, service, world.ready_pods(&key.namespace, &selector));
                add("Service", key, service, progress, text, Census::default());
            }
        }
        let is_of_cron_job = |job: &Object| {
            job.owner()
                .is_some_and(|owner| self.cron_jobs.values().any(|cron_job| cron_job.text("/metadata/uid") == owner))
        };
        for (key, job) in self.jobs.iter().filter(|(_, job)| !is_of_cron_job(job)) {
            let [active, succeeded, failed] =
                ["active", "succeeded", "failed"].map(|field| job.number(&format!("/status/{field}")));
            let wanted = job.0["spec"]["completions"].as_i64().map_or_else(String::new, |n| format!("/{n}"));
            let mut text = format!("succeeded {succeeded}{wanted}  active {active}");
            if failed > 0 {
                let _ = write!(text, "  failed {failed}");
            }
            add("Job", key, job, job.progress_of_job(), text, job.pods(world, now));
        }
        for (key, cron_job) in &self.cron_jobs {
            let is_owned = |job: &&Object| job.owner() == Some(cron_job.text("/metadata/uid"));
            let jobs: Vec<&Object> = self.jobs.values().filter(is_owned).collect();
            let pods = jobs.iter().map(|job| job.pods(world, now)).fold(Census::default(), std::ops::Add::add);
            let last =
                jobs.iter().max_by_key(|job| (job.text("/metadata/creationTimestamp"), job.text("/metadata/name")));
            let last = last.map_or_else(
                || "no Job yet".to_owned(),
                |job| {
                    let plural = if jobs.len() == 1 { "" } else { "s" };
                    format!(
                        "{} Job{plural}, last {} {}",
                        jobs.len(),
                        job.text("/metadata/name"),
                        job.progress_of_job().1
                    )
                },
            );
            let has = |field: &str| !cron_job.text(&format!("/status/{field}")).is_empty();
            let progress = if cron_job.is_suspended() {
                (Progress::Suspended, "suspended")
            } else if has("lastScheduleTime") && has("lastSuccessfulTime") {
                (Progress::Done, "has run")
            } else {
                (Progress::Underway, "scheduled")
            };
            add("CronJob", key, cron_job, progress, format!("\"{}\", {last}", cron_job.text("/spec/schedule")), pods);
        }
        rows
    }

    /// The progress of a Service that has to lead to so many Pods, and its numbers.
    fn endpoints(&self, key: &NamespacedName, service: &Object, expected: usize) -> ((Progress, &'static str), String) {
        let is_its = |slice: &&Object| slice.0["metadata"]["labels"][SERVICE_NAME] == *key.name;
        let in_namespace = self.slices.iter().filter(|(slice, _)| slice.namespace == key.namespace);
        let slices: Vec<&Object> = in_namespace.map(|(_, slice)| slice).filter(is_its).collect();
        let endpoints = slices.iter().flat_map(|slice| slice.0["endpoints"].as_array().into_iter().flatten());
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false).count();
        let address = match service.text("/spec/clusterIP") {
            "None" => "headless",
            address => address,
        };
        let plural = if slices.len() == 1 { "" } else { "s" };
        let progress = match (ready == expected, ready) {
            (false, _) => (Progress::Underway, "updating"),
            (true, 0) => (Progress::Done, "empty"),
            (true, _) => (Progress::Done, "current"),
        };
        (progress, format!("endpoints {ready}/{expected} ready Pods, {} slice{plural}, {address}", slices.len()))
    }
}

impl Row {
    /// The row in one line.
    pub(super) fn line(&self) -> String {
        let states = self.pods.line();
        let pods = if states.is_empty() { states } else { format!(" | Pods: {states}") };
        format!("{}: {}{pods}", self.word, self.text)
    }
}

#[cfg(test)]
mod tests;
