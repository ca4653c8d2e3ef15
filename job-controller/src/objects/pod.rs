//! The fields of a Pod that this program reads.

use std::ops::Deref;

use common::{
    conditions::seconds,
    head::ObjectHead,
    intern::Labels,
    meta::MetaWithGracePeriod,
    pods::{PODS, Phase, Pod, PodSpec, RawContainerStatus, RawPodStatus},
    prelude::*,
    wire::MessageSchema,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::indexes::parse_completion_index;

/// The finalizer that keeps a Pod until its result has been counted.
pub const JOB_TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label key for the completion index of a Pod.
pub const JOB_COMPLETION_INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation key for the number of failures of the index before this Pod, without ignored failures.
pub const JOB_INDEX_FAILURE_COUNT_ANNOTATION: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation key for the number of ignored failures of the index before this Pod.
pub const JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The environment variable that contains the completion index of the Pod.
pub const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";

/// A Pod that may concern a Job.
///
/// The cache holds Pods that a Job controls, Pods without a controller, and all Pods with the tracking finalizer. It holds no
/// Pod with restart policy `Always`. A succeeded Pod of a Job is dropped from the cache after the removal of its finalizer,
/// because the Job has counted the Pod by then.
#[derive(Debug)]
pub struct CachedPod {
    pod: Pod,
    /// Whether the Pod carries the tracking finalizer.
    pub has_tracking_finalizer: bool,
    /// The completion index from the annotation; `None` without a valid annotation.
    pub completion_index: Option<u32>,
    /// The number of failures of the index before this Pod, without ignored failures.
    pub index_failure_count: u32,
    /// The number of ignored failures of the index before this Pod.
    pub index_ignored_failure_count: u32,
    /// The time at which the Pod finished. For a running Pod, an estimate from its readiness, deletion or creation.
    pub finished_at: Timestamp,
    /// The total number of restarts of all containers, init containers included.
    pub total_restart_count: i32,
    /// The exit codes and conditions that the rules of a failure policy match.
    pub failure_policy_input: FailurePolicyInput,
}

/// The properties of a Pod that the rules of a failure policy match: exit codes and conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailurePolicyInput {
    /// Names and exit codes of terminated containers with an exit code other than 0: regular containers first, then init
    /// containers.
    pub container_exit_codes: Box<[(Text, i32)]>,
    /// Types and statuses of a failed Pod's conditions, in the order of the Pod's status.
    conditions: Box<[(Text, Text)]>,
    /// Types and statuses of the conditions of a Pod that has not failed. Pods with equal conditions share one list.
    shared: Labels,
}

impl FailurePolicyInput {
    /// Iterates over the types and statuses of the Pod's conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.conditions.iter().chain(self.shared.as_slice())
    }
}

impl Deref for CachedPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl CachedPod {
    /// Returns the metadata, in which annotations and finalizers are empty.
    pub fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    /// Whether the Pod has finished and still carries the tracking finalizer.
    pub fn is_finished_and_tracked(&self) -> bool {
        self.has_tracking_finalizer && self.phase.is_terminal()
    }

