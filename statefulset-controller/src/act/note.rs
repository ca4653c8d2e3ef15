//! What a sync changes and asks besides its requests.

use std::sync::Arc;

use common::io;
use jiff::Timestamp;

use crate::{
    objects::CachedPod,
    plan::{Problem, Unavailable},
    reports::TakenName,
    snapshot::PodRef,
};

/// A change of the controller's memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// Nothing can be done for the set.
    Problem(Problem),
    /// The state of a rollout that is limited by a number of unavailable Pods.
    Rollout(Unavailable),
    /// The claims that must be gone before Pods are created.
    AwaitedClaims(Vec<String>),
    /// A difference between claims and their template was reported at that time.
    Reported(String, Timestamp),
    /// A Pod that the watch does not show has the name of a Pod to create, and belongs to the set or to nobody.
    HiddenPod(Box<CachedPod>),
    /// The name of a Pod to create is taken.
    NameTaken {
        /// The name.
        pod: Arc<str>,
        /// The time.
        at: Timestamp,
        /// Whether the Pod that has the name is reported.
        examined: bool,
    },
}

/// What cache and memory say of a Pod that has the name of a Pod to create.
#[derive(Debug)]
pub struct Namesake {
    /// The Pod, if the cache holds it. The cache holds no Pods without the label of their name, and none of controllers of other kinds.
    pub cached: Option<PodRef>,
    /// The earlier refusals, if there were any.
    pub taken: Option<TakenName>,
}

impl io::Note for Note {
    type Question = Arc<str>;
    type Fresh = Namesake;
}

pub(super) type Io<'r> = io::Io<'r, Note>;
