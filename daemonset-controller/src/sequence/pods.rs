//! Creating and deleting Pods.

use std::sync::Arc;

use common::{
    api::Written,
    events::EventType,
    intern::Text,
    meta::Version,
    pods::PODS,
    refs::Owner,
    sequence::{Class, CreatePod, Next, Refusal, Request, Role, Sequence, Turn},
};
use serde::Deserialize;

use super::Note;
use crate::{
    decide::{body::PodSource, recheck::still_holds},
    objects::{CachedPod, HASH_LABEL},
    plan::{Creation, Deletion},
    snapshot::Snapshot,
};

/// How often the deletion of one Pod is requested in one sync if the Pod changes all the time.
const DELETE_ATTEMPTS: usize = 5;

/// Creates the Pod for one node. Its body is made when its turn comes: those of all nodes could take a lot of memory.
pub(super) struct CreateForNode<'a> {
    owner: &'a Owner,
    creation: &'a Creation,
    source: Arc<PodSource>,
    create: Option<CreatePod>,
}

impl<'a> CreateForNode<'a> {
    pub(super) fn new(owner: &'a Owner, creation: &'a Creation, source: &Arc<PodSource>) -> Self {
        Self { owner, creation, source: Arc::clone(source), create: None }
    }

    pub(super) fn node(&self) -> &'a Text {
        &self.creation.node
    }

    /// Whether there is a Pod more.
    pub(super) fn is_done(&self) -> bool {
        self.create.as_ref().is_some_and(CreatePod::is_done)
    }

    /// The refusal, unless it says that the namespace terminates, which is no failure.
    pub(super) fn failure(&self) -> Option<&Refusal> {
        self.create.as_ref()?.failure()
    }
}

impl Sequence<Note> for CreateForNode<'_> {
    fn next(&mut self, turn: &mut Turn<Note>) -> Next<'_, Note> {
        let Creation { node, lack } = self.creation;
        let create = self.create.get_or_insert_with(|| {
            let body = turn.body(|| self.source.pod(node));
            let create = CreatePod::new(&self.owner.namespace, &Arc::default(), body);
            let create = create.generate_name(Arc::clone(self.source.generate_name()));
            // A lost answer holds back its node, and not the set.
            create.role(Role::Awaited).because(format!("node {node}: {lack}"))
        });
        note_unlabelled(turn);
        if let Next::Send(request) = create.next(turn) {
            return Next::Send(request);
        }
        match &create.outcome {
            Some(Err(Refusal { class: Class::Unknown, .. })) => turn.note(Note::LostCreate(node.clone())),
            Some(Err(Refusal { class: Class::NamespaceTerminating, .. })) => turn.note(Note::NamespaceTerminates),
            _ => {}
        }
        Next::Done
    }

    fn stops_siblings(&self) -> bool {
        !self.is_done()
    }
}

/// Notes a new Pod that lacks the label by which Pods are watched: a webhook has removed it. The set would create Pods without end.
fn note_unlabelled(turn: &mut Turn<Note>) {
    let Some(Written { metadata }) = turn.peek() else { return };
    if metadata.labels.get(HASH_LABEL).is_none()
        && let Some(pod) = turn.peek::<CachedPod>()
    {
        turn.note(Note::UnlabelledPod(Box::new(pod)));
    }
}

/// Deletes a Pod, if it is still as it was when that was decided: a Pod that has become available is judged again.
///
/// A Pod that has changed is read live and judged again, and deleted at the version that was read: a Pod that somebody writes all
/// the time is deleted, too. A Pod is also read where the answer was lost: another Pod must not be deleted in its place.
pub(super) struct DeleteIfUnchanged<'a> {
    snapshot: &'a Snapshot,
    deletion: &'a Deletion,
    request: Request,
    attempts: usize,
    stage: Stage,
    /// Whether there was a Pod to delete.
    outcome: Option<Result<bool, Refusal>>,
}

enum Stage {
    Delete,
    Deleted,
    /// The Pod is read after this refusal.
    Read(Refusal),
}