    /// Returns the number of failures of the index before this Pod, including ignored failures.
    pub fn total_index_failure_count(&self) -> u32 {
        self.index_failure_count.saturating_add(self.index_ignored_failure_count)
    }
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;
    /// Excludes restart policy `Always`, because no valid Job has this policy, and the policy of a Pod never changes.
    const FIELD_SELECTOR: &'static str = "spec.restartPolicy!=Always";
    type Indexes = (ByController, OrphansByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Pod::PROTOBUF_SCHEMA;
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> = Some(|head| {
        head.controller_kind().is_none_or(|kind| kind == "Job") || head.has_finalizer(JOB_TRACKING_FINALIZER)
    });

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    fn is_cached(&self) -> bool {
        match self.meta().controller() {
            Some(owner) => self.has_tracking_finalizer || (owner.kind == "Job" && self.phase != Phase::Succeeded),
            None => true,
        }
    }
}

/// Parses a count in an annotation. An invalid count is 0.
fn count(meta: &Meta, key: &str) -> u32 {
    let text = meta.annotations.get(key).unwrap_or_default();
    parse_completion_index(text).filter(|n| i32::try_from(*n).is_ok()).unwrap_or(0)
}

type RawStatus<'a> = RawPodStatus<'a, Option<ContainerState>>;
type Container<'a> = RawContainerStatus<'a, Option<ContainerState>>;

#[derive(Deserialize)]
struct ContainerState {
    terminated: Option<TerminatedState>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminatedState {
    exit_code: Option<i32>,
    #[serde(default, with = "seconds")]
    finished_at: Option<Timestamp>,
}

fn terminated_state<'c>(container: &'c Container<'_>) -> Option<&'c TerminatedState> {
    container.state.as_ref()?.terminated.as_ref()
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: MetaWithGracePeriod,
            spec: Option<PodSpec>,
            #[serde(borrow)]
            status: Option<RawStatus<'a>>,
        }
        let Wire { metadata: MetaWithGracePeriod { mut meta, deletion_grace_period_seconds }, spec, status } =
            Wire::deserialize(deserializer)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let containers = status.regular_containers().chain(status.init_containers());
        let finished_at = finish_time(&status, &meta, &spec, deletion_grace_period_seconds);
        let completion_index = meta.annotations.get(JOB_COMPLETION_INDEX_ANNOTATION).and_then(parse_completion_index);
        let index_failure_count = count(&meta, JOB_INDEX_FAILURE_COUNT_ANNOTATION);
        let index_ignored_failure_count = count(&meta, JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION);
        let has_tracking_finalizer = meta.finalizers.iter().any(|finalizer| *finalizer == JOB_TRACKING_FINALIZER);
        meta.annotations = common::meta::Annotations::default();
        meta.finalizers = Box::default();
        Ok(Self {
            has_tracking_finalizer,
            completion_index,
            index_failure_count,
            index_ignored_failure_count,
            finished_at,
            total_restart_count: containers.map(Container::restart_count).fold(0, i32::saturating_add),
            failure_policy_input: failure_policy_input(&status),
            pod: Pod::new(meta, spec, &status.pod_status()),
        })
    }
}

fn failure_policy_input(status: &RawStatus<'_>) -> FailurePolicyInput {
    let exit_code = |container: &Container<'_>| {
        let code = terminated_state(container)?.exit_code.filter(|code| *code != 0)?;
        Some((Text::new(container.name()), code))
    };
    let containers = status.regular_containers().chain(status.init_containers());
    let mut input =
        FailurePolicyInput { container_exit_codes: containers.filter_map(exit_code).collect(), ..Default::default() };
    let conditions = status.conditions().map(|c| (&*c.kind, c.status.as_deref().unwrap_or_default()));
    if status.phase() == Phase::Failed {
        input.conditions = conditions.map(|(kind, status)| (Text::new(kind), Text::new(status))).collect();
    } else {
        input.shared = Labels::from_pairs(conditions);
    }
    input
}

/// Returns the time at which the Pod finished: the end of its last container, or else the time at which it became unready, was
/// deleted or was created. Upstream: `pkg/controller/job`, `getFinishedTime`.
fn finish_time(
    status: &RawStatus<'_>,
    meta: &Meta,
    spec: &PodSpec,
    deletion_grace_period_seconds: Option<i64>,
) -> Timestamp {
    let is_sidecar = |container: &&Container<'_>| {
        spec.restartable_init_container_names.iter().any(|name| **name == *container.name())
    };
    let deletion_time = || {
        let grace_period = SignedDuration::from_secs(deletion_grace_period_seconds.unwrap_or(0));
        meta.deletion_timestamp.map(|at| at.checked_sub(grace_period).unwrap_or(at))
    };
    latest_end(status.init_containers().filter(is_sidecar), latest_end(status.regular_containers(), None))
        .or_else(|| status.ready_condition("False")?.last_transition_time)
        .or_else(deletion_time)
        .or(meta.creation_timestamp)
        .unwrap_or(Timestamp::MIN)
}

