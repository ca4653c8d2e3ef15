//! Making the Workload and the `PodGroup` of a Job whose Pods are scheduled as a gang.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Target},
    events::EventType,
    intern::Text,
    meta::OwnerRef,
    object::{Object, Resource},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    JobController,
    decide::{
        Gang, Situation, Snapshot,
        gang::{self, Ordinary},
    },
    error::Error,
    objects::{GroupTemplate, JOBS, POD_GROUPS, PodGroup, WORKLOADS, Workload},
};

/// How often what is said to be there already is looked for.
const ATTEMPTS: usize = 5;
/// How long after each attempt.
const PAUSE: Duration = Duration::from_millis(10);

impl JobController {
    /// The name of the group that new Pods join, if they join one; makes what is missing of it.
    ///
    /// Upstream: `pkg/controller/job`, `ensureWorkloadAndPodGroup`.
    pub(super) async fn ensure_gang(
        &self,
        snapshot: &Snapshot,
        situation: &Situation,
        mut gang: Gang,
    ) -> Result<Option<Text>, Error> {
        let mut attempts = [ATTEMPTS; 2];
        loop {
            let (kind, made) = match &gang {
                Gang::Ordinary(_) => return Ok(None),
                Gang::Group(name) => return Ok(Some(name.clone())),
                Gang::MakeBoth => (0, self.make_workload(snapshot).await.map(Gang::Make)),
                Gang::Make(workload) => (1, self.make_group(snapshot, workload).await),
            };
            attempts[kind] -= 1;
            gang = match made {
                Ok(next) => next,
                // A create whose answer was lost, or somebody else's: the cache will show it.
                Err(error) if error.is_already_exists() && attempts[kind] > 0 => {
                    self.context.clock.sleep(PAUSE).await;
                    let known = self.gangs.as_ref().map(|gangs| gangs.known(&snapshot.job)).transpose()?;
                    gang::gang(snapshot, situation, known.as_ref())
                }
                Err(error) => return Err(Error::Gang(snapshot.job.metadata.key().to_string(), error)),
            };
        }
    }

    async fn make_workload(&self, snapshot: &Snapshot) -> Result<Arc<Workload>, api::Error> {
        let job = &*snapshot.job;
        let reference = json!({"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name});
        let policy = json!({"gang": {"minCount": job.parallelism}});
        let templates = json!([{"name": gang::template_name(job), "schedulingPolicy": policy}]);
        let spec = json!({"controllerRef": reference, "podGroupTemplates": templates});
        let owners = [snapshot.owner.controller_ref()];
        let made: Workload = self.make(snapshot, WORKLOADS, &gang::workload_name(job), &owners, &spec).await?;
        let message = format!("Created Workload {} for Job {}", made.metadata.name, job.metadata.name);
        self.event(snapshot, EventType::Normal, "WorkloadCreated", message);
        Ok(Arc::new(made))
    }

    async fn make_group(&self, snapshot: &Snapshot, workload: &Workload) -> Result<Gang, api::Error> {
        let of = &workload.metadata;
        let Some(GroupTemplate { name, scheduling_policy }) = workload.templates().first() else {
            return Ok(Gang::Ordinary(Some(Ordinary::Templates(Text::new(&of.name), 0))));
        };
        let group = gang::group_name(&of.name, name);
        let reference = json!({"workload": {"workloadName": of.name, "podGroupTemplateName": name}});
        let spec = json!({"podGroupTemplateRef": reference, "schedulingPolicy": scheduling_policy});
        // No more than a trace of where it comes from: the Workload may go before it.
        let origin = OwnerRef {
            api_version: Text::new(&WORKLOADS.api_version()),
            kind: Text::new(WORKLOADS.kind),
            name: Text::new(&of.name),
            uid: of.uid.clone(),
            ..OwnerRef::default()
        };
        let owners = [snapshot.owner.controller_ref(), origin];
        let made: PodGroup = self.make(snapshot, POD_GROUPS, &group, &owners, &spec).await?;
        Ok(Gang::Group(Text::new(&made.metadata.name)))
    }

    async fn make<K: Object + DeserializeOwned>(
        &self,
        snapshot: &Snapshot,
        resource: Resource,
        name: &str,
        owners: &[OwnerRef],
        spec: &impl Serialize,
    ) -> Result<K, api::Error> {
        let namespace = &snapshot.owner.namespace;
        let body = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "spec": spec,
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners}});
        let target = Target { resource, namespace, name: "", subresource: "" };
        let made: K = serde_json::from_slice(&self.context.api.create(target, &body).await?)?;
        self.ledger.wrote(&snapshot.owner.uid, resource, made.meta().resource_version);
        Ok(made)
    }
}