/// What a Pod that has changed since it was judged is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recheck {
    /// It is deleted as before, at this version.
    Holds(Version),
    /// It is gone or terminating.
    Gone,
    /// It is not deleted for that reason any more, or could not be read. The next sync decides.
    Unknown,
}

/// What the API server answers to a list.
#[derive(Deserialize)]
struct List {
    items: Vec<CachedPod>,
}

impl<'a> DeleteIfUnchanged<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, deletion: &'a Deletion) -> Self {
        let request = Request::delete(PODS, deletion.pod.meta()).because(deletion.why.to_string());
        Self { snapshot, deletion, request, attempts: DELETE_ATTEMPTS, stage: Stage::Delete, outcome: None }
    }

    pub(super) fn deletion(&self) -> &'a Deletion {
        self.deletion
    }

    /// Whether there was a Pod to delete, and it was deleted.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(true)))
    }

    /// The refusal, unless the Pod is gone.
    pub(super) fn failure(&self) -> Option<&Refusal> {
        self.outcome.as_ref()?.as_ref().err()
    }

    fn succeeds(&mut self, turn: &mut Turn<Note>) {
        let name = &self.deletion.pod.meta().name;
        turn.tell(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
        self.outcome = Some(Ok(true));
    }

    fn fails(&mut self, turn: &mut Turn<Note>, refusal: Refusal) {
        if refusal.error.is_not_found() {
            self.outcome = Some(Ok(false));
            return;
        }
        // After a conflict, the set is synced again once the cache shows the newer Pod.
        if refusal.class != Class::Changed {
            turn.tell(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
        }
        self.outcome = Some(Err(refusal));
    }

    /// Decides again whether the Pod is deleted, as it was read live.
    fn recheck(&self, turn: &mut Turn<Note>) -> Recheck {
        let Self { snapshot, deletion, .. } = self;
        let meta = deletion.pod.meta();
        let Ok(Some(List { items })) = turn.read() else { return Recheck::Unknown };
        let Some(live) = items.into_iter().find(|live| live.meta().uid == meta.uid && !live.meta().is_deleting())
        else {
            return Recheck::Gone;
        };
        let (live, criteria) = (Arc::new(live), &snapshot.nodes.criteria);
        let holds = still_holds(deletion, &live, &snapshot.set, criteria, snapshot.now, turn.now);
        if holds { Recheck::Holds(live.meta().resource_version) } else { Recheck::Unknown }
    }
}

impl Sequence<Note> for DeleteIfUnchanged<'_> {
    fn next(&mut self, turn: &mut Turn<Note>) -> Next<'_, Note> {
        match std::mem::replace(&mut self.stage, Stage::Deleted) {
            Stage::Delete => return Next::Send(self.request.clone()),
            Stage::Deleted => match turn.written() {
                Ok(_) => self.succeeds(turn),
                Err(refusal) => {
                    self.attempts -= 1;
                    if self.attempts > 0 && matches!(refusal.class, Class::Changed | Class::Unknown) {
                        self.stage = Stage::Read(refusal);
                        // A list of one, because upstream's role has no right to get Pods.
                        let query = format!("fieldSelector=metadata.name%3D{}", self.request.name);
                        return Next::Send(Request::list(PODS, &self.request.namespace, query));
                    }
                    self.fails(turn, refusal);
                }
            },
            Stage::Read(refusal) => match (self.recheck(turn), refusal.class == Class::Unknown) {
                // Deleted by the request whose answer was lost, as far as anybody can tell: the next sync waits to see it.
                (Recheck::Gone, true) => {
                    turn.note(Note::Deleted(Arc::clone(&self.deletion.pod)));
                    self.succeeds(turn);
                }
                (Recheck::Gone, false) => self.outcome = Some(Ok(false)),
                (Recheck::Holds(version), false) => {
                    self.request = self.request.clone().at(Some(version));
                    return Next::Send(self.request.clone());
                }
                (Recheck::Holds(_) | Recheck::Unknown, _) => self.fails(turn, refusal),
            },
        }
        Next::Done
    }
}
