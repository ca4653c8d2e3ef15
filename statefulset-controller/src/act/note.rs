//! Changes of the controller's memory that a sync requests, and lookups in that memory.

use std::sync::Arc;

use common::io;
use jiff::Timestamp;

use crate::{
    objects::CachedPod,
    plan::{UnavailablePods, UnmanagedReason},
    reports::RefusedCreations,
    snapshot::SharedPod,
};

/// A change of the controller's memory or metrics that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The set is not managed, and the reason is logged.
    UnmanagedReason(UnmanagedReason),
    /// The number of unavailable Pods and its limit, for the metrics.
    RolloutProgress(UnavailablePods),
    /// Names of the claims that must be deleted before Pods can be created.
    AwaitedClaims(Vec<String>),
    /// An Event about this claim mismatch was recorded at this time.
    MismatchReported(String, Timestamp),
    /// An orphan, or a Pod of this set, that lacks the watched label and has the name of a Pod to create.
    HiddenPod(Box<CachedPod>),
    /// A creation was refused because the name of the Pod is taken.
    NameTaken {
        /// `metadata.name` of the Pod to create.
        pod: Arc<str>,
        /// Time of the refusal.
        at: Timestamp,
        /// Whether the sync reports the Pod that holds the name.
        is_reported: bool,
    },
}

/// The cached Pod with the name of a Pod to create, and the refused creations so far.
#[derive(Debug)]
pub struct NamesakeState {
    /// The cached Pod with the name. The cache holds only Pods with the watched label, and no Pods of other kinds of
    /// controllers.
    pub cached_pod: Option<SharedPod>,
    /// The refused creations so far; `None` before the first refusal.
    pub refused_creations: Option<RefusedCreations>,
}

impl io::MemoryNote for Note {
    type Query = Arc<str>;
    type NewState = NamesakeState;
}

pub(super) type Io<'r> = io::Io<'r, Note>;
