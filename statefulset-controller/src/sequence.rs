//! The requests of one sync: claims, the revision of the template, the work on Pods phase by phase, the status, the history.

mod pod;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    controller::{Requeue, Retry},
    events::EventType,
    intern::Text,
    pods::PODS,
    revision::{CONTROLLER_REVISIONS, RevisionWithData},
    sequence::{
        ChangeRevision, Claim, Class, DeleteRevision, Failed, Pace, Refusal, Refused, Request, Role, Sequence, Step,
        Steps, StoreRevision, Stored, Turn, members,
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::pod::{PodSources, ReadTemplate, Unusable, WorkOnPod};
use crate::{
    decide::{
        self, body, history,
        revisions::{self, Revisions, TemplateSource},
        status,
    },
    objects::{CachedPod, STATEFUL_SETS, Status, ordinal_of},
    plan::{Phase, Plan, Problem, Reconcile, Unavailable, Work},
    reports::TakenName,
    snapshot::{PodRef, RevisionRef, Snapshot},
};

/// A change of the controller's memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// Nothing can be done for the set.
    Problem(Problem),
    /// The state of a rollout that is limited by a number of unavailable Pods.
    Rollout(Unavailable),
    /// The claims that must be gone before Pods are created.
    AwaitedClaims(Vec<String>),
    /// A difference between claims and their template was reported at that time.
    Reported(String, Timestamp),
    /// A Pod that the watch does not show has the name of a Pod to create, and belongs to the set or to nobody.
    HiddenPod(Box<CachedPod>),
    /// The name of a Pod to create is taken.
    NameTaken {
        /// The name.
        pod: Arc<str>,
        /// The time.
        at: Timestamp,
        /// Whether the Pod that has the name is reported.
        examined: bool,
    },
}

/// What cache and memory say of a Pod that has the name of a Pod to create.
#[derive(Debug)]
pub struct Namesake {
    /// The Pod, if the cache holds it. The cache holds no Pods without the label of their name, and none of controllers of other kinds.
    pub cached: Option<PodRef>,
    /// The earlier refusals, if there were any.
    pub taken: Option<TakenName>,
}

impl common::sequence::Note for Note {
    type Question = Arc<str>;
    type Fresh = Namesake;
}

struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    adopt_revisions: Claim<'a, RevisionRef, Note>,
    claim: Claim<'a, PodRef, Note>,
    /// The Pods of the set once claims are made.
    claimed: Vec<PodRef>,
    renumber: Option<ChangeRevision<'a>>,
    store: Option<StoreRevision<'a>>,
    /// How many names of the new revision are known to be taken.
    collisions: i32,
    revisions: Cow<'a, Revisions>,
    reconcile: Cow<'a, Reconcile>,
    next_phase: usize,
    /// The templates of stored revisions that were read to make Pods from them, by the names of the revisions.
    read: BTreeMap<Text, ReadTemplate>,
    /// The revision that is being read.
    reading: Option<RevisionRef>,
    pods: Vec<WorkOnPod<'a>>,
    /// How many Pods of the current revision were deleted.
    lowered: i32,
    status: Status,
    deletions: Vec<DeleteRevision>,
    /// The first failure.
    failed: Option<Failed>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let Snapshot { owner, revisions, pods, .. } = snapshot;
    let state = State {
        snapshot,
        plan,
        adopt_revisions: Claim::new(owner, CONTROLLER_REVISIONS, &[], &revisions.adopt, &[]),
        claim: Claim::new(owner, PODS, &[], &pods.adopt, &pods.release).labelled(|pod| missing_labels(snapshot, pod)),
        claimed: Vec::new(),
        renumber: None,
        store: None,
        collisions: plan.revisions.collisions,
        revisions: Cow::Borrowed(&plan.revisions),
        reconcile: Cow::Borrowed(&plan.reconcile),
        next_phase: 0,
        read: BTreeMap::new(),
        reading: None,
        pods: Vec::new(),
        lowered: 0,
        status: Status::default(),
        deletions: Vec::new(),
        failed: None,
    };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(problem) = &self.plan.problem {
            if let Problem::TooManyClaims { .. } = problem {
                turn.tell(EventType::Warning, "TooManyClaims", problem.to_string());
            }
            turn.note(Note::Problem(problem.clone()));
            return Step::Done;
        }
        for mismatch in &self.plan.reports {
            turn.tell(EventType::Warning, "ClaimMismatch", mismatch.to_string());
            turn.note(Note::Reported(mismatch.difference(), turn.now));
        }
        Step::All(|state| vec![&mut state.adopt_revisions], Pace::AtOnce, Self::adopted_revisions)
    }

    fn adopted_revisions(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        const DOING: &str = "can't adopt ControllerRevisions";
        self.adopt_revisions.tell_denied(turn);
        if let Err(failed) = self.adopt_revisions.result() {
            return end(turn, Err(failed.while_doing(DOING)));
        }
        // The plan was made with a revision that is gone: the next sync decides without it.
        if let Some(gone) = self.adopt_revisions.gone() {
            return end(turn, Err(Failed::new("gone", format!("{DOING}: {} is gone", gone.meta.name))));
        }
        Step::All(|state| vec![&mut state.claim], Pace::AtOnce, Self::claimed)
    }

    fn claimed(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.claim.tell_denied(turn);
        if let Err(failed) = self.claim.result() {
            return end(turn, Err(failed.while_doing("cannot claim Pods")));
        }
        self.claimed = self.snapshot.pods.keep.iter().chain(self.claim.adopted()).cloned().collect();
        let set = &self.snapshot.set.metadata.name;
        for labelled in self.claim.adopted().filter(|pod| pod.is_unlabelled()) {
            let message = format!("Update Pod {} in StatefulSet {set} successful", labelled.meta().name);
            turn.tell(EventType::Normal, "SuccessfulUpdate", message);
        }
        match &self.plan.revisions.step {
            revisions::Step::Nothing => self.reconcile(turn),
            revisions::Step::Renumber { revision, number } => {
                self.renumber = Some(ChangeRevision::renumber(&self.snapshot.owner, &revision.meta, *number));
                Step::All(|state| members(state.renumber.as_mut_slice()), Pace::AtOnce, Self::renumbered)
            }
            revisions::Step::Create { number } => self.store_revision(turn, *number),
        }
    }

    fn renumbered(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(renumber) = &self.renumber else { return Step::Done };
        let name = &renumber.revision().name;
        match renumber.refused() {
            None if renumber.is_done() => self.reconcile(turn),
            // The process ends.
            None => Step::Done,
            Some(Refused::Gone) => {
                end(turn, Err(Failed::new("gone", format!("can't adopt ControllerRevisions: {name} is gone"))))
            }
            Some(Refused::Request(refusal)) => {
                let failed = refused(&format!("cannot renumber ControllerRevision {name}"), refusal);
                end(turn, Err(failed))
            }
        }
    }

    /// Stores a new revision. If its name is taken by a revision with the same data, that one is used; if the data differ, the next
    /// name is tried. Upstream: `pkg/controller/history`, `CreateControllerRevision`.
    fn store_revision(&mut self, turn: &mut Turn<Note>, number: i64) -> Next<'a> {
        let (snapshot, name) = (self.snapshot, self.revision_name());
        let body = match body::revision(snapshot, number, self.plan.revisions.collisions, &name) {
            Ok(body) => turn.body(|| body),
            Err(error) => return end(turn, Err(Failed::new("template", format!("cannot make a revision: {error}")))),
        };
        let store = StoreRevision::new(&snapshot.owner, &name, body, snapshot.template.data());
        let store = store.because(format!("the template is new, its revision is number {number}"));
        let is_known = snapshot.set.status.observed_generation == snapshot.set.metadata.generation;
        self.store = Some(if is_known { store.if_still_there(&snapshot.owner) } else { store });
        Step::All(|state| members(state.store.as_mut_slice()), Pace::AtOnce, Self::stored_revision)
    }

    fn stored_revision(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let (set, plan, name) = (&self.snapshot.set, &self.plan.revisions, self.revision_name());
        let revisions::Step::Create { number } = plan.step else { return Step::Done };
        // Without an outcome, the process ends.
        let Some(outcome) = self.store.take().and_then(|store| store.outcome) else { return Step::Done };
        match outcome {
            // Pods carry the name of their revision, whatever its labels.
            Ok(Stored::Yes | Stored::There(_)) => {
                if *plan.update.name != *name {
                    let created = revisions::created(plan, &self.snapshot.template, &name, self.collisions);
                    self.revisions = Cow::Owned(created);
                }
                self.reconcile(turn)
            }
            Ok(Stored::OwnerGone) => end(turn, Ok(Requeue::No)),
            Ok(Stored::Taken(_)) => match self.collisions.checked_add(1) {
                Some(collisions) => {
                    self.collisions = collisions;
                    self.store_revision(turn, number)
                }
                None => {
                    let name = &set.metadata.name;
                    let text = format!("cannot make a name for a revision of {name}");
                    end(turn, Err(Failed::new("template", text)))
                }
            },
            Err(refusal) => {
                // Without this revision, the set gets no Pods.
                if refusal.class == Class::Refused && refusal.error.is_denied() {
                    let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                    turn.tell(EventType::Warning, "FailedCreate", message);
                }
                end(turn, Err(refused(&format!("cannot create ControllerRevision {name}"), &refusal)))
            }
        }
    }

    /// The name of the new revision after the collisions that are known.
    fn revision_name(&self) -> String {
        let Snapshot { set, template, .. } = self.snapshot;
        revisions::name(set, &revisions::hash(template, self.collisions))
    }

    fn reconcile(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        // The plan counts on every adoption, and on the name of the new revision.
        if !self.claim.is_complete() || self.revisions.update.name != self.plan.revisions.update.name {
            self.reconcile = Cow::Owned(decide::reconcile(self.snapshot, &self.claimed, &self.revisions));
        }
        self.work(turn)
    }

    /// Begins the next phase of the work on Pods.
    fn work(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(phase) = self.reconcile.phases.get(self.next_phase) else { return self.write_status(turn) };
        if let Some(unread) = self.unread(phase) {
            let request = Request::get(CONTROLLER_REVISIONS, &unread.meta.namespace, &unread.meta.name);
            self.reading = Some(unread);
            return Step::Send(request.because("Pods are made from it"), Self::read_revision);
        }
        let mut sources = PodSources::new(self.snapshot, &self.revisions, &self.read);
        self.next_phase += 1;
        self.pods = phase.work.iter().map(|work| WorkOnPod::new(self.snapshot, work, &mut sources)).collect();
        Step::All(|state| members(&mut state.pods), phase.pace, Self::worked)
    }

    /// A revision that the phase makes Pods from and whose data were not read yet.
    fn unread(&self, phase: &Phase) -> Option<RevisionRef> {
        let roles = phase.work.iter().filter_map(|work| match work {
            Work::Create { role, .. } => Some(*role),
            Work::CreateClaims { .. } | Work::Delete { .. } | Work::Repair { .. } => None,
        });
        let mut unread = roles.filter_map(|role| match self.revisions.get(role).template() {
            TemplateSource::Server(revision) => Some(revision),
            TemplateSource::Set(_) | TemplateSource::None => None,
        });
        unread.find(|revision| !self.read.contains_key(&*revision.meta.name))
    }

    /// Takes the Pod template out of a revision that was read. Without it, the creations from this revision fail.
    fn read_revision(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(cached) = self.reading.take() else { return Step::Done };
        let name = &cached.meta.name;
        let template = match turn.read::<RevisionWithData>().map(|read| read.map(RevisionWithData::into_parts)) {
            // A forecast expects that Pods can be made from it.
            Ok(None) => Ok(Some(json!({}))),
            Ok(Some((live, template))) if live.meta.uid == cached.meta.uid => Ok(template),
            Ok(Some(_)) => {
                Err(Unusable::Unread("gone", format!("ControllerRevision {name} was replaced by another one")))
            }
            Err(refusal) => {
                let text = format!("cannot read ControllerRevision {name}: {}", refusal.error);
                Err(Unusable::Unread(refusal.error.label(), text))
            }
        };
        self.read.insert(Text::new(name), template);
        self.work(turn)
    }

    fn worked(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.lowered += self.pods.iter().map(|pod| i32::from(pod.lowers_current())).sum::<i32>();
        self.failed = self.pods.iter_mut().find_map(WorkOnPod::failure);
        if self.failed.is_some() { self.write_status(turn) } else { self.work(turn) }
    }

    /// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
    ///
    /// Upstream: `pkg/controller/statefulset`, `UpdateStatefulSetStatus`, which after a conflict writes the same status onto the newer
    /// set. Here the conflict fails the sync, and the next one computes the status of the newer set.
    fn write_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let (set, reconcile) = (&self.snapshot.set, &self.reconcile);
        if let Some(unavailable) = reconcile.unavailable {
            turn.note(Note::Rollout(unavailable));
        }
        turn.note(Note::AwaitedClaims(reconcile.claims_to_await.clone()));
        self.status = status::complete(set, &status::lowered(&reconcile.counted, self.lowered));
        if !self.status.differs(&set.status) {
            return self.forget();
        }
        let body = turn.body(|| json!({"status": &self.status}));
        let request = Request::status(STATEFUL_SETS, &set.metadata, body).role(role(self.snapshot));
        Step::Send(request, |state, turn| {
            if let Some(refusal) = turn.written().err().filter(|refusal| !refusal.error.is_not_found()) {
                state.failed.get_or_insert_with(|| refused("cannot write the status", &refusal));
            }
            state.forget()
        })
    }

    /// Deletes revisions, the oldest first.
    fn forget(&mut self) -> Next<'a> {
        let forgotten = history::forget(&self.snapshot.set, &self.revisions, &self.claimed);
        let delete =
            |revision: &RevisionRef| DeleteRevision::new(&revision.meta, "the history is longer than its limit");
        self.deletions = forgotten.iter().map(delete).collect();
        Step::All(|state| members(&mut state.deletions), Pace::InOrder, Self::finish)
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let deletion = DeleteRevision::failure(&self.deletions, "cannot delete ControllerRevision");
        if let Some(failed) = self.failed.take().or(deletion) {
            return end(turn, Err(failed));
        }
        // The next sync goes on with the Pods that this one left. It waits by itself until the caches show what this one created.
        if self.reconcile.deferred > 0 {
            return end(turn, Ok(Requeue::After(Duration::ZERO)));
        }
        let Snapshot { set, now: began, .. } = self.snapshot;
        let check = status::next_check(set, &self.claimed, &self.status, *began, turn.now);
        end(turn, Ok(check.map_or(Requeue::No, Requeue::After)))
    }
}

/// The labels of its identity, for a Pod that lacks the one by which Pods are watched.
fn missing_labels(snapshot: &Snapshot, pod: &PodRef) -> Option<Value> {
    let name = &pod.meta().name;
    let ordinal = ordinal_of(&snapshot.set.metadata.name, name).flatten();
    pod.is_unlabelled().then(|| body::identity(name, ordinal))
}

fn end<'a>(turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
    turn.end(outcome);
    Step::Done
}

/// Writes whose names are known in advance are awaited by their versions: no answer that is lost hides a child.
fn role(snapshot: &Snapshot) -> Role {
    if snapshot.limits.reads_own_writes { Role::Awaited } else { Role::Other }
}

/// A refused request. In a namespace that terminates nothing can be created any more, and every deletion enqueues the set.
fn refused(what: &str, refusal: &Refusal) -> Failed {
    let failed = Failed::request(what, refusal);
    if refusal.class == Class::NamespaceTerminating { failed.with_retry(Retry::Forget) } else { failed }
}
