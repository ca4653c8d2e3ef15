//! The working copy of ReplicaSets and status on which a plan is made.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use common::{io::Requeue, meta::Uid};
use jiff::Timestamp;

use crate::{
    limits::Limits,
    objects::{Deployment, DeploymentSpec, DeploymentStatus, REVISION, ReplicaSet, ReplicaSetStatus},
    plan::{Action, Plan, SetChange, Situation, Step, Why},
    snapshot::{Snapshot, TerminatingReplicas},
};

static UNOBSERVED: LazyLock<ReplicaSetStatus> = LazyLock::new(ReplicaSetStatus::default);

/// A ReplicaSet as it will be after the steps planned so far.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// `metadata.name` of the ReplicaSet.
    pub name: Arc<str>,
    /// The object from the cache; `None` for a ReplicaSet that this plan creates.
    pub source: Option<&'a ReplicaSet>,
    /// Desired number of Pods after the steps planned so far.
    pub replicas: i64,
    /// Desired number of Pods that the status of this sync counts: the size before this plan, or the first size of a ReplicaSet
    /// that this plan creates.
    pub counted: i64,
    /// Annotations that this plan adds or overwrites.
    annotations: BTreeMap<String, String>,
}

impl<'a> Set<'a> {
    fn read(source: &'a ReplicaSet) -> Self {
        let replicas = source.spec.replicas.into();
        let name = Arc::clone(&source.metadata.name);
        Self { name, source: Some(source), replicas, counted: replicas, annotations: BTreeMap::new() }
    }

    /// Returns a ReplicaSet that this plan creates.
    pub fn created(name: Arc<str>, replicas: i64, annotations: BTreeMap<String, String>) -> Self {
        Self { name, source: None, replicas, counted: replicas, annotations }
    }

    /// Returns the value of an annotation after the steps planned so far.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map_or_else(|| self.source?.metadata.annotations.get(key), |value| Some(value))
    }

    /// Returns an annotation as a number of replicas; `None` unless it consists of decimal digits and is at most `i32::MAX`.
    pub fn replicas_annotation(&self, key: &str) -> Option<i64> {
        let text = self.annotation(key).filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))?;
        text.parse().ok().filter(|n| *n <= i64::from(i32::MAX))
    }

    /// Returns the revision: 0 without the annotation, `None` if the annotation is not an integer.
    pub fn revision(&self) -> Option<i64> {
        self.annotation(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    /// Returns the status from the cache; the default status for a ReplicaSet that this plan creates.
    pub fn status(&self) -> &ReplicaSetStatus {
        self.source.map_or(&UNOBSERVED, |source| &source.status)
    }

    /// Returns `status.replicas`: the number of Pods that exist.
    pub fn actual(&self) -> i64 {
        self.status().replicas.into()
    }

    /// Returns `status.availableReplicas`.
    pub fn available(&self) -> i64 {
        self.status().available_replicas.into()
    }

    /// Returns the available Pods, capped at the size, because surplus Pods are about to be deleted.
    pub fn available_within_size(&self) -> i64 {
        self.available().min(self.replicas)
    }

    /// Returns a sort key for the order of creation. The time is `None` for a ReplicaSet that this plan creates.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.source.and_then(|source| source.metadata.created), &self.name)
    }

    /// Returns the UID; `None` for a ReplicaSet that this plan creates.
    pub fn uid(&self) -> Option<&Uid> {
        self.source.map(|source| &source.metadata.uid)
    }
}

/// A plan under construction, with the state of the objects after its steps.
#[derive(Debug)]
pub struct Draft<'a> {
    /// The snapshot from which the plan is made.
    pub snapshot: &'a Snapshot,
    /// The claimed ReplicaSets by creation time and name; a ReplicaSet that this plan creates comes last.
    pub sets: Vec<Set<'a>>,
    /// Index in [`Self::sets`] of the new ReplicaSet: the first one with the template of the Deployment.
    pub new: Option<usize>,
    /// Status of the Deployment after the steps planned so far.
    pub status: DeploymentStatus,
    /// Revision annotation of the Deployment after the steps planned so far.
    pub revision: Option<String>,
    steps: Vec<Step>,
    requeue: Requeue,
    failure: Option<String>,
}

