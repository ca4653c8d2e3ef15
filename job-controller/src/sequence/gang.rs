//! Making the Workload and the `PodGroup` of a Job whose Pods are scheduled as a gang.

use std::{sync::Arc, time::Duration};

use common::{
    events::EventType,
    intern::Text,
    meta::OwnerRef,
    object::Resource,
    sequence::{Body, Class, Failed, Refusal, Request, Role, Step, Turn},
};
use serde::Serialize;
use serde_json::json;

use super::{Next, Note, State};
use crate::{
    decide::{
        Gang,
        gang::{self, Ordinary},
    },
    objects::{GroupTemplate, JOBS, POD_GROUPS, PodGroup, WORKLOADS, Workload},
};

/// How often each object is asked for that is said to be there already.
pub(super) const ATTEMPTS: u32 = 5;
/// The pause after each attempt.
const PAUSE: Duration = Duration::from_millis(10);

impl<'a> State<'a> {
    /// Finds the group that new Pods join, if they join one; makes what is missing of it.
    ///
    /// Upstream: `pkg/controller/job`, `ensureWorkloadAndPodGroup`.
    pub(super) fn ensure_gang(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match self.gang.clone() {
            Gang::Ordinary(_) => self.manage(turn),
            Gang::Group(name) => {
                self.group = Some(name);
                self.manage(turn)
            }
            Gang::MakeBoth => Step::Send(self.workload(turn), |state, turn| {
                let made = turn.read::<Workload>();
                state.made_workload(turn, made)
            }),
            Gang::Make(workload) => match self.group_of(turn, &workload) {
                Some(request) => Step::Send(request, |state, turn| {
                    let made = turn.read::<PodGroup>();
                    state.made_group(turn, made)
                }),
                None => {
                    let name = Text::new(&workload.metadata.name);
                    self.gang = Gang::Ordinary(Some(Ordinary::Templates(name, 0)));
                    self.manage(turn)
                }
            },
        }
    }

    fn made_workload(&mut self, turn: &mut Turn<Note>, made: Result<Option<Workload>, Refusal>) -> Next<'a> {
        let job = &*self.snapshot.job;
        let made = match made {
            Ok(Some(workload)) => workload,
            // A forecast: the names of both objects follow from the Job.
            Ok(None) => match Workload::to_be_made(&gang::workload_name(job), &gang::template_name(job)) {
                Ok(workload) => workload,
                Err(_) => return self.manage(turn),
            },
            Err(refusal) => return self.gang_refused(turn, 0, &refusal),
        };
        let message = format!("Created Workload {} for Job {}", made.metadata.name, job.metadata.name);
        turn.tell(EventType::Normal, "WorkloadCreated", message);
        self.gang = Gang::Make(Arc::new(made));
        self.ensure_gang(turn)
    }

    fn made_group(&mut self, turn: &mut Turn<Note>, made: Result<Option<PodGroup>, Refusal>) -> Next<'a> {
        match made {
            Ok(made) => {
                self.gang = Gang::Group(made.map_or_else(Text::default, |made| Text::new(&made.metadata.name)));
                self.ensure_gang(turn)
            }
            Err(refusal) => self.gang_refused(turn, 1, &refusal),
        }
    }

    /// Waits for the cache to show what is said to be there already: from a create whose answer was lost, or somebody else's.
    fn gang_refused(&mut self, turn: &mut Turn<Note>, kind: usize, refusal: &Refusal) -> Next<'a> {
        self.attempts[kind] -= 1;
        if refusal.class != Class::Taken || self.attempts[kind] == 0 {
            if refusal.class == Class::Refused && refusal.error.is_denied() {
                let kind = [WORKLOADS.kind, POD_GROUPS.kind][kind];
                turn.tell(EventType::Warning, "FailedCreate", format!("Error creating {kind}: {}", refusal.error));
            }
            let job = self.snapshot.job.metadata.key();
            let failed = Failed::request(&format!("ensuring Workload and PodGroup for Job {job}"), refusal);
            return self.ends(turn, Err(failed));
        }
        Step::Pause(PAUSE, |_, _| {
            Step::Observe((), |state, turn| {
                state.gang = gang::gang(state.snapshot, &state.situation, turn.fresh().as_ref());
                state.ensure_gang(turn)
            })
        })
    }

    fn workload(&self, turn: &Turn<Note>) -> Request {
        let job = &*self.snapshot.job;
        let spec = || {
            let reference = json!({"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name});
            let policy = json!({"gang": {"minCount": job.parallelism}});
            let templates = json!([{"name": gang::template_name(job), "schedulingPolicy": policy}]);
            json!({"controllerRef": reference, "podGroupTemplates": templates})
        };
        let (name, owners) = (gang::workload_name(job), [self.snapshot.owner.controller_ref()]);
        let body = turn.body(|| self.object(WORKLOADS, &name, &owners, &spec()));
        self.made(WORKLOADS, &name, body)
    }

    /// The group of a Workload; nothing if the Workload has no template.
    fn group_of(&self, turn: &Turn<Note>, workload: &Workload) -> Option<Request> {
        let of = &workload.metadata;
        let GroupTemplate { name: template, scheduling_policy } = workload.templates().first()?;
        let name = gang::group_name(&of.name, template);
        let reference = json!({"workload": {"workloadName": of.name, "podGroupTemplateName": template}});
        let spec = json!({"podGroupTemplateRef": reference, "schedulingPolicy": scheduling_policy});
        // No more than a trace of where it comes from: the Workload may go before it.
        let origin = OwnerRef {
            api_version: Text::new(&WORKLOADS.api_version()),
            kind: Text::new(WORKLOADS.kind),
            name: Text::new(&of.name),
            uid: of.uid.clone(),
            ..OwnerRef::default()
        };
        let owners = [self.snapshot.owner.controller_ref(), origin];
        let body = turn.body(|| self.object(POD_GROUPS, &name, &owners, &spec));
        Some(self.made(POD_GROUPS, &name, body))
    }

    fn object(&self, resource: Resource, name: &str, owners: &[OwnerRef], spec: &impl Serialize) -> serde_json::Value {
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "spec": spec,
            "metadata": {"name": name, "namespace": self.snapshot.owner.namespace, "ownerReferences": owners}})
    }

    fn made(&self, resource: Resource, name: &str, body: Body) -> Request {
        // Only its version is awaited: it is no child that a lost answer could hide.
        Request::create(resource, &self.snapshot.owner.namespace, &name.into(), body).role(Role::Itself)
    }
}
