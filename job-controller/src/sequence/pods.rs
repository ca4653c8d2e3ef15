//! Taking the finalizer off Pods, and deleting them.

use common::{
    api::Patch,
    pods::PODS,
    sequence::{Class, DeletePod, Next, Refusal, Request, Role, Sequence, Turn},
};
use serde_json::json;

use super::Note;
use crate::{
    decide::{Claimed, PodRef, manage::Why},
    objects::JOB_TRACKING,
};

/// Removes the tracking finalizer of a Pod that has not changed since it was judged. A Pod that is gone has none.
pub(crate) struct Untrack {
    pub(crate) pod: PodRef,
    /// [`Role::Child`] where the next sync of the Job waits for the write.
    role: Role,
    why: &'static str,
    is_sent: bool,
    outcome: Option<Result<(), Refusal>>,
}

impl Untrack {
    pub(super) fn new(pod: &PodRef) -> Self {
        Self { pod: PodRef::clone(pod), role: Role::Child, why: "", is_sent: false, outcome: None }
    }

    /// The same of a Pod of a Job that is being deleted and does not count the Pod.
    pub(super) fn of_uncounted(pod: &PodRef) -> Self {
        Self { why: "the Job is being deleted and does not count this Pod", ..Self::new(pod) }
    }

    /// The same of a Pod that no Job counts any more.
    pub(crate) fn of_orphan(pod: &PodRef) -> Self {
        Self { role: Role::Other, why: "no Job counts it any more", ..Self::new(pod) }
    }

    /// Whether the Pod has no finalizer any more.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(()))) || self.found_no_pod()
    }

    /// Whether the Pod was gone already.
    fn found_no_pod(&self) -> bool {
        matches!(&self.outcome, Some(Err(refusal)) if refusal.class == Class::Gone)
    }

    /// Whether the Pod has changed since it was judged, and keeps its finalizer.
    pub(super) fn found_change(&self) -> bool {
        matches!(&self.outcome, Some(Err(refusal)) if refusal.class == Class::Changed)
    }

    /// Any other refusal.
    pub(super) fn failure(&self) -> Option<&Refusal> {
        self.refusal().filter(|refusal| refusal.class != Class::Changed)
    }

    /// Any refusal by which the finalizer stays.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        let refusal = self.outcome.as_ref()?.as_ref().err()?;
        (refusal.class != Class::Gone).then_some(refusal)
    }
}

impl Sequence<Note> for Untrack {
    fn next(&mut self, turn: &mut Turn<Note>) -> Next<'_, Note> {
        if std::mem::replace(&mut self.is_sent, true) {
            self.outcome = Some(turn.written().map(drop));
            return Next::Done;
        }
        let body = turn.body(|| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}}));
        let request = Request::patch(PODS, self.pod.meta(), Patch::Strategic, body).role(self.role);
        Next::Send(request.doing("remove the finalizer of").because(self.why))
    }
}

/// Deletes a Pod of a Job, if it has not changed since it was judged: one that has ended, or was released, since then is judged
/// again.
pub(super) struct RemovePod {
    /// Takes the finalizer off first, so that the Pod is not counted.
    untrack: Option<Untrack>,
    delete: DeletePod,
    was_ready: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Untrack,
    Delete,
    Done,
}

impl RemovePod {
    pub(super) fn new(claimed: &Claimed, untracks: bool, why: Why) -> Self {
        let Claimed { pod, tracked, .. } = claimed;
        let untrack = (*tracked && untracks).then(|| Untrack::new(pod));
        let delete = DeletePod::new(pod.meta(), why.to_string());
        let (delete, stage) = match &untrack {
            // The decision has been carried out by half: whatever becomes of the Pod then, nothing counts it any more.
            Some(_) => (delete.at_any_version(), Stage::Untrack),
            None => (delete, Stage::Delete),
        };
        Self { untrack, delete, was_ready: pod.is_ready(), stage }
    }

    /// Whether the Pod is gone or terminating.
    pub(super) fn is_done(&self) -> bool {
        self.delete.is_done() || self.untrack.as_ref().is_some_and(Untrack::found_no_pod)
    }

    /// Whether the Pod was ready.
    pub(super) fn was_ready(&self) -> bool {
        self.was_ready
    }

    /// Whether the Pod has changed since it was judged, and stays.
    pub(super) fn found_change(&self) -> bool {
        self.delete.found_change() || self.untrack.as_ref().is_some_and(Untrack::found_change)
    }

    /// Any other refusal.
    pub(super) fn failure(&self) -> Option<&Refusal> {
        self.untrack.as_ref().and_then(Untrack::failure).or_else(|| self.delete.failure())
    }

    /// Whether the deletion follows: not for a Pod that keeps its finalizer, or is gone.
    fn goes_on(&self) -> bool {
        self.untrack.as_ref().is_none_or(|untrack| untrack.is_done() && !untrack.found_no_pod())
    }
}

impl Sequence<Note> for RemovePod {
    fn next(&mut self, turn: &mut Turn<Note>) -> Next<'_, Note> {
        loop {
            let (next, following) = match (self.stage, &mut self.untrack) {
                (Stage::Untrack, Some(untrack)) => (untrack.next(turn), Stage::Delete),
                (Stage::Untrack | Stage::Delete, _) => (self.delete.next(turn), Stage::Done),
                (Stage::Done, _) => return Next::Done,
            };
            if let Next::Send(request) = next {
                return Next::Send(request);
            }
            self.stage = if matches!(following, Stage::Delete) && !self.goes_on() { Stage::Done } else { following };
        }
    }
}
