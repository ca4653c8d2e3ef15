//! A working copy of the ReplicaSets and the status. Each planned step is applied to the copy.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use common::prelude::*;
use jiff::Timestamp;

use crate::{
    objects::{Deployment, DeploymentSpec, DeploymentStatus, REVISION_ANNOTATION, ReplicaSet, ReplicaSetStatus},
    plan::{Action, Plan, PodCounts, ReplicaSetChange, Step, WaitReason},
    snapshot::{Snapshot, TerminatingReplicasSupport},
};

static UNOBSERVED: LazyLock<ReplicaSetStatus> = LazyLock::new(ReplicaSetStatus::default);

/// A ReplicaSet as it will be after the steps planned so far.
#[derive(Clone, Debug)]
pub struct DraftReplicaSet<'a> {
    /// `metadata.name` of the ReplicaSet.
    pub name: Arc<str>,
    /// The object from the cache; `None` for a ReplicaSet that this plan creates.
    pub cached: Option<&'a ReplicaSet>,
    /// Desired number of Pods after the steps planned so far.
    pub replicas: i64,
    /// Desired number of Pods that the status of this sync counts: the size before this plan, or the first size of a ReplicaSet
    /// that this plan creates.
    pub replicas_in_status: i64,
    /// Annotations that this plan adds or overwrites.
    annotations: BTreeMap<String, String>,
}

impl<'a> DraftReplicaSet<'a> {
    fn from_cached(cached: &'a ReplicaSet) -> Self {
        let replicas = cached.spec.replicas.into();
        let name = Arc::clone(&cached.metadata.name);
        Self { name, cached: Some(cached), replicas, replicas_in_status: replicas, annotations: BTreeMap::new() }
    }

    /// Returns a ReplicaSet that this plan creates.
    pub fn new_planned(name: Arc<str>, replicas: i64, annotations: BTreeMap<String, String>) -> Self {
        Self { name, cached: None, replicas, replicas_in_status: replicas, annotations }
    }

    /// Returns the value of an annotation after the steps planned so far.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map_or_else(|| self.cached?.metadata.annotations.get(key), |value| Some(value))
    }

    /// Returns an annotation as a number of replicas; `None` unless it consists of decimal digits and is at most `i32::MAX`.
    pub fn parse_replicas_annotation(&self, key: &str) -> Option<i64> {
        let text = self.annotation(key).filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))?;
        text.parse().ok().filter(|n| *n <= i64::from(i32::MAX))
    }

    /// Returns the revision: 0 without the annotation, `None` if the annotation is not an integer.
    pub fn revision(&self) -> Option<i64> {
        self.annotation(REVISION_ANNOTATION).map_or(Some(0), |text| text.parse().ok())
    }

    /// Returns the status from the cache; the default status for a ReplicaSet that this plan creates.
    pub fn status(&self) -> &ReplicaSetStatus {
        self.cached.map_or(&UNOBSERVED, |cached| &cached.status)
    }

    /// Returns `status.replicas`: the number of Pods that exist.
    pub fn status_replicas(&self) -> i64 {
        self.status().replicas.into()
    }

    /// Returns `status.availableReplicas`.
    pub fn available_replicas(&self) -> i64 {
        self.status().available_replicas.into()
    }

    /// Returns the number of available Pods, capped at the size, because surplus Pods are about to be deleted.
    pub fn available_replicas_within_size(&self) -> i64 {
        self.available_replicas().min(self.replicas)
    }

    /// Returns a sort key for the order of creation. The time is `None` for a ReplicaSet that this plan creates.
    pub fn creation_sort_key(&self) -> (Option<Timestamp>, &str) {
        (self.cached.and_then(|cached| cached.metadata.creation_timestamp), &self.name)
    }

    /// Returns the UID; `None` for a ReplicaSet that this plan creates.
    pub fn uid(&self) -> Option<&Uid> {
        self.cached.map(|cached| &cached.metadata.uid)
    }
}

/// A plan under construction, with the state of the objects after its steps.
#[derive(Debug)]
pub struct PlanDraft<'a> {
    /// The snapshot from which the plan is made.
    pub snapshot: &'a Snapshot,
    /// The claimed ReplicaSets by creation time and name; a ReplicaSet that this plan creates comes last.
    pub sets: Vec<DraftReplicaSet<'a>>,
    /// Index in [`Self::sets`] of the first ReplicaSet with the current template. `None` if no ReplicaSet has this template.
    pub new_set_index: Option<usize>,
    /// Status of the Deployment after the steps planned so far.
    pub status: DeploymentStatus,
    /// Revision annotation of the Deployment after the steps planned so far.
    pub revision: Option<String>,
    /// The steps planned so far.
    pub steps: Vec<Step>,
    /// Time of the next sync of the Deployment.
    pub requeue: Requeue,
    /// The error with which the sync ends after the steps.
    pub failure: Option<String>,
}

