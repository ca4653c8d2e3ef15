//! Creates and deletes the Pods of a Job.

use common::{
    intern::Text,
    io::{Class, Failed, Pace, Refusal, Request, Role, create_pod, delete_pod},
    pods::PODS,
};

use super::{
    body::Bodies,
    note::{Io, Note},
};
use crate::{
    jobs::{
        plan::{Manage, NewPod, OwnPod, PodWrites, Situation, Victim, Why},
        snapshot::Snapshot,
    },
    metrics::CreationReason,
    untrack::untrack,
};

/// Creates Pods in batches of 1, 2, 4, ... (slow start). A sync sends only one request if the server refuses all Pods.
pub(super) async fn create(
    snapshot: &Snapshot,
    situation: &Situation,
    pods: &[NewPod],
    group: Option<&Text>,
    io: Io<'_>,
) -> (PodWrites, Option<Failed>) {
    let Snapshot { job, owner, .. } = snapshot;
    let bodies = match Bodies::new(job, owner.controller_ref(), group) {
        Ok(bodies) => bodies,
        Err(problem) => {
            let failed = Failed::new("template", format!("unable to create pods, {problem}"));
            return (PodWrites::default(), Some(failed));
        }
    };
    let create = |pod: NewPod| {
        let prefix = bodies.prefix(pod.index);
        let name = pod.index.map_or_else(String::new, |_| format!("{prefix}*")).into();
        let request = Request::create(PODS, &owner.namespace, &name, io.body(|| bodies.of(pod)));
        create_pod(io, request.generate_name(prefix))
    };
    let created = io.all(Pace::SlowStart(usize::MAX), pods.iter().copied(), create).await;

    let count = created.iter().filter(|created| created.is_ok()).count();
    let refusals = created.into_iter().filter_map(Result::err);
    let (terminating, refused): (Vec<_>, Vec<_>) =
        refusals.partition(|refusal| refusal.class == Class::NamespaceTerminating);
    if !terminating.is_empty() {
        io.note(Note::NamespaceTerminates);
    }
    let reason = CreationReason::of(job, situation.failed, situation.terminating);
    io.note(Note::Created { reason, created: count, refused: refused.len() });
    let failed = refused.first().map(|refusal| Failed::request("", refusal));
    (PodWrites { created: count, ..PodWrites::default() }, failed)
}

/// Deletes the Pods that the plan has selected.
pub(super) async fn remove(situation: &Situation, manage: &Manage, io: Io<'_>) -> (PodWrites, Option<Failed>) {
    let victims = manage.victims();
    let remove = |Victim { position, why }| {
        let victim = &situation.pods[position];
        remove_pod(victim, manage.untracks_first(victim), why, io)
    };
    let removed = io.all(Pace::AtOnce, victims.iter().copied(), remove).await;

    let (mut writes, mut failed) = (PodWrites::default(), None);
    for (victim, removed) in victims.iter().zip(removed) {
        match removed {
            Ok(()) => {
                writes.removed += 1;
                writes.removed_ready += usize::from(situation.pods[victim.position].pod.is_ready());
            }
            Err(refusal) if refusal.class == Class::Changed => writes.changed += 1,
            Err(refusal) => {
                failed.get_or_insert_with(|| Failed::request("unable to delete pods", &refusal));
            }
        }
    }
    (writes, failed)
}

/// Deletes a Pod with a precondition on its cached version. If the Pod has finished or was released since then, the server
/// refuses the deletion, and the next sync decides again.
///
/// With `untracks_first`, the Pod loses its finalizer before the deletion, so that it is not counted.
async fn remove_pod(OwnPod { pod, .. }: &OwnPod, untracks_first: bool, why: Why, io: Io<'_>) -> Result<(), Refusal> {
    let delete = Request::delete(PODS, pod.meta()).because(why.to_string());
    if !untracks_first {
        return delete_pod(io, delete).await;
    }
    match io.send(untrack(pod, "", io).role(Role::Child)).await {
        // Without the finalizer, no process counts the Pod any more, so the delete needs no precondition.
        Ok(_) => delete_pod(io, delete.at(None)).await,
        Err(refusal) if refusal.class == Class::Gone => Ok(()),
        Err(refusal) => Err(refusal),
    }
}
