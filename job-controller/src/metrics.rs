//! Metrics of Jobs and their Pods. The metrics of the queues are in `common`.

use std::{collections::BTreeSet, sync::Arc};

use common::metrics::{Counter, Counters, Histogram, Histograms, Metrics, Stability, exponential_buckets};
use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::{
    indexes::CompletionIndexSet,
    jobs::plan::{JobEnd, JobResult},
    objects::{FailurePolicyAction, Job, JobStatus},
};

/// The maximum number of values of `spec.managedBy` that become label values; further values are counted as `other`.
const MAX_EXTERNAL_MANAGERS: usize = 32;

/// The metric families of the Job loop. Clones share their values.
#[derive(Clone, Debug)]
pub struct JobMetrics {
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

impl JobMetrics {
    /// Registers the metric families of the Job loop in `metrics`, under upstream's names.
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
            tracking_added: tracking.with_label_values(&["add"]),
            tracking_removed: tracking.with_label_values(&["delete"]),
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
    pub fn record_sync(&self, job: &Job, ok: bool, action: &str, took: SignedDuration) {
        let labels = [job.completion_mode.as_str(), if ok { "success" } else { "error" }, action];
        self.sync_duration.with_label_values(&labels).observe(took.as_secs_f64().max(0.0));
        self.syncs.with_label_values(&labels).inc();
    }

    /// Counts a finished Job by completion mode, result and reason.
    pub fn record_finished_job(&self, job: &Job, end: &JobEnd) {
        let result = if end.job_result == JobResult::Success { "succeeded" } else { "failed" };
        self.finished.with_label_values(&[job.completion_mode.as_str(), result, &end.reason]).inc();
    }

    /// Counts the Pods and indexes that are in the written status `new_status` and not in `old_status`.
    pub fn record_counted_pods(&self, job: &Job, old_status: &JobStatus, new_status: &JobStatus) {
        let mode = job.completion_mode.as_str();
        let grown = |old: usize, new: usize| new.saturating_sub(old) as u64;
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        let succeeded = if job.is_indexed() {
            let limit = if job.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
            let record_indexes = |result: &str, old: &str, new: &str| {
                let count = |text: &str| CompletionIndexSet::parse(text, job.index_count()).len();
                let indexes = if old == new { 0 } else { grown(count(old), count(new)) };
                self.finished_indexes.with_label_values(&[result, limit]).inc_by(indexes);
                indexes
            };
            if job.backoff_limit_per_index.is_some() && old_status.failed_indexes != new_status.failed_indexes {
                let failed_indexes = |status: &JobStatus| status.failed_indexes.clone().unwrap_or_default();
                record_indexes("failed", &failed_indexes(old_status), &failed_indexes(new_status));
            }
            record_indexes("succeeded", &old_status.completed_indexes, &new_status.completed_indexes)
        } else {
            grown(number(old_status.succeeded), number(new_status.succeeded))
        };
        let failed = grown(number(old_status.failed), number(new_status.failed));
        self.pods_finished.with_label_values(&[mode, "succeeded"]).inc_by(succeeded);
        self.pods_finished.with_label_values(&[mode, "failed"]).inc_by(failed);
    }

    /// Adds the counts of succeeded and failed requests to create Pods, with this value of the label `reason`.
    pub fn record_pod_create_requests(&self, reason: &str, succeeded: usize, failed: usize) {
        for (status, count) in [("succeeded", succeeded), ("failed", failed)] {
            if count > 0 {
                self.pods_creation.with_label_values(&[reason, status]).inc_by(count as u64);
            }
        }
    }

    /// Counts failed Pods by the action that the failure policy chose for them.
    pub fn record_failure_policy_action(&self, action: FailurePolicyAction, pods: u64) {
        self.policy_actions.with_label_values(&[action.as_str()]).inc_by(pods);
    }

    /// Counts a Pod that becomes or ceases to be a finished Pod with the finalizer. The flags say whether it was such a Pod
    /// before an event, and whether it is such a Pod after the event.
    pub fn record_finished_tracked_pod_change(&self, before: bool, after: bool) {
        if after && !before {
            self.tracking_added.inc();
        } else if before && !after {
            self.tracking_removed.inc();
        }
    }

    /// Counts a Job that another controller manages; `by` is `spec.managedBy`.
    pub fn record_externally_managed_job(&self, by: &str) {
        let mut known = self.managers.lock();
        if known.len() < MAX_EXTERNAL_MANAGERS && !known.contains(by) {
            known.insert(by.to_owned());
        }
        let name = if known.contains(by) { by } else { "other" };
        self.external.with_label_values(&[name]).inc();
    }
}

/// Registers the histogram of seconds from the end of a Job's time to live to the deletion of the Job.
pub(crate) fn register_ttl_deletion_duration(metrics: &Metrics) -> Histogram {
    let duration = metrics.histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        Stability::Alpha,
        "Time from the end of a finished Job's time to live until its deletion",
        &[],
        exponential_buckets(0.1, 2.0, 14),
    );
    duration.with_label_values(&[])
}
