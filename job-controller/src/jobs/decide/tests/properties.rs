//! Random histories of Jobs, compared with a model that counts Pods independently. Pods finish in any way, the process crashes
//! after any write, caches are stale, and each Pod still counts once.

use std::collections::{BTreeMap, BTreeSet};

use common::{conditions::is_true, prelude::*};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    indexes::CompletionIndexSet,
    jobs::{
        decide::{decide, first_status, second_status::decide_second_status},
        plan::{JobSyncPlan, PodWrites, ScalingDecision},
        snapshot::{DecisionSettings, FailureRecord, Snapshot},
    },
    objects::{JOBS, JobStatus, condition_types},
    world::{
        JobBuilder, PodBuilder, SyncFixture, default_decision_settings, job, pending_writes, pod,
        sync_time_plus_seconds,
    },
};

#[derive(Clone, Debug, Default)]
struct ModelPod {
    index: Option<u32>,
    failures: u32,
    phase: Phase,
    has_deletion_time: bool,
    finalizer: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Running,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug)]
enum HistoryEvent {
    /// The Pod at this position succeeds, if it runs.
    Succeed(usize),
    /// The Pod at this position fails, if it runs.
    Fail(usize),
    /// A user deletes the Pod at this position; the Pod is terminating until it finishes.
    Delete(usize),
    /// The Pod at this position finishes, if it is terminating: it succeeds if the flag is true, and fails otherwise.
    End(usize, bool),
    /// A sync of the Job. The process crashes after `dies_after` writes; the cache of Pods is `lag` steps old; the bits of
    /// `refuses` select finalizers that cannot be removed.
    Sync { dies_after: Option<usize>, lag: usize, refuses: u8 },
}

fn steps() -> impl Strategy<Value = Vec<HistoryEvent>> {
    let sync = (prop::option::weighted(0.4, 0usize..8), prop_oneof![4 => Just(0), 1 => 1usize..4], any::<u8>());
    let sync =
        sync.prop_map(|(dies_after, lag, refuses)| HistoryEvent::Sync { dies_after, lag, refuses: refuses & 0b1001 });
    let step = prop_oneof![
        4 => sync,
        2 => (0usize..12).prop_map(HistoryEvent::Succeed),
        2 => (0usize..12).prop_map(HistoryEvent::Fail),
        1 => (0usize..12).prop_map(HistoryEvent::Delete),
        1 => ((0usize..12), any::<bool>()).prop_map(|(at, well)| HistoryEvent::End(at, well)),
    ];
    prop::collection::vec(step, 1..60)
}

/// The server, with an independent count of finished Pods.
struct Model {
    job: JobBuilder,
    pods: BTreeMap<String, ModelPod>,
    /// Earlier states of the Pods, for lagging caches.
    history: Vec<BTreeMap<String, ModelPod>>,
    created: usize,
    /// Names of the Pods that lost their finalizers since the process started.
    untracked_here: BTreeSet<String>,
    /// UIDs that the status has ever listed as failed.
    named_failed: BTreeSet<String>,
    succeeded: usize,
    failed: usize,
    done: BTreeSet<u32>,
}

/// The error of a write after the process has crashed.
struct Crashed;

/// The number of writes until the process crashes; `None` for no crash.
struct WritesUntilCrash(Option<usize>);

