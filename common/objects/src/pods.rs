//! What the workload controllers know of a Pod, and what they conclude from it.
//!
//! [`Pod`] is the projection: the fields that decide about counting, availability and deletion, and nothing else. A
//! controller that needs more puts [`Spec`] and [`Status`] beside its own fields and builds its Pod with [`Pod::new`].

mod rank;
mod read;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use rank::{Candidate, log2_bucket, rank_for_deletion, sort_for_deletion};

use crate::{
    intern::Text,
    meta::Meta,
    object::{Object, Resource},
    wire::{Message, messages},
};

/// Pods on the API server.
pub const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };

/// The annotation that says how much a user would mind the deletion of this Pod rather than of another.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its metadata.
    pub meta: Meta,
    /// The node it is assigned to; empty if none.
    pub node: Text,
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether it can serve.
    pub readiness: Readiness,
    /// How often its containers were restarted.
    pub restarts: Restarts,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not all containers run yet.
    Pending,
    /// Containers run.
    Running,
    /// All containers ended well, for good.
    Succeeded,
    /// A container ended badly, for good.
    Failed,
    /// Its node is not heard of.
    Unknown,
    /// None was written, or one nobody knows.
    #[default]
    Other,
}

impl Phase {
    /// Reads a phase.
    pub fn parse(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }

    /// Whether it is over: succeeded or failed.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The condition `Ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Absent, or not `True`.
    #[default]
    NotReady,
    /// `True`.
    Ready {
        /// Its `lastTransitionTime`.
        since: Option<Timestamp>,
    },
}

/// The largest restart count among the containers of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restarts {
    /// Regular containers.
    pub regular: i32,
    /// Init containers with restart policy `Always`.
    pub restartable_init: i32,
}

/// What a Pod's `spec` says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The node it is assigned to; empty if none.
    pub node: Text,
    /// Names of the init containers with restart policy `Always`.
    pub restartable_init: Box<[Box<str>]>,
}

/// What a Pod's `status` says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether it can serve.
    pub readiness: Readiness,
    /// The largest restart count of a regular container.
    pub restarts: i32,
    /// Init containers that were restarted, by name.
    pub init_restarts: Box<[(Box<str>, i32)]>,
}

impl Pod {
    /// Puts a Pod together from its parts.
    pub fn new(meta: Meta, spec: Spec, status: &Status) -> Self {
        let counts = status.init_restarts.iter().filter(|(name, _)| spec.restartable_init.contains(name));
        let restartable_init = counts.map(|(_, count)| *count).max().unwrap_or(0).max(0);
        Self {
            meta,
            node: spec.node,
            phase: status.phase,
            readiness: status.readiness,
            restarts: Restarts { regular: status.restarts.max(0), restartable_init },
        }
    }

    /// Whether it counts: neither over nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.meta.is_deleting()
    }

    /// Whether it is being deleted and not over yet.
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.meta.is_deleting()
    }

    /// Whether its condition `Ready` is `True`.
    pub fn is_ready(&self) -> bool {
        self.readiness != Readiness::NotReady
    }

    /// Since when it is ready: nothing if it is not, or nobody wrote when.
    pub fn ready_since(&self) -> Option<Timestamp> {
        if let Readiness::Ready { since } = self.readiness { since } else { None }
    }

    /// Whether it has been ready for at least `min_ready_seconds`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds == 0
                || self.available_after(min_ready_seconds, now).is_some_and(|wait| !wait.is_positive()))
    }

    /// How long until a ready Pod is available; zero or negative if it is. Nothing if time alone will not make it so.
    pub fn available_after(&self, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
        let since = self.ready_since()?;
        Some(SignedDuration::from_secs(min_ready_seconds.into()).saturating_add(since.duration_since(now)))
    }

    /// Its deletion cost; see [`deletion_cost`].
    pub fn deletion_cost(&self) -> i32 {
        self.meta.annotations.get(POD_DELETION_COST).map_or(0, deletion_cost)
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn trim(&mut self) {
        self.meta.annotations.retain(|key| key == POD_DELETION_COST);
    }
}

/// How long until the first of `pods` becomes available through the passing of time; nothing if none will.
///
/// A caller that waits for it recomputes with the clock of that moment. Upstream: `pkg/controller`,
/// `FindMinNextPodAvailabilityCheck`.
pub fn next_availability_check<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let waits = pods.into_iter().filter_map(|pod| pod.available_after(min_ready_seconds, now));
    waits.filter(SignedDuration::is_positive).min().and_then(|wait| wait.try_into().ok())
}

/// Reads a deletion cost: a decimal `i32` without plus sign or leading zero; anything else is 0.
pub fn deletion_cost(text: &str) -> i32 {
    if text.starts_with(|c| matches!(c, '-' | '1'..='9')) { text.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests;
