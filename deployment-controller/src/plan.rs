//! What one sync does: actions in order, each with its reason and the Event that tells of it.

mod why;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    controller::Explain,
    events::EventType,
    io::Requeue,
    meta::{Meta, Uid},
};
use serde_json::Value;

use crate::objects::DeploymentStatus;

pub use why::{Situation, Why};

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

/// A ReplicaSet that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRef {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
}

impl SetRef {
    /// The ReplicaSet with these metadata.
    pub fn of(meta: &Meta) -> Self {
        Self { name: Arc::clone(&meta.name), uid: meta.uid.clone() }
    }
}

/// One request, or none where only an Event is recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes the Deployment the controller of an orphan. The Deployment is read live before the first.
    Adopt(SetRef),
    /// Gives a ReplicaSet up.
    Release(SetRef),
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
    DeleteReplicaSet(SetRef),
    /// Writes the Deployment's status, and its revision annotation with it.
    WriteStatus {
        /// The whole status.
        status: Box<DeploymentStatus>,
        /// The revision, if that changes.
        revision: Option<String>,
    },
    /// Puts the template and annotations of a ReplicaSet back into the Deployment, and removes the request to do so.
    RollBack(SetRef),
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

    /// Why it is taken, after what its action says in numbers.
    pub fn reason(&self) -> String {
        let detail = match &self.action {
            Action::CreateReplicaSet { body, .. } => format!("of size {}", body["spec"]["replicas"]),
            Action::ChangeReplicaSet { change, .. } => match (change.size, change.min_ready_seconds) {
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
    /// The reason of the Event that reports a change the server denies. None for a status, which is written again anyway, for a
    /// creation, which has an Event of its own, and for claims, of which one Event reports all.
    pub fn denied_as(&self) -> Option<&'static str> {
        match self {
            Self::DeleteReplicaSet(_) => Some("FailedDelete"),
            Self::ChangeReplicaSet { .. } | Self::RollBack(_) | Self::ClearRollback => Some("FailedUpdate"),
            Self::CreateReplicaSet { .. }
            | Self::WriteStatus { .. }
            | Self::Tell
            | Self::Adopt(_)
            | Self::Release(_) => None,
        }
    }

    /// The verb in explanations.
    pub fn doing(&self) -> &'static str {
        match self {
            Self::Adopt(_) => "adopt",
            Self::Release(_) => "release",
            Self::CreateReplicaSet { .. } => "create",
            Self::ChangeReplicaSet { change, .. } => match (change.size, change.min_ready_seconds) {
                (Some(_), _) => "scale",
                (None, Some(_)) => "update",
                (None, None) => "annotate",
            },
            Self::DeleteReplicaSet(_) => "delete",
            Self::WriteStatus { .. } => "write the status of",
            Self::RollBack(_) => "roll back",
            Self::ClearRollback => "end the rollback request of",
            Self::Tell => "record an Event on",
        }
    }

    /// What is done to which object, in errors. `deployment` is the name of the Deployment.
    pub fn describe(&self, deployment: &str) -> String {
        let doing = self.doing();
        match self {
            Self::ChangeReplicaSet { set, change } if change.size.is_none() => format!("update ReplicaSet {set}"),
            Self::Adopt(SetRef { name: set, .. })
            | Self::Release(SetRef { name: set, .. })
            | Self::DeleteReplicaSet(SetRef { name: set, .. })
            | Self::CreateReplicaSet { set, .. }
            | Self::ChangeReplicaSet { set, .. } => format!("{doing} ReplicaSet {set}"),
            Self::RollBack(_) => format!("{doing} Deployment {deployment}"),
            Self::WriteStatus { .. } | Self::ClearRollback | Self::Tell => format!("{doing} {deployment}"),
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
    fn situation(&self) -> String {
        self.situation.to_string()
    }

    fn waiting(&self) -> Vec<String> {
        self.waiting.iter().map(ToString::to_string).chain(self.failure.clone()).collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        match self.requeue {
            Requeue::AsPlanned | Requeue::Conflict => None,
            Requeue::After(delay) | Requeue::Unfinished(delay) => Some(delay),
            // Less than a second is left of the progress deadline.
            Requeue::RateLimited => Some(Duration::from_secs(1)),
        }
    }
}