/// Returns the latest of `so_far` and the end times of all containers; `None` if a container is still running.
fn latest_end<'a, 'b: 'a>(
    containers: impl Iterator<Item = &'a Container<'b>>,
    so_far: Option<Timestamp>,
) -> Option<Timestamp> {
    let mut latest = so_far;
    for container in containers {
        latest = latest.max(Some(terminated_state(container)?.finished_at?));
    }
    latest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::sync_time_plus_seconds as at;

    fn pod(metadata: &Value, spec: &Value, status: &Value) -> CachedPod {
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        serde_json::from_str(&pod.to_string()).unwrap()
    }

    fn ended(name: &str, second: i64) -> Value {
        json!({"name": name, "restartCount": 1, "state": {"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}}})
    }

    #[test]
    fn a_pod_is_reduced_to_the_fields_that_are_read() {
        let metadata = json!({"name": "j-x", "uid": "u", "finalizers": ["example.com/x", JOB_TRACKING_FINALIZER],
            "annotations": {JOB_COMPLETION_INDEX_ANNOTATION: "7", JOB_INDEX_FAILURE_COUNT_ANNOTATION: "2", JOB_INDEX_IGNORED_FAILURE_COUNT_ANNOTATION: "99999999999", "big": "x"}});
        let status = json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [ended("c", 5), {"name": "d", "restartCount": 3}], "initContainerStatuses": [{"restartCount": 4}]});
        let pod = pod(&metadata, &json!({}), &status);
        assert!(pod.has_tracking_finalizer && pod.is_finished_and_tracked());
        assert_eq!((pod.completion_index, pod.index_failure_count, pod.index_ignored_failure_count), (Some(7), 2, 0));
        assert_eq!((pod.total_restart_count, pod.restart_counts.max_of_regular_containers), (8, 3));
        assert!(pod.meta().annotations.is_empty() && pod.meta().finalizers.is_empty());
        assert_eq!(*pod.failure_policy_input.container_exit_codes, [("c".into(), 1)]);
        let conditions: Vec<_> =
            pod.failure_policy_input.conditions().map(|(kind, status)| format!("{kind}={status}")).collect();
        assert_eq!(conditions, ["DisruptionTarget=True"]);
    }

    /// JOB-29.
    #[test]
    fn invalid_indexes_are_ignored() {
        for text in ["", "x", "-1", "1.5", "0x1"] {
            let pod = pod(
                &json!({"name": "p", "annotations": {JOB_COMPLETION_INDEX_ANNOTATION: text}}),
                &json!({}),
                &json!({}),
            );
            assert_eq!(pod.completion_index, None, "{text}");
        }
    }

    /// JOB-39.
    #[test]
    fn pods_finish_with_their_last_container() {
        let created = json!({"name": "p", "creationTimestamp": at(0).to_string()});
        let sidecar = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]});
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(50).to_string()}]);
        let finished = |metadata: &Value, spec: &Value, status: Value| pod(metadata, spec, &status).finished_at;
        let both = json!({"containerStatuses": [ended("a", 10), ended("b", 30)]});
        assert_eq!(finished(&created, &json!({}), both), at(30));
        let with_sidecar =
            json!({"containerStatuses": [ended("a", 10)], "initContainerStatuses": [ended("i", 90), ended("s", 20)]});
        assert_eq!(finished(&created, &sidecar, with_sidecar), at(20));
        let sidecar_alone = json!({"containerStatuses": [{"name": "a"}], "initContainerStatuses": [ended("s", 20)]});
        assert_eq!(finished(&created, &sidecar, sidecar_alone), at(20));
        let sidecar_runs = json!({"containerStatuses": [ended("a", 10)], "conditions": unready,
            "initContainerStatuses": [{"name": "s", "state": {"running": {}}}]});
        assert_eq!(finished(&created, &sidecar, sidecar_runs), at(50));
        let one_runs = json!({"containerStatuses": [ended("a", 10), {"name": "b"}]});
        assert_eq!(finished(&created, &json!({}), one_runs.clone()), at(0));
        let mut deleted = created.clone();
        deleted["deletionTimestamp"] = json!(at(100).to_string());
        deleted["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(finished(&deleted, &json!({}), one_runs), at(70));
        assert_eq!(finished(&json!({"name": "p"}), &json!({}), json!({})), Timestamp::MIN);
    }

    /// JOB-2.
    #[test]
    fn only_pods_that_may_concern_a_job_are_cached() {
        for (owner, phase, tracked, keep) in [
            (Some("Job"), "Running", true, true),
            (Some("Job"), "Running", false, true),
            (Some("Job"), "Failed", false, true),
            (Some("Job"), "Succeeded", true, true),
            (Some("Job"), "Succeeded", false, false),
            (None, "Succeeded", false, true),
            (None, "Running", false, true),
            (Some("ReplicaSet"), "Running", false, false),
            (Some("ReplicaSet"), "Failed", true, true),
        ] {
            let owners: Vec<Value> = owner
                .map(|kind| json!({"kind": kind, "name": "o", "uid": "u", "controller": true}))
                .into_iter()
                .collect();
            let finalizers = if tracked { json!([JOB_TRACKING_FINALIZER]) } else { json!(null) };
            let metadata = json!({"name": "p", "ownerReferences": owners, "finalizers": finalizers});
            let pod = pod(&metadata, &json!({}), &json!({ "phase": phase }));
            assert_eq!(pod.is_cached(), keep, "{owner:?} {phase} {tracked}");
        }
    }
}
