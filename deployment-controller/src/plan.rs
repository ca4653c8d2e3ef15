//! The plan of one sync: steps in order, each with its reason and its Event.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use common::prelude::*;

use crate::{decide::create::NewReplicaSet, limits::RolloutLimits, objects::DeploymentStatus};

/// An Event about the Deployment, recorded after its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Warning` if a user has to act, else `Normal`.
    pub kind: EventType,
    /// One word without spaces, for programs.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
}

impl Event {
    /// Returns an Event about regular progress.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self { kind: EventType::Normal, reason, message }
    }

    /// Returns an Event about a problem.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// A change of an existing ReplicaSet. A field that is `None` or empty changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSetChange {
    /// `spec.replicas` before and after the change; `None` keeps the size.
    pub size_before_and_after: Option<(i64, i64)>,
    /// Annotations to add or to overwrite.
    pub annotations: BTreeMap<String, String>,
    /// The new `spec.minReadySeconds`; `None` keeps the value.
    pub min_ready_seconds: Option<i32>,
}

/// Identifies an existing ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSetNameAndUid {
    /// `metadata.name` of the ReplicaSet.
    pub name: Arc<str>,
    /// `metadata.uid` of the ReplicaSet.
    pub uid: Uid,
}

impl ReplicaSetNameAndUid {
    /// Copies name and UID from the metadata of a ReplicaSet.
    pub fn from_meta(meta: &Meta) -> Self {
        Self { name: Arc::clone(&meta.name), uid: meta.uid.clone() }
    }
}

/// One request to the API server; [`Action::OnlyRecordEvent`] sends none.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes the Deployment the controller of an orphan. The first adoption of a sync reads the Deployment from the API server.
    Adopt(ReplicaSetNameAndUid),
    /// Removes the owner reference to the Deployment from a ReplicaSet.
    Release(ReplicaSetNameAndUid),
    /// Creates the ReplicaSet of the current template.
    CreateReplicaSet {
        /// `metadata.name` of the ReplicaSet to create.
        name: Arc<str>,
        /// The whole ReplicaSet.
        body: Box<NewReplicaSet>,
    },
    /// Patches size, annotations or `minReadySeconds` of a ReplicaSet.
    ChangeReplicaSet {
        /// `metadata.name` of the ReplicaSet.
        name: Arc<str>,
        /// The fields to patch, with their new values.
        change: ReplicaSetChange,
    },
    /// Deletes an old ReplicaSet beyond `spec.revisionHistoryLimit`.
    DeleteReplicaSet(ReplicaSetNameAndUid),
    /// Writes the status of the Deployment, and its revision annotation in the same request.
    WriteStatus {
        /// The whole new status.
        status: Box<DeploymentStatus>,
        /// The new revision annotation; `None` keeps the annotation.
        revision: Option<String>,
    },
    /// Copies the template and annotations of a ReplicaSet into the Deployment, and removes the rollback annotation.
    RollBack(ReplicaSetNameAndUid),
    /// Removes a rollback annotation that cannot be fulfilled.
    ClearRollback,
    /// Sends no request; the step only records its Event.
    OnlyRecordEvent,
}

/// Consequence of a failed step for the steps after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The sync ends with the error of this step.
    EndSync,
    /// Later steps with the same `OnFailure` still run; then the sync ends with all errors.
    RunOnlyStepsWithSameOnFailure,
    /// Later steps with the same `OnFailure` are skipped, the other steps run, and the sync ends with the error.
    SkipStepsWithSameOnFailure,
    /// The error is logged and the sync continues, because the write is optional.
    Ignore,
}

/// One action of a plan, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The request to send.
    pub action: Action,
    /// The reason for the action, in one line.
    pub why: String,
    /// The Event to record after the action has succeeded.
    pub event: Option<Event>,
    /// The consequence of a failure for later steps.
    pub on_failure: OnFailure,
}

impl Step {
    /// Returns a step without an Event and with [`OnFailure::EndSync`].
    pub fn new(action: Action, why: impl Into<String>) -> Self {
        Self { action, why: why.into(), event: None, on_failure: OnFailure::EndSync }
    }

    /// Adds the Event to record after success.
    #[must_use]
    pub fn with_event(self, event: Event) -> Self {
        Self { event: Some(event), ..self }
    }

