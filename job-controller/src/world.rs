//! Builders for tests: a Job, its Pods, and the snapshot of a sync.

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Decision, Explanation},
    map::HashSet,
    meta::Uid,
    refs::Owner,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    jobs::{
        JobController,
        decide::decide,
        observe::claim,
        plan::{Manage, NewPod, SyncPlan, Victim},
        snapshot::{Limits, PodRef, Record, Snapshot, UnseenWrites},
    },
    objects::{COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, JOB_TRACKING, JOBS, Job, Status},
};

/// Returns the time that lies this many seconds after 2027-01-15T08:00:00Z, the time of every sync in tests.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(second)
}

pub(crate) fn limits() -> Limits {
    Limits {
        named_pods: 500,
        pods: 500,
        failure_backoff: Duration::from_secs(10),
        failure_backoff_max: Duration::from_mins(10),
        batch: Duration::from_secs(1),
        clears_start_time: true,
    }
}

/// A Job under construction, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct JobBuilder(pub(crate) Value);

/// Builds a Job with one completion and the UID `u-job`, started a minute ago. It selects Pods with the label `job=j`.
pub(crate) fn job(name: &str) -> JobBuilder {
    JobBuilder(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u-job", "generation": 1, "resourceVersion": "5"},
        "spec": {"parallelism": 1, "completions": 1, "selector": {"matchLabels": {"job": "j"}},
            "template": {"metadata": {"labels": {"job": "j"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": {"startTime": at(-60).to_string(), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}},
    }))
}

impl JobBuilder {
    pub(crate) fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][field] = value.into();
        self
    }
    pub(crate) fn completions(self, completions: Option<u32>, parallelism: u32) -> Self {
        self.spec("completions", json!(completions)).spec("parallelism", parallelism)
    }
    pub(crate) fn indexed(self, completions: u32, parallelism: u32) -> Self {
        self.completions(Some(completions), parallelism).spec("completionMode", "Indexed")
    }
    pub(crate) fn status(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["status"][field] = value.into();
        self
    }
    pub(crate) fn condition(mut self, kind: &str, status: &str, reason: &str, message: &str) -> Self {
        let time = at(-30).to_string();
        let new = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastProbeTime": time, "lastTransitionTime": time});
        let list = &mut self.0["status"]["conditions"];
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut().unwrap().push(new);
        self
    }
    pub(crate) fn deleting(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!(at(-1).to_string());
        self
    }
    pub(crate) fn read(&self) -> Job {
        serde_json::from_str(&self.0.to_string()).unwrap()
    }
}

/// A Pod under construction, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// Builds a running Pod that the Job with UID `u-job` controls: ready, on a node, with the finalizer.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-job", "controller": true});
    PodBuilder(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"job": "j"},
            "creationTimestamp": at(-3600).to_string(), "annotations": {}, "ownerReferences": [owner], "finalizers": [JOB_TRACKING]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(-3000).to_string()}]},
    }))
}

