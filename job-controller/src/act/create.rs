//! Creating Pods: slowly at first, so that a Job whose Pods are refused costs one request a sync.

use common::{
    api::{self, Target},
    batch::{all, slow_start},
    events::EventType,
    intern::Text,
    meta::{Uid, Version},
    pods::PODS,
};
use serde::Deserialize;

use crate::{
    JobController,
    body::Bodies,
    decide::{NewPod, Snapshot},
    error::Error,
};

/// What became of one create.
enum Created {
    /// There is a Pod more.
    Yes,
    /// No more Pods are to be created: the namespace is going away, or this process is. Nothing is wrong with that.
    NoMore,
}

/// What is read of a created Pod.
#[derive(Deserialize)]
struct Answer {
    metadata: AnswerMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMeta {
    name: String,
    uid: Uid,
    resource_version: Version,
}

impl JobController {
    /// Creates Pods in batches of 1, 2, 4, ...; the first batch with a failure is the last. How many were created, how
    /// many were refused, and the first error.
    pub(super) async fn create_pods(
        &self,
        snapshot: &Snapshot,
        pods: &[NewPod],
        group: Option<&Text>,
    ) -> (usize, usize, Option<Error>) {
        let bodies = match Bodies::new(&snapshot.job, snapshot.owner.controller_ref(), group) {
            Ok(bodies) => bodies,
            Err(problem) => return (0, 0, Some(Error::Template(problem))),
        };
        // What the cache shows before the first request: a Pod that appears later may be one whose answer is lost.
        let before = self.children(&snapshot.owner.namespace, &snapshot.owner.uid);
        let (mut created, mut refused, mut failed, mut next) = (0, 0, None, pods);
        for batch in slow_start(pods.len()) {
            let (now, later) = next.split_at(batch);
            next = later;
            let calls = now.iter().map(|pod| self.create_pod(snapshot, &bodies, *pod, &before));
            let mut go_on = true;
            for result in all(calls).await {
                match result {
                    Ok(Created::Yes) => created += 1,
                    Ok(Created::NoMore) => go_on = false,
                    Err(error) => {
                        refused += 1;
                        failed = failed.or(Some(Error::Create(error)));
                    }
                }
            }
            if !go_on || failed.is_some() {
                break;
            }
        }
        (created, refused, failed)
    }

    async fn create_pod(
        &self,
        snapshot: &Snapshot,
        bodies: &Bodies,
        pod: NewPod,
        before: &common::map::HashSet<Uid>,
    ) -> Result<Created, api::Error> {
        if self.ends() {
            return Ok(Created::NoMore);
        }
        let owner = &snapshot.owner.uid;
        let target = Target { resource: PODS, namespace: &snapshot.owner.namespace, name: "", subresource: "" };
        let answer = self.context.api.create(target, &bodies.of(pod)).await;
        match answer.and_then(|answer| Ok(serde_json::from_slice::<Answer>(&answer)?.metadata)) {
            Ok(AnswerMeta { name, uid, resource_version }) => {
                self.ledger.created(owner, PODS, &uid, resource_version);
                self.event(snapshot, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(Created::Yes)
            }
            Err(error) if error.is_namespace_terminating() => {
                let key = snapshot.job.metadata.key();
                tracing::debug!(logger = "job", key = %key, "The namespace is terminating, creating no Pods");
                self.memory.refuse(owner, self.context.clock.instant());
                Ok(Created::NoMore)
            }
            Err(error) => {
                if error.may_have_happened() {
                    self.ledger.lost_create(owner, PODS, || before.clone());
                }
                if !matches!(error, api::Error::NotLeader) {
                    self.event(snapshot, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
                }
                Err(error)
            }
        }
    }
}
