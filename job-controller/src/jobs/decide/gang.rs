//! Decides whether the Pods of a Job are scheduled together as a gang, and in which `PodGroup` (gate `WorkloadWithJob`).
//!
//! A Workload and its single `PodGroup` are created once, before the first Pod. The controller finds them by their references
//! and not by their names, because another writer may have created them. If such an object has an unexpected shape, it is not
//! changed, and the Pods are scheduled one by one.

use std::{fmt::Write as _, sync::Arc};

use common::{
    hash::{Fnv1a, safe_encode},
    prelude::*,
};

use crate::{
    jobs::{
        plan::{NoGangReason, PodScheduling, PodSummary},
        snapshot::{SchedulingObjects, Snapshot},
    },
    objects::{JOBS, Job, condition_types},
};

/// The maximum length of an object name, in bytes.
const MAX_NAME: usize = 253;
/// The maximum length of a DNS label, such as the name of a template, in bytes.
const MAX_LABEL: usize = 63;

/// Decides whether the Pods of a Job form a gang. Upstream: `pkg/controller/job`, `ensureWorkloadAndPodGroup`.
pub fn decide_pod_scheduling(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scheduling_objects: Option<&SchedulingObjects>,
) -> PodScheduling {
    let job = &*snapshot.job;
    let Some(SchedulingObjects { workloads, pod_groups }) = scheduling_objects.filter(|_| can_form_gang(job)) else {
        return PodScheduling::OneByOne(None);
    };
    let reason = match workloads.as_slice() {
        [] if is_new(job, pod_summary) => return PodScheduling::CreateWorkloadAndPodGroup,
        [] => NoGangReason::StartedWithoutWorkload,
        [workload] => {
            let (name, templates) = (Text::new(&workload.metadata.name), workload.pod_group_templates().len());
            match pod_groups.as_slice() {
                _ if !is_controlled_by(&workload.metadata, job) => NoGangReason::NotControlledByJob("Workload", name),
                _ if templates != 1 => NoGangReason::UnexpectedTemplateCount(name, templates),
                [] => return PodScheduling::CreatePodGroup(Arc::clone(workload)),
                [group] if is_controlled_by(&group.metadata, job) => {
                    return PodScheduling::InPodGroup(Text::new(&group.metadata.name));
                }
                [group] => NoGangReason::NotControlledByJob("PodGroup", Text::new(&group.metadata.name)),
                several => NoGangReason::SeveralPodGroups(name, several.len()),
            }
        }
        several => NoGangReason::SeveralWorkloads(several.len()),
    };
    PodScheduling::OneByOne(Some(reason))
}

/// Whether the Pods of a Job all run at the same time, and the user has not put them into a scheduling group.
fn can_form_gang(job: &Job) -> bool {
    let alike = job.is_indexed() && job.parallelism > 1 && job.completions == Some(job.parallelism);
    alike && !job.has_scheduling_group && !job.metadata.is_deleting()
}

/// Whether the Job has no Pods, and was never started or suspended. An existing Pod could not join a `PodGroup`.
fn is_new(job: &Job, pod_summary: &PodSummary) -> bool {
    let status = &job.status;
    let counted = status.succeeded != 0 || status.failed != 0;
    let suspended = status.conditions.iter().any(|condition| condition.kind == condition_types::SUSPENDED);
    pod_summary.pods.is_empty() && status.start_time.is_none() && !counted && !suspended
}

/// Whether a deleted Job with the same name controls the object, so that the garbage collector will delete the object.
pub fn is_left_over_from_deleted_job(object: &Meta, job: &Job) -> bool {
    let api_version = JOBS.api_version();
    let named_alike = |owner: &OwnerRef| {
        owner.kind == JOBS.kind() && *owner.api_version == *api_version && *owner.name == *job.metadata.name
    };
    object.controller().is_some_and(|owner| named_alike(owner) && owner.uid != job.metadata.uid)
}

fn is_controlled_by(object: &Meta, job: &Job) -> bool {
    object.controller().is_some_and(|owner| owner.uid == job.metadata.uid)
}

/// Returns the name of a Job's Workload: the same name in each attempt, and another name for a recreated Job.
///
/// Upstream: `pkg/controller/job`, `computeWorkloadName`.
pub fn workload_name(job: &Job) -> String {
    let mut hash = Fnv1a::default();
    hash.update(b"(types.UID)");
    // Writing into the hasher cannot fail.
    let _ = write!(hash, "{}", job.metadata.uid);
    let hash = safe_encode(hash.finish());
    let room = MAX_NAME - hash.len() - 1;
    format!("{}-{hash}", truncate_name(&job.metadata.name, room))
}

/// Returns the name of the single template in a Job's Workload.
///
/// The Job name is cut if the result would exceed 63 bytes. Upstream does not cut the name, so the server always rejects it.
pub fn pod_group_template_name(job: &Job) -> String {
    const END: &str = "-pgt-0";
    let name = truncate_name(&job.metadata.name, MAX_LABEL - END.len());
    format!("{}{END}", name.trim_end_matches(['-', '.']))
}

/// Returns the name of the `PodGroup` for a Workload's template: both names, cut to at most 253 bytes in total, and their hash.
///
/// Upstream: `pkg/controller/job`, `computePodGroupName`.
pub fn pod_group_name(workload: &str, template: &str) -> String {
    let mut hash = Fnv1a::default();
    hash.update(workload.as_bytes());
    hash.update(template.as_bytes());
    let hash = safe_encode(hash.finish());
    let room = MAX_NAME - hash.len() - 2;
    let half = room / 2;
    // A short name leaves its unused room to the other name.
    let (first, second) = match (workload.len(), template.len()) {
        (w, t) if w + t <= room => (w, t),
        (w, _) if w <= half => (w, room - w),
        (_, t) if t <= half => (room - t, t),
        _ => (room - half, half),
    };
    format!("{}-{}-{hash}", truncate_name(workload, first), truncate_name(template, second))
}

/// Cuts a name to at most `at` bytes, at the boundary of a character.
fn truncate_name(name: &str, at: usize) -> &str {
    &name[..name.floor_char_boundary(at)]
}