impl PodBuilder {
    fn set(mut self, section: &str, field: &str, value: Value) -> Self {
        self.0[section][field] = value;
        self
    }
    fn annotate(mut self, key: &str, value: impl ToString) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value.to_string());
        self
    }
    pub(crate) fn index(self, index: impl ToString) -> Self {
        self.annotate(COMPLETION_INDEX, index)
    }
    pub(crate) fn failures(self, counted: u32, ignored: u32) -> Self {
        let this = self.annotate(INDEX_FAILURE_COUNT, counted);
        if ignored > 0 { this.annotate(INDEX_IGNORED_FAILURE_COUNT, ignored) } else { this }
    }
    pub(crate) fn phase(self, phase: &str) -> Self {
        self.set("status", "phase", json!(phase))
    }
    pub(crate) fn unready(self) -> Self {
        self.set("status", "conditions", json!([]))
    }
    fn ended(self, phase: &str, code: i32, second: i64) -> Self {
        let terminated = json!({"exitCode": code, "finishedAt": at(second).to_string()});
        self.phase(phase).unready().set(
            "status",
            "containerStatuses",
            json!([{"name": "c", "state": {"terminated": terminated}}]),
        )
    }
    pub(crate) fn succeeded(self) -> Self {
        self.ended("Succeeded", 0, -5)
    }
    pub(crate) fn failed(self) -> Self {
        self.failed_at(1, -100)
    }
    pub(crate) fn failed_at(self, code: i32, second: i64) -> Self {
        self.ended("Failed", code, second)
    }
    pub(crate) fn condition(mut self, kind: &str) -> Self {
        let list = self.0["status"]["conditions"].as_array_mut().unwrap();
        list.push(json!({"type": kind, "status": "True"}));
        self
    }
    pub(crate) fn restarted(self, times: i32) -> Self {
        let init = json!([{"name": "i", "restartCount": 1}]);
        self.set("status", "containerStatuses", json!([{"name": "c", "restartCount": times - 1}])).set(
            "status",
            "initContainerStatuses",
            init,
        )
    }
    pub(crate) fn deleting(self) -> Self {
        self.set("metadata", "deletionTimestamp", json!(at(-100).to_string()))
    }
    pub(crate) fn created(self, second: i64) -> Self {
        self.set("metadata", "creationTimestamp", json!(at(second).to_string()))
    }
    pub(crate) fn unassigned(self) -> Self {
        self.set("spec", "nodeName", json!(null)).phase("Pending").unready()
    }
    pub(crate) fn untracked(self) -> Self {
        self.set("metadata", "finalizers", json!([]))
    }
    pub(crate) fn orphan(self) -> Self {
        self.set("metadata", "ownerReferences", json!([])).untracked()
    }
    pub(crate) fn labels(self, labels: Value) -> Self {
        self.set("metadata", "labels", labels)
    }
    pub(crate) fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().unwrap().to_owned()
    }
    pub(crate) fn build(&self) -> PodRef {
        Arc::new(serde_json::from_str(&self.0.to_string()).unwrap())
    }
}

/// A Job and its Pods under construction, and the remembered state, from which a test makes the input of a sync.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) job: JobBuilder,
    pub(crate) pods: Vec<PodBuilder>,
    pub(crate) unseen_writes: bool,
    pub(crate) terminating_namespace: bool,
    pub(crate) is_stale: bool,
    pub(crate) limits: Limits,
    pub(crate) untracked_here: Vec<&'static str>,
    pub(crate) backoff: Record,
}

impl JobBuilder {
    pub(crate) fn with(self, pods: impl IntoIterator<Item = PodBuilder>) -> World {
        World {
            job: self,
            pods: pods.into_iter().collect(),
            unseen_writes: false,
            terminating_namespace: false,
            is_stale: false,
            limits: limits(),
            untracked_here: Vec::new(),
            backoff: Record::default(),
        }
    }
}

