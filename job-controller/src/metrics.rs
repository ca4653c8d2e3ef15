//! Metrics of Jobs and their Pods. The metrics of the queues are in `common`.

use std::{collections::BTreeSet, sync::Arc};

use common::metrics::{Counter, Counters, Histogram, Histograms, Metrics, Stability, exponential_buckets};
use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::{
    indexes::IndexSet,
    jobs::plan::{End, Verdict},
    objects::{Action, Job, Status},
};

/// The maximal number of values of `spec.managedBy` that become label values; further values are counted as `other`.
const MANAGERS: usize = 32;

/// The metric families of the Job loop. Clones share their values.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    sync_duration: Histograms,
    syncs: Counters,
    finished: Counters,
    pods_finished: Counters,
    finished_indexes: Counters,
    pods_creation: Counters,
    policy_actions: Counters,
    tracking_added: Counter,
    tracking_removed: Counter,
    external: Counters,
    managers: Arc<Mutex<BTreeSet<String>>>,
}

/// The value of the metric label `reason` for created Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// No Pod of the Job has failed or is terminating.
    New,
    /// Some Pods of the Job have failed or are terminating.
    RecreateTerminatingOrFailed,
    /// Some Pods of the Job have failed, and `spec.podReplacementPolicy` is `Failed`.
    RecreateFailed,
}

impl CreationReason {
    /// Returns the reason for new Pods of a Job with these numbers of failed and terminating Pods.
    pub fn of(job: &Job, failed: usize, terminating: usize) -> Self {
        if job.replaces_failed && failed > 0 {
            Self::RecreateFailed
        } else if failed > 0 || terminating > 0 {
            Self::RecreateTerminatingOrFailed
        } else {
            Self::New
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::RecreateTerminatingOrFailed => "recreate_terminating_or_failed",
            Self::RecreateFailed => "recreate_failed",
        }
    }
}

impl ControllerMetrics {
    /// Registers all metric families.
    pub fn new(metrics: &Metrics) -> Self {
        let tracking = metrics.counter(
            "job_controller_terminated_pods_tracking_finalizer_total",
            Stability::Beta,
            "Terminated Pods (phase Failed or Succeeded) with the finalizer batch.kubernetes.io/job-tracking: added to (add) or removed from (delete) this group",
            &["event"],
        );
        Self {
            sync_duration: metrics.histogram(
                "job_controller_job_sync_duration_seconds",
                Stability::Stable,
                "Duration of a sync of a Job",
                &["completion_mode", "result", "action"],
                exponential_buckets(0.004, 2.0, 15),
            ),
            syncs: metrics.counter(
                "job_controller_job_syncs_total",
                Stability::Stable,
                "Syncs of Jobs",
                &["completion_mode", "result", "action"],
            ),
            finished: metrics.counter(
                "job_controller_jobs_finished_total",
                Stability::Stable,
                "Jobs that finished",
                &["completion_mode", "result", "reason"],
            ),
            pods_finished: metrics.counter(
                "job_controller_job_pods_finished_total",
                Stability::Stable,
                "Finished Pods that are fully tracked",
                &["completion_mode", "result"],
            ),
            finished_indexes: metrics.counter(
                "job_controller_job_finished_indexes_total",
                Stability::Alpha,
                "Finished indexes, by how failures are limited",
                &["status", "backoffLimit"],
            ),
            pods_creation: metrics.counter(
                "job_controller_job_pods_creation_total",
                Stability::Alpha,
                "Pods created for Jobs, by reason and result of the request",
                &["reason", "status"],
            ),
            policy_actions: metrics.counter(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                Stability::Beta,
                "Failed Pods that a rule of a failure policy matched, by its action",
                &["action"],
            ),
            tracking_added: tracking.with(&["add"]),
            tracking_removed: tracking.with(&["delete"]),
            external: metrics.counter(
                "job_controller_jobs_by_external_controller_total",
                Stability::Alpha,
                "Jobs managed by another controller, by spec.managedBy; other beyond 32 managers",
                &["controller_name"],
            ),
            managers: Arc::default(),
        }
    }

    /// Counts a sync of a Job and records its duration.
    pub fn synced(&self, job: &Job, ok: bool, action: &str, took: SignedDuration) {
        let labels = [job.mode.as_str(), if ok { "success" } else { "error" }, action];
        self.sync_duration.with(&labels).observe(took.as_secs_f64().max(0.0));
        self.syncs.with(&labels).inc();
    }

    /// Counts a finished Job by completion mode, result and reason.
    pub fn finished(&self, job: &Job, end: &End) {
        let result = if end.verdict == Verdict::Success { "succeeded" } else { "failed" };
        self.finished.with(&[job.mode.as_str(), result, &end.reason]).inc();
    }

    /// Counts the Pods and indexes that are in the written status `after` and not in the status `before`.
    pub fn counted(&self, job: &Job, before: &Status, after: &Status) {
        let mode = job.mode.as_str();
        let grown = |before: usize, after: usize| after.saturating_sub(before) as u64;
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        let succeeded = if job.is_indexed() {
            let count = |text: &str| IndexSet::parse(text, job.indexes()).len();
            let limit = if job.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
            let indexes = if before.completed_indexes == after.completed_indexes {
                0
            } else {
                grown(count(&before.completed_indexes), count(&after.completed_indexes))
            };
            self.finished_indexes.with(&["succeeded", limit]).inc_by(indexes);
            if job.backoff_limit_per_index.is_some() && before.failed_indexes != after.failed_indexes {
                let count = |status: &Status| count(status.failed_indexes.as_deref().unwrap_or_default());
                self.finished_indexes.with(&["failed", limit]).inc_by(grown(count(before), count(after)));
            }
            indexes
        } else {
            grown(number(before.succeeded), number(after.succeeded))
        };
        self.pods_finished.with(&[mode, "succeeded"]).inc_by(succeeded);
        self.pods_finished.with(&[mode, "failed"]).inc_by(grown(number(before.failed), number(after.failed)));
    }

    /// Counts requests to create Pods for this reason: the numbers of successes and failures.
    pub fn created(&self, reason: CreationReason, succeeded: usize, failed: usize) {
        for (status, count) in [("succeeded", succeeded), ("failed", failed)] {
            if count > 0 {
                self.pods_creation.with(&[reason.as_str(), status]).inc_by(count as u64);
            }
        }
    }

    /// Counts failed Pods by the action that the failure policy chose for them.
    pub fn handled(&self, action: Action, pods: u64) {
        self.policy_actions.with(&[action.as_str()]).inc_by(pods);
    }

    /// Counts a Pod that enters or leaves the group of terminated Pods with the finalizer. True means inside the group.
    pub fn tracking(&self, before: bool, after: bool) {
        if after && !before {
            self.tracking_added.inc();
        } else if before && !after {
            self.tracking_removed.inc();
        }
    }

    /// Counts a Job that another controller manages; `by` is `spec.managedBy`.
    pub fn managed_externally(&self, by: &str) {
        let mut known = self.managers.lock();
        if known.len() < MANAGERS && !known.contains(by) {
            known.insert(by.to_owned());
        }
        let name = if known.contains(by) { by } else { "other" };
        self.external.with(&[name]).inc();
    }
}

/// Registers the histogram of seconds from the end of a Job's time to live to the deletion of the Job.
pub(crate) fn ttl_deletion_duration(metrics: &Metrics) -> Histogram {
    let duration = metrics.histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        Stability::Alpha,
        "Time from the end of a finished Job's time to live until its deletion",
        &[],
        exponential_buckets(0.1, 2.0, 14),
    );
    duration.with(&[])
}
