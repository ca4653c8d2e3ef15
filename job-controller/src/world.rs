//! Builders for tests: a Job, its Pods, and the snapshot of a sync.

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Decision, Explanation},
    pod_creation_pauses::PodCreationPause,
    prelude::*,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    jobs::{
        JobController,
        decide::decide,
        observe::claim_pods,
        plan::{JobSyncPlan, NewPod, PodToDelete, ScalingDecision},
        snapshot::{DecisionSettings, FailureRecord, SharedPod, Snapshot},
    },
    objects::{
        JOB_COMPLETION_INDEX_ANNOTATION, JOB_INDEX_FAILURE_COUNT_ANNOTATION,
        JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION, JOB_TRACKING_FINALIZER, JOBS, Job, JobStatus,
    },
};

/// Returns the time that lies this many seconds after 2027-01-15T08:00:00Z, the time of every sync in tests.
pub(crate) fn sync_time_plus_seconds(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(second)
}

pub(crate) fn default_decision_settings() -> DecisionSettings {
    DecisionSettings {
        max_uncounted_pods: 500,
        max_pods_per_sync: 500,
        pod_failure_backoff: Duration::from_secs(10),
        pod_failure_backoff_max: Duration::from_mins(10),
        sync_batch_period: Duration::from_secs(1),
        clears_start_time_on_suspend: true,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct JobBuilder(pub(crate) Value);

/// Builds a Job with one completion and the UID `u-job`, started 60 s before the sync. The Job selects the label `job=j`.
pub(crate) fn job(name: &str) -> JobBuilder {
    JobBuilder(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u-job", "generation": 1, "resourceVersion": "5"},
        "spec": {"parallelism": 1, "completions": 1, "selector": {"matchLabels": {"job": "j"}},
            "template": {"metadata": {"labels": {"job": "j"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": {"startTime": sync_time_plus_seconds(-60).to_string(), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}},
    }))
}

impl JobBuilder {
    pub(crate) fn spec_field(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][field] = value.into();
        self
    }
    pub(crate) fn completions(self, completions: Option<u32>, parallelism: u32) -> Self {
        self.spec_field("completions", json!(completions)).spec_field("parallelism", parallelism)
    }
    pub(crate) fn indexed(self, completions: u32, parallelism: u32) -> Self {
        self.completions(Some(completions), parallelism).spec_field("completionMode", "Indexed")
    }
    pub(crate) fn status_field(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["status"][field] = value.into();
        self
    }
    pub(crate) fn condition(mut self, kind: &str, status: &str, reason: &str, message: &str) -> Self {
        let time = sync_time_plus_seconds(-30).to_string();
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
        self.0["metadata"]["deletionTimestamp"] = json!(sync_time_plus_seconds(-1).to_string());
        self
    }
    pub(crate) fn build_job(&self) -> Job {
        serde_json::from_str(&self.0.to_string()).unwrap()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PodBuilder(pub(crate) Value);

/// Builds a running Pod that the Job with UID `u-job` controls: ready, on a node, with the finalizer.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-job", "controller": true});
    PodBuilder(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"job": "j"},
            "creationTimestamp": sync_time_plus_seconds(-3600).to_string(), "annotations": {}, "ownerReferences": [owner], "finalizers": [JOB_TRACKING_FINALIZER]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": sync_time_plus_seconds(-3000).to_string()}]},
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
        self.annotate(JOB_COMPLETION_INDEX_ANNOTATION, index)
    }
    pub(crate) fn index_failures(self, counted: u32, ignored: u32) -> Self {
        let this = self.annotate(JOB_INDEX_FAILURE_COUNT_ANNOTATION, counted);
        if ignored > 0 { this.annotate(JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION, ignored) } else { this }
    }
    pub(crate) fn phase(self, phase: &str) -> Self {
        self.set("status", "phase", json!(phase))
    }
    pub(crate) fn unready(self) -> Self {
        self.set("status", "conditions", json!([]))
    }
    fn ended(self, phase: &str, code: i32, second: i64) -> Self {
        let terminated = json!({"exitCode": code, "finishedAt": sync_time_plus_seconds(second).to_string()});
        let statuses = json!([{"name": "c", "state": {"terminated": terminated}}]);
        self.phase(phase).unready().set("status", "containerStatuses", statuses)
    }
    pub(crate) fn succeeded(self) -> Self {
        self.ended("Succeeded", 0, -5)
    }
    pub(crate) fn failed(self) -> Self {
        self.failed_with_exit_code_at(1, -100)
    }
    pub(crate) fn failed_with_exit_code_at(self, code: i32, second: i64) -> Self {
        self.ended("Failed", code, second)
    }
    pub(crate) fn condition(mut self, kind: &str) -> Self {
        let list = self.0["status"]["conditions"].as_array_mut().unwrap();
        list.push(json!({"type": kind, "status": "True"}));
        self
    }
    pub(crate) fn container_restarts(self, times: i32) -> Self {
        let regular = json!([{"name": "c", "restartCount": times - 1}]);
        let init = json!([{"name": "i", "restartCount": 1}]);
        self.set("status", "containerStatuses", regular).set("status", "initContainerStatuses", init)
    }
    pub(crate) fn deleting(self) -> Self {
        self.deleting_at(-100)
    }
    pub(crate) fn deleting_at(self, second: i64) -> Self {
        self.set("metadata", "deletionTimestamp", json!(sync_time_plus_seconds(second).to_string()))
    }
    pub(crate) fn created_at(self, second: i64) -> Self {
        self.set("metadata", "creationTimestamp", json!(sync_time_plus_seconds(second).to_string()))
    }
    pub(crate) fn without_node(self) -> Self {
        self.set("spec", "nodeName", json!(null)).phase("Pending").unready()
    }
    pub(crate) fn without_finalizer(self) -> Self {
        self.set("metadata", "finalizers", json!([]))
    }
    pub(crate) fn orphan(self) -> Self {
        self.set("metadata", "ownerReferences", json!([])).without_finalizer()
    }
    pub(crate) fn labels(self, labels: Value) -> Self {
        self.set("metadata", "labels", labels)
    }
    pub(crate) fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().unwrap().to_owned()
    }
    pub(crate) fn build(&self) -> SharedPod {
        Arc::new(serde_json::from_str(&self.0.to_string()).unwrap())
    }
}

/// The parts of a [`Snapshot`] for tests: a Job, its Pods, and the state that the process remembers.
#[derive(Clone, Debug)]
pub(crate) struct SyncFixture {
    pub(crate) job: JobBuilder,
    pub(crate) pods: Vec<PodBuilder>,
    pub(crate) pending_writes: Option<PendingWrites>,
    pub(crate) pod_creation_pause: Option<PodCreationPause>,
    pub(crate) decision_settings: DecisionSettings,
    pub(crate) pod_uids_with_removed_finalizer: Vec<&'static str>,
    pub(crate) failure_record: FailureRecord,
}

pub(crate) fn pending_writes(stale_resource: Option<Resource>) -> PendingWrites {
    let description = "2 deleted pods".to_owned();
    PendingWrites { description, max_wait: Duration::from_secs(9), stale_resource }
}

impl JobBuilder {
    pub(crate) fn with_pods(self, pods: impl IntoIterator<Item = PodBuilder>) -> SyncFixture {
        SyncFixture {
            job: self,
            pods: pods.into_iter().collect(),
            pending_writes: None,
            pod_creation_pause: None,
            decision_settings: default_decision_settings(),
            pod_uids_with_removed_finalizer: Vec::new(),
            failure_record: FailureRecord::default(),
        }
    }
}

impl SyncFixture {
    pub(crate) fn with_pending_writes(mut self) -> Self {
        self.pending_writes = Some(pending_writes(None));
        self
    }
    pub(crate) fn with_stale_cache(self) -> Self {
        Self { pending_writes: Some(pending_writes(Some(JOBS))), ..self }
    }
    pub(crate) fn with_decision_settings(mut self, change: impl FnOnce(&mut DecisionSettings)) -> Self {
        change(&mut self.decision_settings);
        self
    }
    pub(crate) fn with_removed_finalizers(mut self, pods: &[&'static str]) -> Self {
        self.pod_uids_with_removed_finalizer = pods.to_vec();
        self
    }
    pub(crate) fn with_failure_record(mut self, failures: u32, last: i64) -> Self {
        self.failure_record = FailureRecord {
            failure_count_since_success: failures,
            last_failure_at: Some(sync_time_plus_seconds(last)),
        };
        self
    }
    pub(crate) fn explain(&self) -> Explanation {
        let snapshot = self.snapshot();
        Decision::<JobController>::with_forecast(&snapshot, snapshot.now).explain()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let job = Arc::new(self.job.build_job());
        let owner = Owner::new(JOBS, &job.metadata);
        let pods: Vec<SharedPod> = self.pods.iter().map(PodBuilder::build).collect();
        let (pod_claims, unselected_pods) = claim_pods(&owner, &job.selector, pods, Vec::new());
        let uids_with_removed_finalizer = self.pod_uids_with_removed_finalizer.iter().map(|uid| Uid::new(uid));
        Snapshot {
            pod_claims,
            unselected_pods,
            pod_uids_with_removed_finalizer: Arc::new(uids_with_removed_finalizer.collect()),
            pod_finish_first_seen_at: Arc::default(),
            failure_record: self.failure_record,
            scheduling_objects: None,
            pod_creation_pause: self.pod_creation_pause,
            pending_writes: self.pending_writes.clone(),
            decision_settings: self.decision_settings,
            now: sync_time_plus_seconds(0),
            owner,
            job,
        }
    }
    /// Returns the plan of the sync. Panics if the Job is not synced, for example because it has finished.
    pub(crate) fn plan(&self) -> JobSyncPlan {
        decide(&self.snapshot()).sync_plan.unwrap()
    }
    /// Returns the first status that the plan writes.
    pub(crate) fn first_status(&self) -> JobStatus {
        self.plan().first_status_write.status
    }
    /// Returns condition type, reason and message of the Job's end; `None` if the Job does not end.
    pub(crate) fn job_end_text(&self) -> Option<String> {
        let end = self.plan().first_status_write.job_end_to_write?;
        Some(format!("{} {}: {}", end.interim_condition_type(), end.reason, end.message))
    }
    /// Returns the names of counted Pods that lose their finalizer.
    pub(crate) fn counted_pod_names_losing_finalizer(&self) -> Vec<String> {
        let JobSyncPlan { first_status_write, pod_summary, .. } = self.plan();
        let name = |position: &usize| pod_summary.pods[*position].pod.meta().name.to_string();
        first_status_write.pod_positions_to_remove_finalizer_from.iter().map(name).collect()
    }
    /// Returns the names of Pods that lose their finalizer without being counted.
    pub(crate) fn uncounted_pod_names_losing_finalizer(&self) -> Vec<String> {
        let plan = decide(&self.snapshot());
        plan.uncounted_pods_to_remove_finalizer_from.iter().map(|pod| pod.meta().name.to_string()).collect()
    }
    pub(crate) fn creates_or_deletes_pods(&self) -> bool {
        let scaling_decision = self.plan().scaling_decision;
        matches!(&scaling_decision, ScalingDecision::Create { pods, .. } if !pods.is_empty())
            || !scaling_decision.pods_to_delete().is_empty()
    }
    /// Describes what the plan creates or deletes, for example `create 3` or `delete a b`.
    pub(crate) fn describe_scaling(&self) -> String {
        let Ok(plan) = decide(&self.snapshot()).sync_plan else { return "nothing".to_owned() };
        let name = |pod: &PodToDelete| format!(" {}", plan.pod_summary.pods[pod.pod_position].pod.meta().name);
        let names = |pods_to_delete: &[PodToDelete]| pods_to_delete.iter().map(name).collect::<String>();
        match &plan.scaling_decision {
            ScalingDecision::NoChange => "nothing".to_owned(),
            ScalingDecision::NotAllowed(why) => format!("not allowed: {why}"),
            ScalingDecision::CreationPaused(pause) => format!("paused: {:?}", pause.reason),
            ScalingDecision::JobTerminating => "deleting".to_owned(),
            ScalingDecision::NoIndexLeft { missing_pods: missing } => format!("no index for {missing}"),
            ScalingDecision::DeleteAsFailed(pods) => format!("fail{}", names(pods)),
            ScalingDecision::DeleteUncounted(pods) => format!("delete uncounted{}", names(pods)),
            ScalingDecision::DeleteSuspended(pods) => format!("suspend{}", names(pods)),
            ScalingDecision::ScaleDown(pods) => format!("delete{}", names(pods)),
            ScalingDecision::PostponeCreate { missing_pods: missing, remaining_backoff: wait } => {
                format!("wait {}s for {missing}", wait.as_secs_f64())
            }
            ScalingDecision::Create { pods, remaining_backoff: wait, .. }
                if pods.iter().all(|pod| pod.completion_index.is_none()) =>
            {
                assert!(wait.is_none());
                format!("create {}", pods.len())
            }
            ScalingDecision::Create { pods, remaining_backoff: wait, .. } => {
                let index = |pod: &NewPod| {
                    let index = pod.completion_index.unwrap();
                    match pod.index_failure_counts {
                        Some(f) if f.ignored_failure_count > 0 => {
                            format!("{index}/{}+{}", f.failure_count, f.ignored_failure_count)
                        }
                        Some(f) => format!("{index}/{}", f.failure_count),
                        None => index.to_string(),
                    }
                };
                let wait = wait.map_or_else(String::new, |wait| format!(", wait {}s", wait.as_secs_f64()));
                format!("create {}{wait}", pods.iter().map(index).collect::<Vec<_>>().join(" "))
            }
        }
    }
}