impl World {
    pub(crate) fn unseen_writes(mut self) -> Self {
        self.unseen_writes = true;
        self
    }
    pub(crate) fn stale(self) -> Self {
        Self { is_stale: true, ..self.unseen_writes() }
    }
    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }
    pub(crate) fn untracked_here(mut self, pods: &[&'static str]) -> Self {
        self.untracked_here = pods.to_vec();
        self
    }
    pub(crate) fn backoff(mut self, failures: u32, last: i64) -> Self {
        self.backoff = Record { failures, last: Some(at(last)) };
        self
    }
    pub(crate) fn explain(&self) -> Explanation {
        let snapshot = self.snapshot();
        Decision::<JobController>::with_forecast(&snapshot, snapshot.now).explain()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let job = Arc::new(self.job.read());
        let owner = Owner::new(JOBS, &job.metadata);
        let pods: Vec<PodRef> = self.pods.iter().map(PodBuilder::build).collect();
        let why = "2 deleted pods".to_owned();
        let unseen_writes = UnseenWrites { why, at_most: Duration::from_secs(9), is_stale: self.is_stale };
        let (claims, unselected) = claim(&owner, &job.selector, pods, Vec::new());
        Snapshot {
            claims,
            unselected,
            untracked_here: Arc::new(self.untracked_here.iter().map(|uid| Uid::new(uid)).collect::<HashSet<Uid>>()),
            seen_ended: Arc::default(),
            backoff: self.backoff,
            scheduling: None,
            terminating_namespace: self.terminating_namespace,
            unseen_writes: self.unseen_writes.then_some(unseen_writes),
            limits: self.limits,
            now: at(0),
            owner,
            job,
        }
    }
    /// Returns the plan of the sync. Panics if the Job is not synced, for example because it has finished.
    pub(crate) fn plan(&self) -> SyncPlan {
        decide(&self.snapshot()).sync.unwrap()
    }
    /// Returns the first status that the plan writes.
    pub(crate) fn status(&self) -> Status {
        self.plan().tracked.status
    }
    /// Returns condition type, reason and message of the Job's end, if it ends.
    pub(crate) fn end(&self) -> Option<String> {
        let end = self.plan().managed.end_to_write?;
        Some(format!("{} {}: {}", end.interim(), end.reason, end.message))
    }
    /// Returns the names of counted Pods that lose their finalizer.
    pub(crate) fn untracks(&self) -> Vec<String> {
        let plan = self.plan();
        plan.tracked.untrack.iter().map(|at| plan.situation.pods[*at].pod.meta().name.to_string()).collect()
    }
    /// Returns the names of Pods that lose their finalizer without being counted.
    pub(crate) fn untracks_uncounted(&self) -> Vec<String> {
        decide(&self.snapshot()).untrack_uncounted.iter().map(|pod| pod.meta().name.to_string()).collect()
    }
    /// Whether the plan creates or deletes Pods.
    pub(crate) fn acts(&self) -> bool {
        match self.plan().manage {
            Manage::Create { pods, .. } => !pods.is_empty(),
            manage => !manage.victims().is_empty(),
        }
    }
    /// Describes what the plan creates or deletes, for example `create 3` or `delete a b`.
    pub(crate) fn does(&self) -> String {
        let Ok(plan) = decide(&self.snapshot()).sync else { return "nothing".to_owned() };
        let name = |at: usize| plan.situation.pods[at].pod.meta().name.to_string();
        let names =
            |victims: &[Victim]| victims.iter().map(|victim| name(victim.position)).collect::<Vec<_>>().join(" ");
        match &plan.manage {
            Manage::Nothing => "nothing".to_owned(),
            Manage::NotAllowed(why) => format!("not allowed: {why}"),
            Manage::Deleting => "deleting".to_owned(),
            Manage::NoIndexLeft { missing } => format!("no index for {missing}"),
            Manage::DeleteAsFailed(victims) => format!("fail {}", names(victims)).trim().to_owned(),
            Manage::DeleteUncounted(victims) => format!("delete uncounted {}", names(victims)).trim().to_owned(),
            Manage::Suspend(victims) => format!("suspend {}", names(victims)).trim().to_owned(),
            Manage::Remove(victims) => format!("delete {}", names(victims)),
            Manage::Postpone { missing, wait } => format!("wait {}s for {missing}", wait.as_secs_f64()),
            Manage::Create { pods, wait, .. } if pods.iter().all(|pod| pod.index.is_none()) => {
                assert!(wait.is_none());
                format!("create {}", pods.len())
            }
            Manage::Create { pods, wait, .. } => {
                let index = |pod: &NewPod| {
                    let index = pod.index.unwrap();
                    match pod.failures {
                        Some(f) if f.ignored > 0 => format!("{index}/{}+{}", f.counted, f.ignored),
                        Some(f) => format!("{index}/{}", f.counted),
                        None => index.to_string(),
                    }
                };
                let wait = wait.map_or_else(String::new, |wait| format!(", wait {}s", wait.as_secs_f64()));
                format!("create {}{wait}", pods.iter().map(index).collect::<Vec<_>>().join(" "))
            }
        }
    }
}
