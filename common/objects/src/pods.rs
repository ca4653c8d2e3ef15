//! Pods as the workload controllers see them, and the properties derived from them.
//!
//! [`Pod`] is a projection with only the fields that matter for counting, availability and deletion. A controller that needs
//! more fields declares a projection with [`PodSpec`] and [`PodStatus`] beside its own fields, and calls [`Pod::new`].

mod rank;
mod read;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use rank::{DeletionCandidate, deletion_order_without_ranks, log2_of_age, rank_for_deletion};
pub use read::{PodCondition, RawContainerStatus, RawPodStatus};

use crate::{
    intern::Text,
    meta::Meta,
    object::{Object, Resource},
    wire::{MessageSchema, messages},
};

/// Group, version and names of the resource `pods`.
pub const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// Annotation with a Pod's deletion cost. Pods with a lower cost are deleted first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A Pod, with the fields that matter for counting, availability and deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// `metadata`. [`Object::drop_unneeded_fields`] removes all annotations except [`POD_DELETION_COST`].
    pub meta: Meta,
    /// `spec.nodeName`; empty if the Pod is not assigned to a node.
    pub node_name: Text,
    /// `status.phase`; [`Phase::Other`] if it is missing or unknown.
    pub phase: Phase,
    /// Whether the condition `Ready` is `True`, and since when.
    pub readiness: Readiness,
    /// Maximum restart counts of the containers. Of otherwise equal Pods, the Pod with more restarts is deleted first.
    pub restart_counts: RestartCounts,
}

/// `status.phase` of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// At least one container has not started yet.
    Pending,
    /// At least one container is running.
    Running,
    /// All containers have terminated successfully and will not be restarted.
    Succeeded,
    /// All containers have terminated and will not be restarted, and at least one of them failed.
    Failed,
    /// The state is not known, usually because the node does not respond.
    Unknown,
    /// A missing phase, or a phase that this version does not know.
    #[default]
    Other,
}

impl Phase {
    /// Parses `status.phase`. An unknown text gives [`Phase::Other`].
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

    /// Whether the phase is `Succeeded` or `Failed`. A Pod in such a phase is finished.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// State of the condition `Ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// The condition is missing or not `True`.
    #[default]
    NotReady,
    /// The condition is `True`.
    Ready {
        /// `lastTransitionTime` of the condition; `None` if the condition has no time.
        since: Option<Timestamp>,
    },
}

/// Maximum restart counts of a Pod's containers, by type of container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestartCounts {
    /// Maximum over the regular containers.
    pub max_of_regular_containers: i32,
    /// Maximum over the init containers with restart policy `Always`.
    pub max_of_restartable_init_containers: i32,
}

/// The fields of a Pod's `spec` that [`Pod`] needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// `nodeName`; empty if the Pod is not assigned to a node.
    pub node_name: Text,
    /// Names of the init containers with restart policy `Always`.
    pub restartable_init_container_names: Box<[Box<str>]>,
}

/// The fields of a Pod's `status` that [`Pod`] needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// `phase`; [`Phase::Other`] if it is missing or unknown.
    pub phase: Phase,
    /// State of the condition `Ready`.
    pub readiness: Readiness,
    /// Maximum restart count of the regular containers.
    pub max_regular_restart_count: i32,
    /// Names and restart counts of the init containers that were restarted.
    pub init_container_restart_counts: Box<[(Box<str>, i32)]>,
}

impl Pod {
    /// Combines the projections of metadata, `spec` and `status`, and computes the maximum restart counts.
    pub fn new(meta: Meta, spec: PodSpec, status: &PodStatus) -> Self {
        let counts = status
            .init_container_restart_counts
            .iter()
            .filter(|(name, _)| spec.restartable_init_container_names.contains(name));
        let restartable_init = counts.map(|(_, count)| *count).max().unwrap_or(0).max(0);
        Self {
            meta,
            node_name: spec.node_name,
            phase: status.phase,
            readiness: status.readiness,
            restart_counts: RestartCounts {
                max_of_regular_containers: status.max_regular_restart_count.max(0),
                max_of_restartable_init_containers: restartable_init,
            },
        }
    }

    /// Whether the Pod is neither finished nor terminating. A Pod with an unknown phase counts as active.
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.meta.is_deleting()
    }

    /// Whether deletion of the Pod was requested and the Pod is not finished.
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.meta.is_deleting()
    }

    /// Whether the condition `Ready` is `True`; false if the condition is missing.
    pub fn is_ready(&self) -> bool {
        self.readiness != Readiness::NotReady
    }

    /// Returns the time at which the Pod became ready; `None` if the Pod is not ready, or if the condition has no time.
    pub fn ready_since(&self) -> Option<Timestamp> {
        if let Readiness::Ready { since } = self.readiness { since } else { None }
    }

    /// Whether the Pod has been ready for at least `min_ready_seconds`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds == 0
                || self.time_until_available(min_ready_seconds, now).is_some_and(|wait| !wait.is_positive()))
    }

    /// Returns the time until a ready Pod becomes available; zero or negative if the Pod is available. `None` if the Pod is not
    /// ready, or if the condition has no time.
    pub fn time_until_available(&self, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
        let since = self.ready_since()?;
        Some(SignedDuration::from_secs(min_ready_seconds.into()).saturating_add(since.duration_since(now)))
    }

    /// Returns the deletion cost from the annotation; 0 if the annotation is missing or invalid. See [`parse_deletion_cost`].
    pub fn deletion_cost(&self) -> i32 {
        self.meta.annotations.get(POD_DELETION_COST).map_or(0, parse_deletion_cost)
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.meta.annotations.retain(|key| key == POD_DELETION_COST);
    }
}

/// Returns the time until the first ready Pod of `pods` reaches `min_ready_seconds`; `None` if all ready Pods are available.
///
/// After that time, the caller checks availability again with the current time. Upstream: `pkg/controller`,
/// `FindMinNextPodAvailabilityCheck`.
pub fn time_until_next_available_pod<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let waits = pods.into_iter().filter_map(|pod| pod.time_until_available(min_ready_seconds, now));
    waits.filter(SignedDuration::is_positive).min().and_then(|wait| wait.try_into().ok())
}

/// Parses a deletion cost: a decimal `i32` without plus sign or leading zero. Any other text gives 0.
pub fn parse_deletion_cost(text: &str) -> i32 {
    if text.starts_with(|c| matches!(c, '-' | '1'..='9')) { text.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests;