impl<'a> Draft<'a> {
    /// Returns a draft without steps, of the kept ReplicaSets in the snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let deployment = &snapshot.deployment;
        let sets: Vec<Set<'a>> = snapshot.claims.keep.iter().map(|set| Set::read(set)).collect();
        let template = &deployment.spec.template;
        let new = snapshot.claims.keep.iter().position(|set| set.spec.template.is_of(template));
        Self {
            snapshot,
            sets,
            new,
            status: deployment.status.clone(),
            revision: deployment.metadata.annotations.get(REVISION).map(str::to_owned),
            steps: Vec::new(),
            requeue: Requeue::AsPlanned,
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

    /// Returns the desired number of Pods, maxSurge and maxUnavailable.
    pub fn limits(&self) -> Limits {
        self.snapshot.limits
    }

    /// Returns the new ReplicaSet, if it exists or is planned.
    pub fn new_set(&self) -> Option<&Set<'a>> {
        self.new.map(|at| &self.sets[at])
    }

    /// Returns the indexes of the old ReplicaSets, in the order of their creation.
    pub fn old_indexes(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new).collect()
    }

    /// Returns the old ReplicaSets, in the order of their creation.
    pub fn old_sets(&self) -> impl DoubleEndedIterator<Item = &Set<'a>> {
        self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new).map(|(_, set)| set)
    }

    /// Returns the number of unfinished Pods of a ReplicaSet, including terminating ones.
    pub fn running_pods(&self, set: &Set<'_>) -> usize {
        set.uid().and_then(|uid| self.snapshot.running_pods.get(uid)).copied().unwrap_or(0)
    }

    /// Returns the sum of the sizes of all ReplicaSets.
    pub fn total(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    /// Appends a step to the plan.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Appends a step that changes a ReplicaSet, and applies the change to the draft.
    pub fn change(&mut self, at: usize, change: SetChange, step: impl FnOnce(Action) -> Step) {
        let set = &mut self.sets[at];
        if let Some((_, to)) = change.size {
            set.replicas = to;
        }
        set.annotations.extend(change.annotations.clone());
        let action = Action::ChangeReplicaSet { set: Arc::clone(&set.name), change };
        self.steps.push(step(action));
    }

    fn is_news(&self, status: &DeploymentStatus) -> bool {
        if self.snapshot.terminating_replicas == TerminatingReplicas::Dropped {
            let terminating_replicas = self.status.terminating_replicas;
            return DeploymentStatus { terminating_replicas, ..status.clone() } != self.status;
        }
        *status != self.status
    }

    /// Appends a step that writes status and revision if they differ from the stored ones. Returns whether a step was added.
    pub fn write(&mut self, status: DeploymentStatus, revision: Option<String>, why: &str) -> bool {
        let revision = revision.filter(|revision| self.revision.as_ref() != Some(revision));
        if !self.is_news(&status) && revision.is_none() {
            return false;
        }
        self.status = status.clone();
        if revision.is_some() {
            self.revision.clone_from(&revision);
        }
        self.steps.push(Step::new(Action::WriteStatus { status: Box::new(status), revision }, why));
        true
    }

    /// Sets when to sync the Deployment again.
    pub fn look_again(&mut self, requeue: Requeue) {
        self.requeue = requeue;
    }

    /// Makes the sync fail after the steps planned so far.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Returns whether the sync fails after its steps.
    pub fn fails(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns the plan. Its requeue comes no later than the next attempt of a refused release.
    pub fn finish(self, situation: Situation, waiting: Vec<Why>) -> Plan {
        let requeue = match (self.requeue, self.snapshot.release_again) {
            (Requeue::AsPlanned, Some(again)) => Requeue::After(again),
            (Requeue::After(other), Some(again)) => Requeue::After(other.min(again)),
            (requeue, _) => requeue,
        };
        Plan { steps: self.steps, requeue, failure: self.failure, situation, waiting }
    }
}
