//! Removes the tracking finalizer from Pods of a Job.

use common::{
    events::EventType,
    io::{Class, Failed, Pace, Refusal, Role},
    meta::Uid,
};

use super::note::{Io, Note};
use crate::{jobs::snapshot::PodRef, untrack::untrack};

/// The Pods that have lost their finalizers, and the Pods that may still have them.
#[derive(Default)]
pub(super) struct Untracked<'a> {
    /// Pods that have lost the finalizer or no longer exist.
    pub(super) done: Vec<&'a PodRef>,
    /// Pods that may still have the finalizer, each with the server's refusal.
    refused: Vec<(&'a PodRef, Refusal)>,
}

/// Removes the finalizer from all these Pods, in parallel. The next sync of the Job waits until the cache shows these writes.
pub(super) async fn untrack_all<'a>(pods: Vec<&'a PodRef>, why: &'static str, io: Io<'_>) -> Untracked<'a> {
    let mut untracked = Untracked::default();
    if pods.is_empty() {
        return untracked;
    }
    io.note(Note::Untracking(pods.iter().copied().map(uid).collect()));
    let send = |pod: &'a PodRef| io.send(untrack(pod, why, io).role(Role::Child));
    let mut answers = io.all(Pace::AtOnce, pods.iter().copied(), send).await.into_iter();
    let mut still_tracked = Vec::new();
    for pod in pods {
        // There are fewer answers than Pods if the process is shutting down.
        let answer = answers.next();
        if let Some(Ok(_) | Err(Refusal { class: Class::Gone, .. })) = answer {
            untracked.done.push(pod);
            continue;
        }
        still_tracked.push(uid(pod));
        untracked.refused.extend(answer.and_then(Result::err).map(|refusal| (pod, refusal)));
    }
    if !still_tracked.is_empty() {
        io.note(Note::StillTracked(still_tracked));
    }
    untracked
}

impl Untracked<'_> {
    /// Returns the number of Pods that changed after they were cached. The watch event of the change enqueues the Job again.
    pub(super) fn changed(&self) -> usize {
        self.refused.len() - self.failures().count()
    }

    /// Returns the first refusal that is not caused by a changed Pod, as an error.
    pub(super) fn failure(&self, doing: &str) -> Option<Failed> {
        let (pod, refusal) = self.failures().next()?;
        Some(Failed::request(&format!("{doing} {}", pod.meta().key()), refusal))
    }

    /// Emits one Event if the server denies the removal of finalizers.
    pub(super) fn report_denied(&self, io: Io<'_>) {
        if let Some((pod, refusal)) = self.failures().find(|(_, refusal)| refusal.error.is_denied()) {
            let message = format!("Error: cannot remove the finalizer of Pod {}: {}", pod.meta().key(), refusal.error);
            io.event(EventType::Warning, "FailedUpdate", message);
        }
    }

    fn failures(&self) -> impl Iterator<Item = &(&PodRef, Refusal)> {
        self.refused.iter().filter(|(_, refusal)| refusal.class != Class::Changed)
    }
}

fn uid(pod: &PodRef) -> Uid {
    pod.meta().uid.clone()
}
