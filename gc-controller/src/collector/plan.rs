//! The plan for an object, decided from the graph.

use common::controller::SyncPlan;

use crate::parked::WaitCondition;

/// The next step for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The object needs no work, for this reason.
    Nothing(&'static str),
    /// The object waits, without retries, until this wait condition is true. The text is the reason.
    Wait(WaitCondition, String),
    /// This number of dependents blocks the foreground deletion. Each dependent has been enqueued, or is enqueued when it
    /// appears. The removal of the last of these dependents enqueues the object again.
    BlockedByDependents(usize),
    /// No dependent blocks the foreground deletion: the finalizer is removed.
    RemoveForegroundFinalizer,
    /// The object is deleted. The version in the graph is the precondition.
    Delete {
        /// Propagation policy for the dependents of the object.
        propagation: PropagationPolicy,
        /// Number of owner references, all of them to objects that do not exist.
        owner_count: usize,
    },
    /// The owners are looked up, because the graph does not show whether all of them are missing.
    LookUpOwners {
        /// Number of owners that are not known to be missing.
        uncertain_owner_count: usize,
    },
    /// A lookup determines whether the object exists, because only owner references name it.
    LookUpObject,
}

/// `propagationPolicy` of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// The object is deleted first, and its dependents are deleted later.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
    /// The dependents are not deleted. Their references to the object are removed.
    Orphan,
}

impl PropagationPolicy {
    /// Returns the value of `propagationPolicy` in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// Returns the policy that the finalizers of an object request; `Background` without finalizers. `orphan` has precedence.
    pub fn from_finalizers(orphans: bool, foreground: bool) -> Self {
        match (orphans, foreground) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Background,
        }
    }
}

fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing(why) => (*why).to_owned(),
            Self::Wait(..) => String::new(),
            Self::BlockedByDependents(_) => "it is deleted after its dependents".to_owned(),
            Self::RemoveForegroundFinalizer => "no dependent blocks its deletion".to_owned(),
            Self::Delete { owner_count: owners, .. } => format!("{} and none exists", many(*owners, "owner")),
            Self::LookUpOwners { uncertain_owner_count: uncertain } => {
                format!("{} may still exist; it is deleted unless a lookup finds one", many(*uncertain, "owner"))
            }
            Self::LookUpObject => "only owner references name it, so it is looked up".to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        match self {
            Self::Wait(_, why) => vec![why.clone()],
            Self::BlockedByDependents(dependents) => {
                vec![format!("{} that block its deletion", many(*dependents, "dependent"))]
            }
            _ => Vec::new(),
        }
    }
}
