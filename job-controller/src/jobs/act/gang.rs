//! Creates the Workload and the `PodGroup` of a gang, which is a Job with Pods that are scheduled together.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use serde::Serialize;
use serde_json::json;

use crate::{
    jobs::{
        JobController,
        decide::gang::{decide_pod_scheduling, pod_group_name, pod_group_template_name, workload_name},
        plan::{PodScheduling, PodSummary},
        snapshot::Snapshot,
    },
    objects::{JOBS, POD_GROUPS, PodGroup, PodGroupTemplate, WORKLOADS, Workload},
};

/// The maximum number of create requests for one object in a sync, if the server answers them with "already exists".
const MAX_CREATE_ATTEMPTS: u32 = 5;
/// The pause after each refused create, in which the cache may receive the existing object.
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Creates the Workload and the `PodGroup` if they are missing. Returns the name of the group; `None` for Pods without a group.
///
/// Upstream: `pkg/controller/job`, `ensureWorkloadAndPodGroup`.
pub(super) async fn ensure_workload_and_pod_group(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    mut pod_scheduling: PodScheduling,
    io: Io<'_, JobController>,
) -> Result<Option<Text>, SyncError> {
    let job = &*snapshot.job;
    let mut workload_attempts = MAX_CREATE_ATTEMPTS;
    let mut group_attempts = MAX_CREATE_ATTEMPTS;
    loop {
        let (refusal, kind, attempts) = match pod_scheduling {
            PodScheduling::OneByOne(_) => return Ok(None),
            PodScheduling::InPodGroup(name) => return Ok(Some(name)),
            PodScheduling::CreateWorkloadAndPodGroup => {
                match io.send_and_decode::<Workload>(workload_request(snapshot, io)).await {
                    Ok(workload) => {
                        // A forecast (a sync without requests) gets no answer, so it continues with a Workload that has the
                        // expected names.
                        let forecast = || Workload::for_forecast(&workload_name(job), &pod_group_template_name(job));
                        let Some(workload) = workload.or_else(|| forecast().ok()) else { return Ok(None) };
                        let (name, job_name) = (&workload.metadata.name, &job.metadata.name);
                        let message = format!("Created Workload {name} for Job {job_name}");
                        io.record_event(EventType::Normal, "WorkloadCreated", message);
                        pod_scheduling = PodScheduling::CreatePodGroup(Arc::new(workload));
                        continue;
                    }
                    Err(refusal) => (refusal, "Workload", &mut workload_attempts),
                }
            }
            PodScheduling::CreatePodGroup(workload) => {
                // A Workload without a template has no `PodGroup`.
                let Some(request) = group_request(snapshot, &workload, io) else { return Ok(None) };
                match io.send_and_decode::<PodGroup>(request).await {
                    Ok(group) => {
                        return Ok(Some(group.map_or_else(Text::default, |group| Text::new(&group.metadata.name))));
                    }
                    Err(refusal) => (refusal, "PodGroup", &mut group_attempts),
                }
            }
        };
        *attempts -= 1;
        if refusal.class != RefusalClass::NameTaken || *attempts == 0 {
            if refusal.class == RefusalClass::NotWritten && refusal.error.is_denied() {
                let message = format!("Error creating {kind}: {}", refusal.error);
                io.record_event(EventType::Warning, "FailedCreate", message);
            }
            let what = format!("ensuring Workload and PodGroup for Job {}", job.metadata.key());
            return Err(SyncError::from_refusal(&what, &refusal));
        }
        // The cache will soon show the existing object, which comes from a create with a lost answer, or from another writer.
        io.pause(PAUSE_BETWEEN_ATTEMPTS).await;
        // `None` if a cached Workload or `PodGroup` cannot be decoded.
        let cached = io.observe_again(|controller| controller.gangs.as_ref()?.scheduling_objects(&snapshot.job).ok());
        pod_scheduling = decide_pod_scheduling(snapshot, pod_summary, cached.as_ref());
    }
}

fn workload_request(snapshot: &Snapshot, io: Io<'_, JobController>) -> Request {
    let job = &*snapshot.job;
    let spec = || {
        let reference = json!({"apiGroup": JOBS.group(), "kind": JOBS.kind(), "name": job.metadata.name});
        let policy = json!({"gang": {"minCount": job.parallelism}});
        let templates = json!([{"name": pod_group_template_name(job), "schedulingPolicy": policy}]);
        json!({"controllerRef": reference, "podGroupTemplates": templates})
    };
    create_request(snapshot, WORKLOADS, &workload_name(job), None, spec, io)
}

/// Builds the create request for the `PodGroup` of a Workload; `None` if the Workload has no template.
fn group_request(snapshot: &Snapshot, workload: &Workload, io: Io<'_, JobController>) -> Option<Request> {
    let meta = &workload.metadata;
    let PodGroupTemplate { name: template_name, scheduling_policy } = workload.pod_group_templates().first()?;
    let spec = || {
        let reference = json!({"workload": {"workloadName": meta.name, "podGroupTemplateName": template_name}});
        json!({"podGroupTemplateRef": reference, "schedulingPolicy": scheduling_policy})
    };
    // A plain owner reference, without `blockOwnerDeletion`, because the Workload may be deleted before the group.
    let owner_reference = OwnerRef {
        api_version: Text::new(&WORKLOADS.api_version()),
        kind: Text::new(WORKLOADS.kind()),
        name: Text::new(&meta.name),
        uid: meta.uid.clone(),
        ..OwnerRef::default()
    };
    let name = pod_group_name(&meta.name, template_name);
    Some(create_request(snapshot, POD_GROUPS, &name, Some(owner_reference), spec, io))
}

/// Builds the create request for an object that the Job controls. `owner_reference` becomes an additional owner reference.
fn create_request<S: Serialize>(
    snapshot: &Snapshot,
    resource: Resource,
    name: &str,
    owner_reference: Option<OwnerRef>,
    spec: impl FnOnce() -> S,
    io: Io<'_, JobController>,
) -> Request {
    let owner = &snapshot.owner;
    let body = io.encode_body(|| {
        let owners: Vec<OwnerRef> = std::iter::once(owner.controller_reference()).chain(owner_reference).collect();
        json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "spec": spec(),
            "metadata": {"name": name, "namespace": owner.namespace, "ownerReferences": owners}})
    });
    Request::create(resource, &owner.namespace, &name.into(), body).with_role(ObjectRole::AwaitedObject)
}
