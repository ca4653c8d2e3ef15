//! Creates the Workload and the `PodGroup` of a gang, which is a Job with Pods that are scheduled together.

use std::{sync::Arc, time::Duration};

use common::{
    events::EventType,
    intern::Text,
    io::{Class, Failed, Request, Role},
    meta::OwnerRef,
    object::Resource,
};
use serde::Serialize;
use serde_json::json;

use super::note::Io;
use crate::{
    jobs::{
        decide::gang::{gang, group_name, template_name, workload_name},
        plan::{Gang, Situation},
        snapshot::Snapshot,
    },
    objects::{GroupTemplate, JOBS, POD_GROUPS, PodGroup, WORKLOADS, Workload},
};

/// The maximal number of create requests for one object in a sync, if the server answers them with "already exists".
const ATTEMPTS: u32 = 5;
/// The pause after each refused create, in which the cache may receive the existing object.
const PAUSE: Duration = Duration::from_millis(10);

/// Creates the Workload and the `PodGroup` if they are missing. Returns the group that new Pods join; `None` without a gang.
///
/// Upstream: `pkg/controller/job`, `ensureWorkloadAndPodGroup`.
pub(super) async fn ensure(
    snapshot: &Snapshot,
    situation: &Situation,
    mut planned: Gang,
    io: Io<'_>,
) -> Result<Option<Text>, Failed> {
    let job = &*snapshot.job;
    let mut workload_attempts = ATTEMPTS;
    let mut group_attempts = ATTEMPTS;
    loop {
        let (refusal, kind, attempts) = match planned {
            Gang::Ordinary(_) => return Ok(None),
            Gang::Group(name) => return Ok(Some(name)),
            Gang::MakeBoth => match io.send_and_read::<Workload>(workload_request(snapshot, io)).await {
                Ok(made) => {
                    // A forecast (a sync without requests) gets no answer. It expects a Workload with the names that follow
                    // from the Job.
                    let expected = || Workload::to_be_made(&workload_name(job), &template_name(job)).ok();
                    let Some(made) = made.or_else(expected) else { return Ok(None) };
                    let message = format!("Created Workload {} for Job {}", made.metadata.name, job.metadata.name);
                    io.event(EventType::Normal, "WorkloadCreated", message);
                    planned = Gang::Make(Arc::new(made));
                    continue;
                }
                Err(refusal) => (refusal, WORKLOADS.kind, &mut workload_attempts),
            },
            Gang::Make(workload) => {
                // A Workload without a template has no group.
                let Some(request) = group_request(snapshot, &workload, io) else { return Ok(None) };
                match io.send_and_read::<PodGroup>(request).await {
                    Ok(made) => {
                        return Ok(Some(made.map_or_else(Text::default, |made| Text::new(&made.metadata.name))));
                    }
                    Err(refusal) => (refusal, POD_GROUPS.kind, &mut group_attempts),
                }
            }
        };
        *attempts -= 1;
        if refusal.class != Class::Taken || *attempts == 0 {
            if refusal.class == Class::Refused && refusal.error.is_denied() {
                io.event(EventType::Warning, "FailedCreate", format!("Error creating {kind}: {}", refusal.error));
            }
            let what = format!("ensuring Workload and PodGroup for Job {}", job.metadata.key());
            return Err(Failed::request(&what, &refusal));
        }
        // The cache will soon show the existing object, which comes from a create with a lost answer, or from another writer.
        io.pause(PAUSE).await;
        planned = gang(snapshot, situation, io.observe_again(()).as_ref());
    }
}

fn workload_request(snapshot: &Snapshot, io: Io<'_>) -> Request {
    let job = &*snapshot.job;
    let spec = || {
        let reference = json!({"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name});
        let policy = json!({"gang": {"minCount": job.parallelism}});
        let templates = json!([{"name": template_name(job), "schedulingPolicy": policy}]);
        json!({"controllerRef": reference, "podGroupTemplates": templates})
    };
    request(snapshot, WORKLOADS, &workload_name(job), None, spec, io)
}

/// Builds the create request for the group of a Workload; `None` if the Workload has no template.
fn group_request(snapshot: &Snapshot, workload: &Workload, io: Io<'_>) -> Option<Request> {
    let of = &workload.metadata;
    let GroupTemplate { name: template, scheduling_policy } = workload.templates().first()?;
    let spec = || {
        let reference = json!({"workload": {"workloadName": of.name, "podGroupTemplateName": template}});
        json!({"podGroupTemplateRef": reference, "schedulingPolicy": scheduling_policy})
    };
    // A plain owner reference, without `blockOwnerDeletion`, because the Workload may be deleted before the group.
    let origin = OwnerRef {
        api_version: Text::new(&WORKLOADS.api_version()),
        kind: Text::new(WORKLOADS.kind),
        name: Text::new(&of.name),
        uid: of.uid.clone(),
        ..OwnerRef::default()
    };
    Some(request(snapshot, POD_GROUPS, &group_name(&of.name, template), Some(origin), spec, io))
}

/// Builds the create request for an object that the Job controls. `origin` is an additional owner reference.
fn request<S: Serialize>(
    snapshot: &Snapshot,
    resource: Resource,
    name: &str,
    origin: Option<OwnerRef>,
    spec: impl FnOnce() -> S,
    io: Io<'_>,
) -> Request {
    let owner = &snapshot.owner;
    let body = io.body(|| {
        let owners: Vec<OwnerRef> = std::iter::once(owner.controller_ref()).chain(origin).collect();
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "spec": spec(),
            "metadata": {"name": name, "namespace": owner.namespace, "ownerReferences": owners}})
    });
    Request::create(resource, &owner.namespace, &name.into(), body).role(Role::Awaited)
}
