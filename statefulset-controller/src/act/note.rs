//! The changes that a sync makes in the controller's memory, and its lookups there.

use std::sync::Arc;

use common::io;
use jiff::Timestamp;

use crate::{
    objects::CachedPod,
    plan::{Problem, Unavailable},
    reports::TakenName,
    snapshot::PodRef,
};

/// A change of the controller's memory or metrics that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The set is not managed, and the reason is logged.
    Problem(Problem),
    /// The number of unavailable Pods and its limit, for the metrics.
    Rollout(Unavailable),
    /// Names of the claims that must be deleted before Pods can be created.
    AwaitedClaims(Vec<String>),
    /// An Event reported a claim mismatch at that time.
    Reported(String, Timestamp),
    /// A Pod that has the name of a Pod to create and lacks the label by which Pods are watched. No other controller owns it.
    HiddenPod(Box<CachedPod>),
    /// A creation was refused because the name of the Pod is taken.
    NameTaken {
        /// `metadata.name` of the Pod to create.
        pod: Arc<str>,
        /// Time of the refusal.
        at: Timestamp,
        /// Whether the holder of the name is reported this time.
        examined: bool,
    },
}

/// The cached Pod and the earlier refusals for the name of a Pod to create.
#[derive(Debug)]
pub struct Namesake {
    /// The cached Pod with the name. The cache holds no Pods without the watched label, and no Pods of other kinds of
    /// controllers.
    pub cached: Option<PodRef>,
    /// The earlier refusals, if there were any.
    pub taken: Option<TakenName>,
}

impl io::Note for Note {
    type Question = Arc<str>;
    type Fresh = Namesake;
}

pub(super) type Io<'r> = io::Io<'r, Note>;
