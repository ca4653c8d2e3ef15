//! Claiming, labelling, storing, renumbering and deleting revisions.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    api::{Patch, Written},
    controller::Requeue,
    events::EventType,
    intern::Text,
    meta::{Meta, Version},
    pods::PODS,
    revision::body::NewRevision,
    sequence::{
        self, ChangeRevision, Class, DeleteRevision, Failed, Pace, RawMembers, Refusal, Refused, Request, Role,
        Sequence, Step, StoreRevision, Stored, Then, Turn, members,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Next, Note, State, end, note_denied_pod, refused, tell_denial};
use crate::{
    decide::revisions::{Current, hash_of, name},
    objects::{DAEMON_SETS, HASH_LABEL, Status},
    snapshot::{PodRef, RevisionRef},
};

const NOT_CONSTRUCTED: &str = "failed to construct revisions of DaemonSet";
/// What is put before the name of a revision that could not be deleted.
const NOT_CLEANED_UP: &str = "failed to clean up revisions of DaemonSet: delete";

/// What is read of a set before its collision count is written.
#[derive(Deserialize)]
struct Live {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

impl<'a> State<'a> {
    /// Makes the revisions as the plan has them, in upstream's order. Upstream: `pkg/controller/daemon`, `constructHistory`.
    pub(super) fn write_revisions() -> Next<'a> {
        Step::All(|state| vec![&mut state.release_revisions], Pace::AtOnce, Self::released_revisions)
    }

    fn released_revisions(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        for (revision, refusal) in self.release_revisions.give_up_releases(|refusal| refusal.error.is_denied()) {
            let denied = note_denied(turn, "FailedUpdate", "release", &revision.meta, &refusal);
            self.denied = self.denied.take().or(denied);
        }
        match self.release_revisions.result() {
            Ok(()) => Step::All(|state| vec![&mut state.adopt_revisions], Pace::AtOnce, Self::adopted_revisions),
            Err(failed) => end(turn, Err(failed.while_doing(NOT_CONSTRUCTED))),
        }
    }