    /// Replaces the consequence of a failure.
    #[must_use]
    pub fn with_on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Returns the details of the action, such as the size before and after the change, followed by the reason of the step.
    pub fn detailed_reason(&self) -> String {
        let detail = match &self.action {
            Action::CreateReplicaSet { body, .. } => format!("of size {}", body.replicas()),
            Action::ChangeReplicaSet { change, .. } => match (change.size_before_and_after, change.min_ready_seconds) {
                (Some((from, to)), _) => format!("from {from} to {to}"),
                (None, Some(seconds)) => format!("minReadySeconds {seconds}"),
                (None, None) => {
                    let keys: Vec<&str> = change.annotations.keys().map(String::as_str).collect();
                    keys.join(" and ")
                }
            },
            Action::WriteStatus { revision: Some(revision), .. } => format!("revision {revision}"),
            Action::RollBack(set) => format!("to the template of ReplicaSet {}", set.name),
            _ => return self.why.clone(),
        };
        format!("{detail}, {}", self.why)
    }
}

impl Action {
    /// Returns the reason of the Event about an action that the server denies. `None` for a status, which is written again, for
    /// a creation, which has its own Event, and for adoptions and releases, because one Event reports all of a sync.
    pub fn denied_event_reason(&self) -> Option<&'static str> {
        match self {
            Self::DeleteReplicaSet(_) => Some("FailedDelete"),
            Self::ChangeReplicaSet { .. } | Self::RollBack(_) | Self::ClearRollback => Some("FailedUpdate"),
            _ => None,
        }
    }

    /// Returns the verb of the action, for explanations and errors.
    pub fn verb_text(&self) -> &'static str {
        match self {
            Self::Adopt(_) => "adopt",
            Self::Release(_) => "release",
            Self::CreateReplicaSet { .. } => "create",
            Self::ChangeReplicaSet { change, .. } => match (change.size_before_and_after, change.min_ready_seconds) {
                (Some(_), _) => "scale",
                (None, Some(_)) => "update",
                (None, None) => "annotate",
            },
            Self::DeleteReplicaSet(_) => "delete",
            Self::WriteStatus { .. } => "write the status of",
            Self::RollBack(_) => "roll back",
            Self::ClearRollback => "end the rollback request of",
            Self::OnlyRecordEvent => "record an Event on",
        }
    }

    /// Returns the verb and the object of the action, for errors. `deployment` is the name of the Deployment.
    pub fn describe(&self, deployment: &str) -> String {
        let verb = self.verb_text();
        match self {
            Self::ChangeReplicaSet { name, change } if change.size_before_and_after.is_none() => {
                format!("update ReplicaSet {name}")
            }
            Self::Adopt(ReplicaSetNameAndUid { name, .. })
            | Self::Release(ReplicaSetNameAndUid { name, .. })
            | Self::DeleteReplicaSet(ReplicaSetNameAndUid { name, .. })
            | Self::CreateReplicaSet { name, .. }
            | Self::ChangeReplicaSet { name, .. } => format!("{verb} ReplicaSet {name}"),
            Self::RollBack(_) => format!("{verb} Deployment {deployment}"),
            Self::WriteStatus { .. } | Self::ClearRollback | Self::OnlyRecordEvent => format!("{verb} {deployment}"),
        }
    }
}

/// The decision of one sync: what to do and what the Deployment waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps in the order in which they run.
    pub steps: Vec<Step>,
    /// Time of the next sync if all steps succeed.
    pub requeue: Requeue,
    /// The error with which the sync ends even if all steps succeed.
    pub failure: Option<String>,
    /// The Pod counts that `/debug/explain` shows.
    pub pod_counts: PodCounts,
    /// The reasons why the rollout does not continue.
    pub reasons_to_wait: Vec<WaitReason>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.pod_counts.to_string()
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.reasons_to_wait.iter().map(ToString::to_string).chain(self.failure.clone()).collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        match self.requeue {
            Requeue::AfterPlannedDelay | Requeue::Conflict => None,
            Requeue::After(delay) | Requeue::AfterPartialWork(delay) => Some(delay),
            // With `AfterBackoff`, less than a second remains until the progress deadline.
            Requeue::AfterBackoff => Some(Duration::from_secs(1)),
        }
    }
}

/// Pod counts of a Deployment, summed from the statuses of its ReplicaSets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// Desired number of Pods, maxSurge and maxUnavailable.
    pub limits: RolloutLimits,
    /// Pods of the new ReplicaSet.
    pub updated: i64,
    /// Pods of all old ReplicaSets.
    pub old: i64,
    /// Ready Pods of all ReplicaSets.
    pub ready: i64,
    /// Available Pods of all ReplicaSets.
    pub available: i64,
}