impl WritesUntilCrash {
    fn write(&mut self) -> Result<(), Crashed> {
        match &mut self.0 {
            Some(0) => Err(Crashed),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Model {
    fn new(job: JobBuilder) -> Self {
        Self {
            job,
            pods: BTreeMap::new(),
            history: Vec::new(),
            created: 0,
            untracked_here: BTreeSet::new(),
            named_failed: BTreeSet::new(),
            succeeded: 0,
            failed: 0,
            done: BTreeSet::new(),
        }
    }

    fn status(&self) -> JobStatus {
        self.job.build_job().status.declared
    }

    fn nth(&mut self, at: usize) -> Option<&mut ModelPod> {
        let count = self.pods.len();
        if count == 0 { None } else { self.pods.values_mut().nth(at % count) }
    }

    /// Removes terminating Pods that have finished and carry no finalizer.
    fn collect(&mut self) {
        self.pods.retain(|_, pod| !pod.has_deletion_time || pod.finalizer || pod.phase == Phase::Running);
    }

    fn build(name: &str, model: &ModelPod) -> PodBuilder {
        let mut pod = pod(name);
        if let Some(index) = model.index {
            pod = pod.index(index).index_failures(model.failures, 0);
        }
        pod = match model.phase {
            Phase::Running => pod,
            Phase::Succeeded => pod.succeeded(),
            Phase::Failed => pod.failed_with_exit_code_at(1, -10_000),
        };
        if model.has_deletion_time {
            pod = pod.deleting();
        }
        if model.finalizer { pod } else { pod.without_finalizer() }
    }

    fn snapshot(&self, lag: usize) -> Snapshot {
        let old = lag.checked_sub(1).and_then(|lag| self.history.iter().rev().nth(lag)).unwrap_or(&self.pods);
        let world = SyncFixture {
            job: self.job.clone(),
            pods: old.iter().map(|(name, pod)| Self::build(name, pod)).collect(),
            pod_creation_pause: None,
            pending_writes: (lag > 0).then(|| pending_writes(Some(JOBS))),
            decision_settings: DecisionSettings {
                max_uncounted_pods: 4,
                max_pods_per_sync: 3,
                ..default_decision_settings()
            },
            pod_uids_with_removed_finalizer: Vec::new(),
            failure_record: FailureRecord::default(),
        };
        let mut snapshot = world.snapshot();
        snapshot.pod_uids_with_removed_finalizer =
            std::sync::Arc::new(self.untracked_here.iter().map(|uid| Uid::new(uid)).collect());
        snapshot
    }

    fn put(&mut self, status: &JobStatus) {
        let before = self.status();
        let uids = |list: &[Uid]| list.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let (succeeded, failed) =
            (uids(&status.uncounted_terminated_pods.succeeded), uids(&status.uncounted_terminated_pods.failed));
        assert!(succeeded.is_disjoint(&failed));
        assert!(status.failed >= before.failed);
        if status.is_finished() {
            assert!(status.uncounted_terminated_pods.is_empty() && status.active == 0 && status.terminating == Some(0));
            assert!(
                is_true(&before.conditions, condition_types::SUCCESS_CRITERIA_MET)
                    || is_true(&before.conditions, condition_types::FAILURE_TARGET)
            );
        }
        self.named_failed.extend(failed);
        let json: Value = serde_json::to_value(status).unwrap();
        self.job.0["status"] = json;
    }

    /// Removes the finalizer of a Pod, and adds the true result of the Pod to the counts of the model.
    fn untrack(&mut self, name: &str) {
        let (job, fails) = (self.job.build_job(), is_true(&self.status().conditions, condition_types::FAILURE_TARGET));
        let patient = job.replaces_pods_only_when_finished();
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.finalizer) else { return };
        pod.finalizer = false;
        if self.named_failed.contains(name) {
            self.failed += 1;
        } else if pod.phase == Phase::Succeeded {
            self.succeeded += 1;
            self.done.extend(pod.index);
        } else {
            let counts = fails || pod.phase == Phase::Failed || (pod.has_deletion_time && !patient);
            assert!(!counts, "{name} is not counted: {pod:?}");
        }
    }

    fn act(
        &mut self,
        snapshot: &Snapshot,
        plan: &JobSyncPlan,
        life: &mut WritesUntilCrash,
    ) -> Result<PodWrites, Crashed> {
        let name = |at: usize| plan.pod_summary.pods[at].pod.meta().name.to_string();
        match &plan.scaling_decision {
            ScalingDecision::Create { pods, .. } => {
                for new in pods {
                    life.write()?;
                    self.created += 1;
                    let failures = new.index_failure_counts.map_or(0, |failures| failures.failure_count);
                    let pod =
                        ModelPod { index: new.completion_index, failures, finalizer: true, ..ModelPod::default() };
                    self.pods.insert(format!("p{:03}", self.created), pod);
                }
            }
            manage => {
                let victims = manage.pods_to_delete();
                let counted = matches!(plan.scaling_decision, ScalingDecision::DeleteAsFailed(_));
                for victim in victims {
                    if !counted {
                        life.write()?;
                        if let Some(pod) = self.pods.get_mut(&name(victim.pod_position)) {
                            assert!(snapshot.pending_writes.is_none() && pod.phase == Phase::Running);
                            pod.finalizer = false;
                        }
                    }
                    life.write()?;
                    if let Some(pod) = self.pods.get_mut(&name(victim.pod_position)) {
                        pod.has_deletion_time = true;
                    }
                }
            }
        }
        Ok(plan.scaling_decision.expected_pod_writes(&plan.pod_summary))
    }

    fn sync(&mut self, life: &mut WritesUntilCrash, lag: usize, refuses: u8) -> Result<(), Crashed> {
        let snapshot = self.snapshot(lag);
        let Ok(plan) = decide(&snapshot).sync_plan else { return Ok(()) };
        let pod_writes = self.act(&snapshot, &plan, life)?;
        let tracked = first_status::decide_first_status(
            &snapshot,
            &plan.pod_summary,
            &plan.scaling_decision,
            &pod_writes,
            sync_time_plus_seconds(0),
        );
        assert!(tracked.status.uncounted_terminated_pods.len() <= 4);
        if tracked.is_status_changed {
            life.write()?;
            self.put(&tracked.status);
        }
        let mut untracked = Vec::new();
        for position in &tracked.pod_positions_to_remove_finalizer_from {
            let pod = &plan.pod_summary.pods[*position].pod;
            if refuses & (1 << (position % 8)) != 0 {
                continue;
            }
            life.write()?;
            self.untrack(&pod.meta().name);
            self.untracked_here.insert(pod.meta().name.to_string());
            untracked.push(pod);
        }
        let conclusion =
            decide_second_status(&snapshot.job, &tracked, &tracked.status, &untracked, sync_time_plus_seconds(0));
        if conclusion.write_reason.is_some() {
            life.write()?;
            self.put(&conclusion.status);
        }
        Ok(())
    }

    fn step(&mut self, step: &HistoryEvent) {
        match step {
            HistoryEvent::Succeed(at) | HistoryEvent::Fail(at) => {
                let phase = if matches!(step, HistoryEvent::Succeed(_)) { Phase::Succeeded } else { Phase::Failed };
                if let Some(pod) = self.nth(*at).filter(|pod| pod.phase == Phase::Running) {
                    pod.phase = phase;
                }
            }
            HistoryEvent::Delete(at) => {
                if let Some(pod) = self.nth(*at) {
                    pod.has_deletion_time = true;
                }
            }
            HistoryEvent::End(at, well) => {
                if let Some(pod) = self.nth(*at).filter(|pod| pod.has_deletion_time && pod.phase == Phase::Running) {
                    pod.phase = if *well { Phase::Succeeded } else { Phase::Failed };
                }
            }
            HistoryEvent::Sync { dies_after, lag, refuses } => {
                if self.sync(&mut WritesUntilCrash(*dies_after), *lag, *refuses).is_err() {
                    self.untracked_here.clear();
                    self.history.clear();
                }
            }
        }
        // After a sync, a cache never shows an older state than this sync has read, so older states are dropped.
        if matches!(step, HistoryEvent::Sync { .. }) {
            self.history.clear();
        }
        self.history.push(self.pods.clone());
        self.collect();
    }

    /// Lets all Pods finish, and syncs until the Job has finished.
    fn run_out(&mut self) -> JobStatus {
        for _ in 0..200 {
            if self.status().is_finished() {
                break;
            }
            for pod in self.pods.values_mut().filter(|pod| pod.phase == Phase::Running) {
                pod.phase = if pod.has_deletion_time { Phase::Failed } else { Phase::Succeeded };
            }
            self.collect();
            let _ = self.sync(&mut WritesUntilCrash(None), 0, 0);
            self.collect();
        }
        self.status()
    }
}

fn check(mut model: Model, steps: &[HistoryEvent]) -> Result<(), TestCaseError> {
    for step in steps {
        model.step(step);
    }
    let status = model.run_out();
    prop_assert!(status.is_finished(), "{:?} {:?}", status, model.pods);
    let read = model.job.build_job();
    prop_assert_eq!(usize::try_from(status.failed).unwrap(), model.failed, "{:?}", status);
    if read.is_indexed() {
        let done = CompletionIndexSet::default().with_indexes(model.done.iter().copied());
        let given_up =
            CompletionIndexSet::parse(status.failed_indexes.as_deref().unwrap_or_default(), read.index_count());
        prop_assert_eq!(status.completed_indexes.to_string(), done.without_indexes(&given_up).to_string());
        prop_assert_eq!(usize::try_from(status.succeeded).unwrap(), done.without_indexes(&given_up).len());
    } else {
        prop_assert_eq!(usize::try_from(status.succeeded).unwrap(), model.succeeded, "{:?}", status);
    }
    if is_true(&status.conditions, condition_types::COMPLETE) {
        let reached = status.succeeded >= i32::try_from(read.completions.unwrap_or(1)).unwrap();
        let done = CompletionIndexSet::parse(&status.completed_indexes, read.index_count());
        let met = read
            .success_policy
            .and_then(|policy| policy.first_matching_rule_position(&done, done.len().try_into().unwrap()));
        prop_assert!(reached || met.is_some(), "{:?}", status);
    }
    Ok(())
}

/// Builds a Job with an empty status and a back-off limit of 1000.
fn fresh() -> JobBuilder {
    let mut job = job("j").spec_field("backoffLimit", 1000);
    job.0["status"] = json!({});
    job
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// JOB-41.
    #[test]
    fn each_pod_of_a_plain_job_counts_once(steps in steps(), completions in 1u32..6, parallelism in 1u32..5) {
        check(Model::new(fresh().completions(Some(completions), parallelism)), &steps)?;
    }

    /// JOB-41.
    #[test]
    fn each_worker_of_a_queue_counts_once(steps in steps(), parallelism in 1u32..5) {
        check(Model::new(fresh().completions(None, parallelism)), &steps)?;
    }

    /// JOB-41.
    #[test]
    fn each_pod_of_a_limited_job_counts_once(steps in steps(), limit in 0i32..4, completions in 1u32..6) {
        check(Model::new(fresh().completions(Some(completions), 3).spec_field("backoffLimit", limit)), &steps)?;
    }

    /// JOB-41.
    #[test]
    fn each_index_counts_once(steps in steps(), completions in 1u32..6, parallelism in 1u32..5) {
        check(Model::new(fresh().indexed(completions, parallelism)), &steps)?;
    }

    /// JOB-76.
    #[test]
    fn each_pod_counts_once_until_enough_has_succeeded(steps in steps(), enough in 1u32..4, limit in 0u32..3, patient in any::<bool>()) {
        let policy = if patient { "Failed" } else { "TerminatingOrFailed" };
        let job = fresh().indexed(4, 3).spec_field("successPolicy", json!({"rules": [{"succeededCount": enough}]}));
        check(Model::new(job.spec_field("backoffLimit", limit).spec_field("podReplacementPolicy", policy)), &steps)?;
    }

    /// JOB-41.
    #[test]
    fn each_limited_index_counts_once(steps in steps(), completions in 1u32..5, limit in 0u32..3, patient in any::<bool>()) {
        let policy = if patient { "Failed" } else { "TerminatingOrFailed" };
        let job = fresh().indexed(completions, 3).spec_field("backoffLimitPerIndex", limit);
        check(Model::new(job.spec_field("podReplacementPolicy", policy)), &steps)?;
    }
}

#[test]
fn the_model_notices_a_pod_that_is_counted_twice() {
    let mut model = Model::new(fresh().completions(Some(2), 1));
    model.step(&HistoryEvent::Sync { dies_after: None, lag: 0, refuses: 0 });
    model.step(&HistoryEvent::Succeed(0));
    let mut status = model.status();
    status.succeeded = 1;
    model.put(&status);
    let status = model.run_out();
    assert_ne!(usize::try_from(status.succeeded).unwrap(), model.succeeded);
}