    fn adopted_revisions(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        for (revision, refusal) in self.adopt_revisions.refused() {
            note_denied(turn, "FailedUpdate", "adopt", &revision.meta, refusal);
        }
        if let Err(failed) = self.adopt_revisions.result() {
            return end(turn, Err(failed.while_doing(NOT_CONSTRUCTED)));
        }
        // The plan was made with these revisions: the next sync decides without them.
        if let Some(gone) = self.adopt_revisions.gone() {
            return end(turn, Err(is_gone(&gone.meta.name)));
        }
        let (owner, unlabelled) = (&self.snapshot.owner, &self.plan.revisions.unlabelled);
        let label = |revision: &'a RevisionRef| {
            ChangeRevision::new(owner, &revision.meta, "label", "it has no hash", |revision_members| {
                add_label(revision_members, &revision.meta.name)
            })
        };
        self.changes = unlabelled.iter().map(label).collect();
        Step::All(|state| members(&mut state.changes), Pace::InOrder, Self::labelled)
    }

    /// Gives Pods that carry the hash of a duplicate the hash of the revision that is kept, and Pods without a hash an empty one. The
    /// watch does not show Pods without the label.
    fn labelled(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(failed) = self.not_changed(turn, "label") {
            return failed;
        }
        let hash = &self.plan.revisions.hash;
        let relabel = self.plan.relabel.iter().map(|pod| Relabel::new(pod, hash));
        self.relabels = relabel.chain(self.plan.unlabelled.iter().map(Relabel::without_hash)).collect();
        Step::All(|state| members(&mut state.relabels), Pace::AtOnce, Self::relabelled)
    }

    /// A Pod that the server denies to relabel keeps its hash, and the duplicate with that hash stays, too.
    fn relabelled(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let mut kept_hashes = BTreeSet::new();
        for (pod, refusal) in self.relabels.iter().filter_map(Relabel::refused) {
            let Some(denied) = note_denied_pod(turn, "relabel", pod, refusal) else {
                return end(turn, Err(refused(&format!("relabel Pod {}", pod.meta().name), refusal)));
            };
            self.denied.get_or_insert(denied);
            kept_hashes.insert(pod.hash());
        }
        let duplicates = &self.plan.revisions.duplicates;
        let unused = duplicates.iter().filter(|revision| !kept_hashes.contains(hash_of(revision)));
        self.delete_revisions(unused.cloned().collect(), "another one holds the same template", |state, turn| {
            match state.not_deleted(turn) {
                Some(failed) => end(turn, Err(failed)),
                None => state.deleted_duplicates(turn),
            }
        })
    }

    /// Deletes revisions, one after the other.
    pub(super) fn delete_revisions(
        &mut self,
        revisions: Vec<RevisionRef>,
        why: &'static str,
        then: Then<Self, Note>,
    ) -> Next<'a> {
        self.deletions = revisions.iter().map(|revision| DeleteRevision::new(&revision.meta, why)).collect();
        self.deleted = revisions;
        Step::All(|state| members(&mut state.deletions), Pace::InOrder, then)
    }

    /// Why a revision could not be deleted, unless the server denies it: then the sync goes on without that deletion.
    pub(super) fn not_deleted(&mut self, turn: &mut Turn<Note>) -> Option<Failed> {
        let mut refused = self.deleted.iter().zip(&self.deletions);
        let (revision, refusal) = refused.find_map(|(revision, deletion)| Some((revision, deletion.refusal()?)))?;
        match note_denied(turn, "FailedDelete", "delete", &revision.meta, refusal) {
            Some(denied) => {
                self.denied.get_or_insert(denied);
                None
            }
            None => Some(Failed::request(&format!("{NOT_CLEANED_UP} {}", revision.meta.name), refusal)),
        }
    }

    fn deleted_duplicates(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match &self.plan.revisions.current {
            Current::Stored(_) => Self::claim_pods(),
            Current::Renumber(revision, number) => {
                self.changes = vec![ChangeRevision::renumber(&self.snapshot.owner, &revision.meta, *number)];
                Step::All(
                    |state| members(&mut state.changes),
                    Pace::AtOnce,
                    |state, turn| state.not_changed(turn, "renumber").unwrap_or_else(Self::claim_pods),
                )
            }
            Current::Create { number, hash } => self.store(turn, *number, hash),
        }
    }

    /// The end of the sync, if a revision could not be changed.
    fn not_changed(&self, turn: &mut Turn<Note>, verb: &str) -> Option<Next<'a>> {
        let change = self.changes.iter().find(|change| !change.is_done())?;
        let revision = change.revision();
        Some(match change.refused() {
            // The process ends.
            None => Step::Done,
            Some(Refused::Gone) => end(turn, Err(is_gone(&revision.name))),
            Some(Refused::Request(refusal)) => {
                note_denied(turn, "FailedUpdate", verb, revision, refusal);
                end(turn, Err(refused(&format!("{NOT_CONSTRUCTED}: {verb} {}", revision.name), refusal)))
            }
        })
    }

    /// Stores the revision of the template. If its name is taken by a revision of another template, the collision is counted in the
    /// status, and the next sync tries the next name. If it is taken by a revision of the same template, Pods carry the hash of that
    /// one, whoever controls it. Upstream: `pkg/controller/daemon`, `snapshot`.
    fn store(&mut self, turn: &mut Turn<Note>, number: i64, hash: &Text) -> Next<'a> {
        let (set, owner, template) = (&self.snapshot.set, &self.snapshot.owner, &self.snapshot.template.template);
        let name = name(set, hash);
        let new = NewRevision { name: &name, number, hash: (HASH_LABEL, hash), annotations: &set.metadata.annotations };
        let body = match new.body(owner, template) {
            Ok(body) => turn.body(|| body),
            Err(error) => return end(turn, Err(Failed::new("template", format!("cannot make a revision: {error}")))),
        };
        let store = StoreRevision::new(owner, &name, body, template.data());
        let store = store.because(format!("the template is new, its revision is number {number}"));
        let is_known = set.status.observed_generation == set.metadata.generation;
        self.store = Some(if is_known { store.if_still_there(owner) } else { store });
        Step::All(|state| members(state.store.as_mut_slice()), Pace::AtOnce, Self::stored)
    }

    fn stored(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let (set, revisions) = (&self.snapshot.set, &self.plan.revisions);
        let Current::Create { hash, .. } = &revisions.current else { return Step::Done };
        // Without an outcome, the process ends.
        let Some(outcome) = self.store.take().and_then(|store| store.outcome) else { return Step::Done };
        let name = name(set, hash);
        let (stored, taken) = match outcome {
            Ok(Stored::Yes) => (hash.clone(), None),
            Ok(Stored::OwnerGone) => return end(turn, Ok(Requeue::No)),
            Ok(Stored::There(there)) => {
                let stored = Text::new(there.meta.labels.get(HASH_LABEL).unwrap_or(&there.meta.name));
                (stored.clone(), Some((name, stored)))
            }
            Ok(Stored::Taken(refusal)) => {
                self.taken = Some(refusal);
                let request = Request::get(DAEMON_SETS, &set.metadata.namespace, &set.metadata.name);
                return Step::Send(request.because("it counts the names that are taken"), Self::count_collision);
            }
            Err(refusal) => {
                // Without this revision, the set gets no Pods and no status. A conflict passes by itself, and a namespace that terminates needs none.
                if !matches!(refusal.class, Class::Changed | Class::NamespaceTerminating) {
                    let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                    turn.tell(EventType::Warning, "FailedCreate", message);
                }
                return end(turn, Err(refused(&format!("{NOT_CONSTRUCTED}: create {name}"), &refusal)));
            }
        };
        // A plan that was made with another hash ends here. The next sync decides with this one.
        if stored == revisions.hash {
            return Self::claim_pods();
        }
        turn.note(Note::TakenName(taken));
        let planned = &revisions.hash;
        let text = format!("{NOT_CONSTRUCTED}: the revision is stored with hash {stored} instead of {planned}");
        end(turn, Err(Failed::new("other_hash", text)))
    }

    /// Counts a collision of names in the status, so that the next sync computes another hash.
    ///
    /// The count is read live: while the cache has an older one, nothing is written.
    fn count_collision(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let set = &self.snapshot.set;
        let live = match turn.read::<Live>() {
            Ok(Some(live)) => live,
            Ok(None) => return Step::Done,
            Err(refusal) => return end(turn, Err(self.status_failed(&refusal))),
        };
        let (cached, live_count) = (set.status.collision_count, live.status.collision_count);
        if live.metadata.uid != set.metadata.uid || live_count != cached {
            let text = format!(
                "found a stale collision count ({cached:?}, expected {live_count:?}) of DaemonSet {:?} while processing; will retry until it is updated",
                set.metadata.name
            );
            return end(turn, Err(Failed::new("collision", text)));
        }
        let count = live_count.unwrap_or(0).saturating_add(1);
        let version: Version = live.metadata.resource_version;
        let body = turn.body(|| json!({"status": {"collisionCount": count}}));
        let request = Request::status(DAEMON_SETS, &set.metadata, body).at(Some(version)).role(Role::Awaited);
        Step::Send(request.because("it counts the names that are taken"), |state, turn| {
            let failed = match (turn.written(), &state.taken) {
                (Err(refusal), _) => state.status_failed(&refusal),
                (Ok(_), taken) => {
                    let error = taken.as_ref().map_or_else(String::new, |refusal| refusal.error.to_string());
                    Failed::new("collision", format!("{NOT_CONSTRUCTED}: {error}"))
                }
            };
            end(turn, Err(failed))
        })
    }
}