impl fmt::Display for PodCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, updated, old, ready, available } = self;
        write!(f, "{} desired, {updated} updated, {old} old, {ready} ready, {available} available", limits.replicas)?;
        write!(f, "; at most {} (maxSurge {}), ", limits.max_pods(), limits.max_surge)?;
        write!(f, "at least {} available (maxUnavailable {})", limits.min_available_pods(), limits.max_unavailable)
    }
}

/// A reason why a rollout does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The selector is empty and would match every Pod.
    EmptySelector,
    /// The Pods that `Recreate` needs have not been read yet.
    PodsNotRead,
    /// The Deployment is being deleted.
    DeploymentDeleting,
    /// `spec.paused` is true.
    Paused {
        /// Whether a rollout starts when the pause ends.
        is_rollout_pending: bool,
    },
    /// The progress deadline has passed.
    DeadlineExceeded {
        /// Seconds since the condition `Progressing` reported the exceeded deadline.
        seconds_since_report: i64,
    },
    /// The new ReplicaSet, named here, is being deleted. A replacement is created only after the deletion.
    NewReplicaSetDeleting(Arc<str>),
    /// A ReplicaSet has the condition `ReplicaFailure`, because it cannot create or delete Pods.
    ReplicaFailure {
        /// Name of the ReplicaSet with the condition.
        set: Arc<str>,
        /// Message of the condition `ReplicaFailure`.
        message: Box<str>,
    },
    /// Old Pods have not finished, under the strategy `Recreate`.
    OldPodsUnfinished {
        /// Name of the ReplicaSet that controls the Pods.
        set: Arc<str>,
        /// Number of unfinished Pods.
        count: i64,
    },
    /// The new ReplicaSet has not created all its Pods yet.
    PodsMissing {
        /// Name of the new ReplicaSet.
        set: Arc<str>,
        /// `status.replicas` of the ReplicaSet.
        actual: i64,
        /// `spec.replicas` of the ReplicaSet.
        desired: i64,
    },
    /// An old ReplicaSet has not removed all surplus Pods yet.
    SurplusPods {
        /// Name of the old ReplicaSet.
        set: Arc<str>,
        /// Number of Pods above the size of the ReplicaSet.
        count: i64,
    },
    /// Pods of the new ReplicaSet are not available yet.
    PodsNotAvailable {
        /// Number of Pods of the new ReplicaSet that are not available yet.
        count: i64,
        /// Number of available Pods of all ReplicaSets.
        available_pods: i64,
        /// The limits that stop the rollout until more Pods are available.
        limits: RolloutLimits,
    },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptySelector => f.write_str("the selector is empty and would select all Pods"),
            Self::PodsNotRead => f.write_str("the Pods, which the strategy Recreate needs, have not been read yet"),
            Self::DeploymentDeleting => f.write_str("being deleted: only the status is written"),
            Self::Paused { is_rollout_pending: false } => f.write_str("paused"),
            Self::Paused { is_rollout_pending: true } => f.write_str("paused: the template is not rolled out"),
            Self::DeadlineExceeded { seconds_since_report } => {
                write!(f, "progress deadline exceeded {seconds_since_report}s ago")
            }
            Self::NewReplicaSetDeleting(set) => {
                write!(f, "ReplicaSet {set} has the current template and is being deleted; ")?;
                f.write_str("a replacement follows once it is gone")
            }
            Self::ReplicaFailure { set, message } => {
                write!(f, "ReplicaSet {set} cannot create or delete Pods: {message}")
            }
            Self::OldPodsUnfinished { set, count } => write!(f, "old Pods of {set} still run (Recreate): {count}"),
            Self::PodsMissing { set, actual, desired } => {
                write!(f, "ReplicaSet {set} has {actual} of {desired} Pods")
            }
            Self::SurplusPods { set, count } => write!(f, "ReplicaSet {set} has {count} Pods to remove"),
            Self::PodsNotAvailable { count, available_pods, limits } => {
                let (noun, verb) = if *count == 1 { ("Pod", "is") } else { ("Pods", "are") };
                write!(f, "{count} new {noun} {verb} not available yet ")?;
                write!(f, "(minimum available {}, {available_pods} available now; ", limits.min_available_pods())?;
                write!(f, "maxUnavailable {})", limits.max_unavailable)
            }
        }
    }
}
