//! The working copy on which a plan is made.

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

/// A ReplicaSet as it will be once the steps planned so far have been carried out.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// Its name.
    pub name: Arc<str>,
    /// As the cache has it; none if it is to be created.
    pub source: Option<&'a ReplicaSet>,
    /// Its size.
    pub replicas: i64,
    /// Its size as far as the status of this sync counts it: what later steps of the same sync change does not count yet.
    pub counted: i64,
    /// Annotations that are added or changed.
    annotations: BTreeMap<String, String>,
}

impl<'a> Set<'a> {
    fn read(source: &'a ReplicaSet) -> Self {
        let replicas = source.spec.replicas.into();
        let name = Arc::clone(&source.metadata.name);
        Self { name, source: Some(source), replicas, counted: replicas, annotations: BTreeMap::new() }
    }

    /// A ReplicaSet that is to be created.
    pub fn created(name: Arc<str>, replicas: i64, annotations: BTreeMap<String, String>) -> Self {
        Self { name, source: None, replicas, counted: replicas, annotations }
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map_or_else(|| self.source?.metadata.annotations.get(key), |value| Some(value))
    }

    /// An annotation that is a number of replicas: decimal digits only, and no more than 32 bits with a sign hold.
    pub fn replicas_annotation(&self, key: &str) -> Option<i64> {
        let text = self.annotation(key).filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))?;
        text.parse().ok().filter(|n| *n <= i64::from(i32::MAX))
    }

    /// Its revision; 0 without one, none if it is no integer.
    pub fn revision(&self) -> Option<i64> {
        self.annotation(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    /// What its controller says.
    pub fn status(&self) -> &ReplicaSetStatus {
        self.source.map_or(&UNOBSERVED, |source| &source.status)
    }

    /// How many Pods it has.
    pub fn actual(&self) -> i64 {
        self.status().replicas.into()
    }

    /// How many of its Pods are available, by its status.
    pub fn available(&self) -> i64 {
        self.status().available_replicas.into()
    }

    /// How many of its Pods will be available at its size: not those that are on their way out.
    pub fn available_within_size(&self) -> i64 {
        self.available().min(self.replicas)
    }

    /// When it was created; none if it is to be.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.source.and_then(|source| source.metadata.created), &self.name)
    }

    /// Its uid; none if it is to be created.
    pub fn uid(&self) -> Option<&Uid> {
        self.source.map(|source| &source.metadata.uid)
    }
}

/// A plan in the making, and the world as it leaves it.
#[derive(Debug)]
pub struct Draft<'a> {
    /// What is decided on.
    pub snapshot: &'a Snapshot,
    /// The claimed ReplicaSets in the order of their creation.
    pub sets: Vec<Set<'a>>,
    /// Which of them has the Deployment's template: the first that does.
    pub new: Option<usize>,
    /// The Deployment's status, with what this sync has written of it.
    pub status: DeploymentStatus,
    /// The Deployment's revision.
    pub revision: Option<String>,
    steps: Vec<Step>,
    requeue: Requeue,
    failure: Option<String>,
}

impl<'a> Draft<'a> {
    /// The world as it is.
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

    /// The Deployment.
    pub fn deployment(&self) -> &'a Deployment {
        &self.snapshot.deployment
    }

    /// What it wants.
    pub fn spec(&self) -> &'a DeploymentSpec {
        &self.snapshot.deployment.spec
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        self.snapshot.limits
    }

    /// The ReplicaSet of the current template.
    pub fn new_set(&self) -> Option<&Set<'a>> {
        self.new.map(|at| &self.sets[at])
    }

    /// Where the other ones are, in the order of their creation.
    pub fn old_indexes(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new).collect()
    }

    /// The other ones, in the order of their creation.
    pub fn old_sets(&self) -> impl DoubleEndedIterator<Item = &Set<'a>> {
        self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new).map(|(_, set)| set)
    }

    /// How many Pods of a ReplicaSet have not run to their end, those that are being deleted included.
    pub fn running_pods(&self, set: &Set<'_>) -> usize {
        set.uid().and_then(|uid| self.snapshot.running_pods.get(uid)).copied().unwrap_or(0)
    }

    /// The sizes of all of them together.
    pub fn total(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    /// Adds a step.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Adds a step that changes a ReplicaSet.
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

    /// Adds a step that writes status and revision, if they are not what is stored. Says whether it did.
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

    /// Sets when to look again.
    pub fn look_again(&mut self, requeue: Requeue) {
        self.requeue = requeue;
    }

    /// Ends the sync in failure once the steps so far have been carried out.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Whether the sync fails.
    pub fn fails(&self) -> bool {
        self.failure.is_some()
    }

    /// The plan, with what is said of it.
    pub fn finish(self, situation: Situation, waiting: Vec<Why>) -> Plan {
        let requeue = match (self.requeue, self.snapshot.release_again) {
            (Requeue::AsPlanned, Some(again)) => Requeue::After(again),
            (Requeue::After(other), Some(again)) => Requeue::After(other.min(again)),
            (requeue, _) => requeue,
        };
        Plan { steps: self.steps, requeue, failure: self.failure, situation, waiting }
    }
}