fn is_gone(revision: &str) -> Failed {
    Failed::new("gone", format!("{NOT_CONSTRUCTED}: ControllerRevision {revision} is gone or has another controller"))
}

/// If the server denies a change of a revision, reports it and has the next syncs go on without that change.
fn note_denied(
    turn: &mut Turn<Note>,
    reason: &'static str,
    verb: &str,
    revision: &Meta,
    refusal: &Refusal,
) -> Option<Failed> {
    if !refusal.error.is_denied() {
        return None;
    }
    turn.note(Note::RefusedRevision(Box::new(revision.clone())));
    Some(tell_denial(turn, reason, &format!("{verb} ControllerRevision"), revision, refusal))
}

/// Gives a revision without the label of the hash its own name as hash. Returns whether it had none.
fn add_label(revision: &mut RawMembers, name: &str) -> serde_json::Result<bool> {
    let text = revision.get("metadata").map_or("{}", |metadata| metadata.get());
    let mut metadata: Value = serde_json::from_str(text)?;
    if metadata.pointer(&format!("/labels/{HASH_LABEL}")).is_some() {
        return Ok(false);
    }
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][HASH_LABEL] = json!(name);
    revision.insert("metadata".to_owned(), serde_json::value::to_raw_value(&metadata)?);
    Ok(true)
}

/// Gives a Pod another hash, if it has not changed since that was decided.
pub(super) struct Relabel {
    pod: PodRef,
    hash: Text,
    is_sent: bool,
    outcome: Option<Result<(), Refusal>>,
}

impl Relabel {
    fn new(pod: &PodRef, hash: &Text) -> Self {
        Self { pod: Arc::clone(pod), hash: hash.clone(), is_sent: false, outcome: None }
    }

    fn without_hash(pod: &PodRef) -> Self {
        Self::new(pod, &Text::default())
    }

    /// Whether the Pod has the hash.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(())))
    }

    /// The Pod and the refusal, unless the Pod is gone.
    fn refused(&self) -> Option<(&PodRef, &Refusal)> {
        let refusal = self.outcome.as_ref()?.as_ref().err().filter(|refusal| !refusal.error.is_not_found());
        refusal.map(|refusal| (&self.pod, refusal))
    }
}

impl Sequence<Note> for Relabel {
    fn next(&mut self, turn: &mut Turn<Note>) -> sequence::Next<'_, Note> {
        if std::mem::replace(&mut self.is_sent, true) {
            match turn.peek() {
                // A webhook removes the label. The set goes on without it for a while.
                Some(Written { metadata }) if metadata.labels.get(HASH_LABEL).is_none() => {
                    turn.note(Note::RefusedPod(Box::new(metadata)));
                }
                _ => self.outcome = Some(turn.written().map(drop)),
            }
            return sequence::Next::Done;
        }
        let body = turn.body(|| json!({"metadata": {"labels": {HASH_LABEL: self.hash}}}));
        let request = Request::patch(PODS, self.pod.meta(), Patch::Merge, body).role(Role::Child).doing("relabel");
        let why = match self.hash.as_str() {
            "" => "it lacks the label by which Pods are watched".to_owned(),
            hash => format!("its revision is kept under the hash {hash}"),
        };
        sequence::Next::Send(request.because(why))
    }
}
