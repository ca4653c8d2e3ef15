//! What one sync does: actions in order, each with its reason and the Event that tells of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    controller::{Explain, Explanation, Requeue},
    events::EventType,
    meta::Uid,
};
use serde_json::Value;

use crate::{
    decide::situation::{Situation, Why},
    objects::DeploymentStatus,
};

/// An Event on the Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look.
    pub kind: EventType,
    /// One word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Event {
    /// An Event that all is well.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self { kind: EventType::Normal, reason, message }
    }

    /// An Event that somebody should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// A change of a ReplicaSet that exists: its size, annotations, `minReadySeconds`; what is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    /// From which size to which.
    pub size: Option<(i64, i64)>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
    /// Another `minReadySeconds`.
    pub min_ready_seconds: Option<i32>,
}

/// One request, or none where only an Event is recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes the Deployment the controller of an orphan. The Deployment is read live before the first.
    Adopt {
        /// Name of the ReplicaSet.
        set: Arc<str>,
        /// Its uid.
        uid: Uid,
    },
    /// Gives a ReplicaSet up.
    Release {
        /// Name of the ReplicaSet.
        set: Arc<str>,
        /// Its uid.
        uid: Uid,
    },
    /// Creates the ReplicaSet of the current template.
    CreateReplicaSet {
        /// Its name.
        set: Arc<str>,
        /// The whole object.
        body: Box<Value>,
    },
    /// Changes a ReplicaSet.
    ChangeReplicaSet {
        /// Its name.
        set: Arc<str>,
        /// What changes.
        change: SetChange,
    },
    /// Deletes a ReplicaSet of the revision history.
    DeleteReplicaSet {
        /// Its name.
        set: Arc<str>,
        /// Its uid.
        uid: Uid,
    },
    /// Writes the Deployment's status, and its revision annotation with it.
    WriteStatus {
        /// The whole status.
        status: Box<DeploymentStatus>,
        /// The revision, if that changes.
        revision: Option<String>,
    },
    /// Puts the template and annotations of a ReplicaSet back into the Deployment, and removes the request to do so.
    RollBack {
        /// Name of the ReplicaSet.
        set: Arc<str>,
        /// Its uid.
        uid: Uid,
    },
    /// Removes a rollback request that cannot be met.
    ClearRollback,
    /// Only tells.
    Tell,
}

/// What a failed step means for those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The sync ends with the error.
    End,
    /// The steps of the same sort are tried all the same; then the sync ends with the errors.
    TryOthers,
    /// The other steps of the same sort are left out, what follows them is done, then the sync ends with the error.
    LeaveOthersOut,
    /// Nothing: the write is a courtesy.
    Ignore,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// Why, in one line.
    pub why: String,
    /// Recorded once it is done.
    pub event: Option<Event>,
    /// What if it fails.
    pub on_failure: OnFailure,
}

impl Step {
    /// A step without an Event, whose failure ends the sync.
    pub fn new(action: Action, why: impl Into<String>) -> Self {
        Self { action, why: why.into(), event: None, on_failure: OnFailure::End }
    }

    /// The same with an Event.
    #[must_use]
    pub fn telling(self, event: Event) -> Self {
        Self { event: Some(event), ..self }
    }

    /// The same with another meaning of its failure.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// What is done, in words.
    fn describe(&self) -> String {
        match &self.action {
            Action::Adopt { set, .. } => format!("adopt ReplicaSet {set}"),
            Action::Release { set, .. } => format!("release ReplicaSet {set}"),
            Action::CreateReplicaSet { set, body } => {
                format!("create ReplicaSet {set} of size {}", body["spec"]["replicas"])
            }
            Action::ChangeReplicaSet { set, change } => match (change.size, change.min_ready_seconds) {
                (Some((from, to)), _) => format!("scale ReplicaSet {set} from {from} to {to}"),
                (None, Some(seconds)) => format!("set minReadySeconds of ReplicaSet {set} to {seconds}"),
                (None, None) => {
                    let keys: Vec<&str> = change.annotations.keys().map(String::as_str).collect();
                    format!("annotate ReplicaSet {set} ({})", keys.join(", "))
                }
            },
            Action::DeleteReplicaSet { set, .. } => format!("delete ReplicaSet {set}"),
            Action::WriteStatus { revision: Some(revision), .. } => format!("write status and revision {revision}"),
            Action::WriteStatus { revision: None, .. } => "write status".to_owned(),
            Action::RollBack { set, .. } => format!("take the template of ReplicaSet {set}"),
            Action::ClearRollback => "remove the rollback request".to_owned(),
            Action::Tell => "record an Event".to_owned(),
        }
    }
}

/// What one sync does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// When to look again after all of it.
    pub requeue: Requeue,
    /// Why the sync fails even so.
    pub failure: Option<String>,
    /// The situation in numbers.
    pub situation: Situation,
    /// What is waited for.
    pub waiting: Vec<Why>,
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let mut waiting: Vec<String> = self.waiting.iter().map(ToString::to_string).collect();
        waiting.extend(self.failure.clone());
        Explanation {
            situation: self.situation.to_string(),
            waiting,
            actions: self.steps.iter().map(|step| format!("{}: {}", step.describe(), step.why)).collect(),
        }
    }

    fn acts(&self) -> bool {
        !self.steps.is_empty()
    }

    fn requeue_after(&self) -> Option<Duration> {
        match self.requeue {
            Requeue::No => None,
            Requeue::After(delay) => Some(delay),
            // Less than a second is left of the progress deadline.
            Requeue::RateLimited => Some(Duration::from_secs(1)),
        }
    }
}