impl<'a> PlanDraft<'a> {
    /// Returns a draft without steps, with the kept ReplicaSets of the snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let deployment = &snapshot.deployment;
        let (kept, template) = (&snapshot.claims.to_keep, &deployment.spec.template);
        Self {
            snapshot,
            sets: kept.iter().map(|set| DraftReplicaSet::from_cached(set)).collect(),
            new_set_index: kept.iter().position(|set| set.spec.template.is_digest_of(template)),
            status: deployment.status.declared.clone(),
            revision: deployment.metadata.annotations.get(REVISION_ANNOTATION).map(str::to_owned),
            steps: Vec::new(),
            requeue: Requeue::AfterPlannedDelay,
            failure: None,
        }
    }

    /// Returns the Deployment from the cache.
    pub fn deployment(&self) -> &'a Deployment {
        &self.snapshot.deployment
    }

    /// Returns `spec` of the Deployment.
    pub fn spec(&self) -> &'a DeploymentSpec {
        &self.snapshot.deployment.spec
    }

    /// Returns the new ReplicaSet; `None` if it neither exists nor is planned.
    pub fn new_set(&self) -> Option<&DraftReplicaSet<'a>> {
        self.new_set_index.map(|at| &self.sets[at])
    }

    /// Returns the indexes of the old ReplicaSets, in the order of their creation.
    pub fn old_set_indexes(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new_set_index).collect()
    }

    /// Returns the old ReplicaSets, in the order of their creation.
    pub fn old_sets(&self) -> impl DoubleEndedIterator<Item = &DraftReplicaSet<'a>> {
        self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new_set_index).map(|(_, set)| set)
    }

    /// Returns the number of unfinished, also terminating, Pods of a ReplicaSet; 0 unless `Recreate` waits for old Pods.
    pub fn unfinished_pod_count(&self, set: &DraftReplicaSet<'_>) -> usize {
        let counts = self.snapshot.unfinished_pod_counts.as_ref();
        set.uid().and_then(|uid| counts?.get(uid).copied()).unwrap_or(0)
    }

    /// Returns the sum of the sizes of all ReplicaSets.
    pub fn total_replicas(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    /// Appends a step that changes a ReplicaSet, and applies the change to the draft.
    pub fn push_set_change(&mut self, at: usize, change: ReplicaSetChange, step: impl FnOnce(Action) -> Step) {
        let set = &mut self.sets[at];
        if let Some((_, to)) = change.size_before_and_after {
            set.replicas = to;
        }
        set.annotations.extend(change.annotations.clone());
        let action = Action::ChangeReplicaSet { name: Arc::clone(&set.name), change };
        self.steps.push(step(action));
    }

    /// Appends a step that writes status and revision if they differ from the stored ones. Returns whether a step was added.
    pub fn push_status_write(&mut self, status: DeploymentStatus, revision: Option<String>, why: &str) -> bool {
        let revision = revision.filter(|revision| self.revision.as_ref() != Some(revision));
        let mut compared = status.clone();
        if self.snapshot.terminating_replicas_support == TerminatingReplicasSupport::DroppedByServer {
            compared.terminating_replicas = self.status.terminating_replicas;
        }
        if compared == self.status && revision.is_none() {
            return false;
        }
        self.status = status.clone();
        if revision.is_some() {
            self.revision.clone_from(&revision);
        }
        self.steps.push(Step::new(Action::WriteStatus { status: Box::new(status), revision }, why));
        true
    }

    /// Returns the plan, which requeues the Deployment no later than the next attempt of a refused release.
    pub fn into_plan(self, pod_counts: PodCounts, reasons_to_wait: Vec<WaitReason>) -> Plan {
        let requeue = match (self.requeue, self.snapshot.release_retry_after) {
            (Requeue::AfterPlannedDelay, Some(again)) => Requeue::After(again),
            (Requeue::After(other), Some(again)) => Requeue::After(other.min(again)),
            (requeue, _) => requeue,
        };
        Plan { steps: self.steps, requeue, failure: self.failure, pod_counts, reasons_to_wait }
    }
}
