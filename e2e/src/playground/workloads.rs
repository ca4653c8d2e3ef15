//! StatefulSets, DaemonSets, Services, Jobs and CronJobs from the accepted writes, each in one row.

use std::{collections::BTreeMap, fmt::Write as _};

use common::{
    conditions::{self, Condition},
    intern::Labels,
    meta::{Meta, NamespacedName, Uid},
};
use jiff::Timestamp;
use serde::Deserialize;

use super::world::{Census, World, read};
use crate::sandbox::Write;

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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatefulSet {
    metadata: Meta,
    spec: StatefulSetSpec,
    status: StatefulSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatefulSetSpec {
    replicas: Option<i32>,
    min_ready_seconds: i32,
    update_strategy: UpdateStrategy,
    template: super::world::Template,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    rolling_update: StatefulSetRollingUpdate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatefulSetRollingUpdate {
    partition: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatefulSetStatus {
    observed_generation: i64,
    replicas: i32,
    ready_replicas: i32,
    updated_replicas: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DaemonSet {
    metadata: Meta,
    spec: DaemonSetSpec,
    status: DaemonSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DaemonSetSpec {
    min_ready_seconds: i32,
    template: super::world::Template,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DaemonSetStatus {
    observed_generation: i64,
    desired_number_scheduled: i32,
    updated_number_scheduled: i32,
    number_available: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    metadata: Meta,
    spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    selector: Labels,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Slice {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    conditions: EndpointConditions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndpointConditions {
    ready: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Job {
    metadata: Meta,
    spec: JobSpec,
    status: JobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    completions: Option<i32>,
    suspend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobStatus {
    active: i32,
    succeeded: i32,
    failed: i32,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CronJob {
    metadata: Meta,
    spec: CronJobSpec,
    status: CronJobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CronJobSpec {
    schedule: String,
    suspend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronJobStatus {
    last_schedule_time: Option<Timestamp>,
    last_successful_time: Option<Timestamp>,
}

/// Reads `null` as an empty list, because Go encodes empty lists like that.
fn null_is_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The objects, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    stateful_sets: BTreeMap<NamespacedName, StatefulSet>,
    daemon_sets: BTreeMap<NamespacedName, DaemonSet>,
    services: BTreeMap<NamespacedName, Service>,
    slices: BTreeMap<NamespacedName, Slice>,
    jobs: BTreeMap<NamespacedName, Job>,
    cron_jobs: BTreeMap<NamespacedName, CronJob>,
}

/// Stores or removes the object of a write.
fn store<K: for<'a> Deserialize<'a>>(objects: &mut BTreeMap<NamespacedName, K>, write: &Write) {
    let key = NamespacedName::new(&write.namespace, &write.name);
    match write.after().as_deref().and_then(read) {
        Some(object) => objects.insert(key, object),
        None => objects.remove(&key),
    };
}

impl Workloads {
    /// Takes over the object of a write. Writes to other kinds have no effect.
    pub(super) fn apply(&mut self, write: &Write) {
        match (&*write.group, &*write.resource) {
            ("apps", "statefulsets") => store(&mut self.stateful_sets, write),
            ("apps", "daemonsets") => store(&mut self.daemon_sets, write),
            ("", "services") => store(&mut self.services, write),
            ("discovery.k8s.io", "endpointslices") => store(&mut self.slices, write),
            ("batch", "jobs") => store(&mut self.jobs, write),
            ("batch", "cronjobs") => store(&mut self.cron_jobs, write),
            _ => {}
        }
    }

    /// All rows: by kind, and by name within a kind. Jobs of a CronJob are part of its row.
    pub(super) fn rows(&self, world: &World, now: Timestamp) -> Vec<Row> {
        let mut rows: Vec<Row> = self.stateful_sets.iter().map(|(key, set)| set.row(key, world, now)).collect();
        rows.extend(self.daemon_sets.iter().map(|(key, set)| set.row(key, world, now)));
        let services = self.services.iter().filter(|(_, service)| !service.spec.selector.is_empty());
        rows.extend(services.map(|(key, service)| self.service(key, service, world)));
        let jobs = self.jobs.iter().filter(|(_, job)| !self.belongs_to_cron_job(job));
        rows.extend(jobs.map(|(key, job)| job.row(key, world, now)));
        rows.extend(self.cron_jobs.iter().map(|(key, cron_job)| self.cron_job(key, cron_job, world, now)));
        rows
    }

    fn belongs_to_cron_job(&self, job: &Job) -> bool {
        let owner = job.metadata.controller();
        owner.is_some_and(|owner| {
            let key = NamespacedName::new(&job.metadata.namespace, &owner.name);
            self.cron_jobs.get(&key).is_some_and(|cron_job| cron_job.metadata.uid == owner.uid)
        })
    }

    fn service(&self, key: &NamespacedName, service: &Service, world: &World) -> Row {
        let slices = self.slices.values().filter(|slice| {
            slice.metadata.namespace == key.namespace && slice.metadata.labels.get(SERVICE_NAME) == Some(&*key.name)
        });
        let (mut count, mut ready) = (0_usize, 0_usize);
        for slice in slices {
            count += 1;
            ready += slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
        }
        let expected = world.ready_pods(&key.namespace, &service.spec.selector);
        let address = match service.spec.cluster_ip.as_str() {
            "None" => "headless",
            address => address,
        };
        let plural = if count == 1 { "" } else { "s" };
        let done = ready == expected;
        Row {
            kind: "Service",
            key: key.clone(),
            generation: service.metadata.generation,
            progress: if done { Progress::Done } else { Progress::Underway },
            word: match (done, ready) {
                (false, _) => "updating",
                (true, 0) => "empty",
                (true, _) => "current",
            },
            text: format!("endpoints {ready}/{expected} ready Pods, {count} slice{plural}, {address}"),
            pods: Census::default(),
        }
    }

    fn cron_job(&self, key: &NamespacedName, cron_job: &CronJob, world: &World, now: Timestamp) -> Row {
        let uid: &Uid = &cron_job.metadata.uid;
        let owned = |job: &&Job| job.metadata.controller().is_some_and(|owner| owner.uid == *uid);
        let jobs: Vec<&Job> = self.jobs.values().filter(owned).collect();
        let pods = jobs.iter().map(|job| job.pods(world, now)).fold(Census::default(), std::ops::Add::add);
        let last = jobs.iter().max_by_key(|job| (job.metadata.creation_timestamp, &job.metadata.name));
        let last = last.map_or_else(
            || "no Job yet".to_owned(),
            |job| format!("{} Jobs, last {} {}", jobs.len(), job.metadata.name, job.progress().1),
        );
        let last = if jobs.len() == 1 { last.replacen("Jobs", "Job", 1) } else { last };
        let (progress, word) = if cron_job.spec.suspend {
            (Progress::Suspended, "suspended")
        } else if cron_job.status.last_schedule_time.is_some() && cron_job.status.last_successful_time.is_some() {
            (Progress::Done, "has run")
        } else {
            (Progress::Underway, "scheduled")
        };
        let text = format!("\"{}\", {last}", cron_job.spec.schedule);
        Row { kind: "CronJob", key: key.clone(), generation: cron_job.metadata.generation, progress, word, text, pods }
    }
}

impl StatefulSet {
    fn row(&self, key: &NamespacedName, world: &World, now: Timestamp) -> Row {
        let (status, wanted) = (&self.status, self.spec.replicas.unwrap_or(1));
        let seen = status.observed_generation >= self.metadata.generation;
        let partition = self.spec.update_strategy.rolling_update.partition;
        let updated = status.updated_replicas >= wanted.saturating_sub(partition);
        let done = seen && status.replicas == wanted && status.ready_replicas == wanted && updated;
        Row {
            kind: "StatefulSet",
            key: key.clone(),
            generation: self.metadata.generation,
            progress: if done { Progress::Done } else { Progress::Underway },
            word: match (seen, done) {
                (false, _) => "pending",
                (true, false) => "rolling",
                (true, true) => "complete",
            },
            text: format!(
                "new {}/{wanted}  ready {}  {}",
                status.updated_replicas,
                status.ready_replicas,
                self.spec.template.image()
            ),
            pods: world.census_of_owner(&self.metadata.uid, self.spec.min_ready_seconds, now),
        }
    }
}

impl DaemonSet {
    fn row(&self, key: &NamespacedName, world: &World, now: Timestamp) -> Row {
        let status = &self.status;
        let wanted = status.desired_number_scheduled;
        let seen = status.observed_generation >= self.metadata.generation;
        let done = seen && status.updated_number_scheduled >= wanted && status.number_available >= wanted;
        Row {
            kind: "DaemonSet",
            key: key.clone(),
            generation: self.metadata.generation,
            progress: if done { Progress::Done } else { Progress::Underway },
            word: match (seen, done) {
                (false, _) => "pending",
                (true, false) => "rolling",
                (true, true) => "complete",
            },
            text: format!(
                "new {}/{wanted} nodes  available {}  {}",
                status.updated_number_scheduled,
                status.number_available,
                self.spec.template.image()
            ),
            pods: world.census_of_owner(&self.metadata.uid, self.spec.min_ready_seconds, now),
        }
    }
}

impl Job {
    fn progress(&self) -> (Progress, &'static str) {
        let is =
            |kind: &str| conditions::get(&self.status.conditions, kind).is_some_and(|c| c.status == conditions::TRUE);
        if is("Complete") {
            (Progress::Done, "complete")
        } else if is("Failed") {
            (Progress::Failed, "failed")
        } else if self.spec.suspend {
            (Progress::Suspended, "suspended")
        } else {
            (Progress::Underway, "running")
        }
    }

    fn pods(&self, world: &World, now: Timestamp) -> Census {
        world.census_of_owner(&self.metadata.uid, 0, now)
    }

    fn row(&self, key: &NamespacedName, world: &World, now: Timestamp) -> Row {
        let (progress, word) = self.progress();
        let JobStatus { active, succeeded, failed, .. } = self.status;
        let wanted = self.spec.completions.map_or_else(String::new, |n| format!("/{n}"));
        let mut text = format!("succeeded {succeeded}{wanted}  active {active}");
        if failed > 0 {
            let _ = write!(text, "  failed {failed}");
        }
        let pods = self.pods(world, now);
        Row { kind: "Job", key: key.clone(), generation: self.metadata.generation, progress, word, text, pods }
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
