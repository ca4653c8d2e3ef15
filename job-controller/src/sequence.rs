//! The requests of one sync: claims, then the gang, then Pods, then what counts those that have ended, in the order in which
//! nothing is lost.

mod count;
mod gang;
pub(crate) mod pods;

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use common::{
    controller::Requeue,
    events::EventType,
    intern::Text,
    meta::{Uid, Version},
    pods::PODS,
    sequence::{
        self, Claim, Claimed as Claims, CreatePod, Failed, Pace, Refusal, Sequence, Step, Steps, Turn, members,
    },
};
use jiff::SignedDuration;

use self::{count::Untrack, pods::RemovePod};
use crate::{
    body::Bodies,
    decide::{
        self, End, Gang, LeftAlone, Manage, Outcome, Plan, PodRef, Record, Situation, Snapshot, manage, situation,
        track::{self, Tracked},
    },
    metrics::CreationReason,
    objects::{Action, JOB_TRACKING, Status},
};

/// A change of the controller's memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// The selector breaks the rules, so that nothing is done.
    BrokenSelector(String),
    /// Pods were created, and so many refused.
    Created(CreationReason, usize, usize),
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// The status was written; from this one to that one.
    Counted(Box<[Status; 2]>),
    /// The failures that the status knows of now.
    Backoff(Record),
    /// A failure policy has decided about Pods.
    Policy(BTreeMap<Action, u64>),
    /// The finalizers of these Pods are about to be removed.
    Process(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    Unprocess(Vec<Uid>),
    /// The Job has ended.
    Finished(Box<End>),
    /// The sync has ended, well or not; it was about that.
    Synced(bool, &'static str, SignedDuration),
}

impl sequence::Note for Note {
    type Question = ();
    type Fresh = decide::gang::Known;
}

/// A status that is stored, and the version of the Job with it.
#[derive(Clone, Debug)]
struct Stored {
    status: Status,
    version: Version,
}

/// The state of one state.
struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    claim: Claim<'a, PodRef, Note>,
    situation: Cow<'a, Situation>,
    manage: Cow<'a, Manage>,
    gang: Gang,
    /// How often the Workload and the group may still be asked for.
    attempts: [u32; 2],
    group: Option<Text>,
    /// Removals of finalizers that belong to no count.
    uncounted: Vec<Untrack>,
    /// What the sync is about, for metrics.
    action: &'static str,
    creates: Vec<CreatePod>,
    removals: Vec<RemovePod>,
    outcome: Outcome,
    failed: Option<Failed>,
    tracked: Option<Tracked>,
    stored: Stored,
    untracks: Vec<Untrack>,
    status: Status,
    /// The end that the second status tells of.
    end: Option<End>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let job = &*snapshot.job;
    let state = State {
        snapshot,
        plan,
        claim: Claim::new(&snapshot.owner, PODS, &[JOB_TRACKING], &plan.adopt, &plan.release),
        situation: Cow::Borrowed(&plan.situation),
        manage: Cow::Borrowed(&plan.manage),
        gang: plan.gang.clone(),
        attempts: [gang::ATTEMPTS; 2],
        group: None,
        uncounted: Vec::new(),
        action: "reconciling",
        creates: Vec::new(),
        removals: Vec::new(),
        outcome: Outcome::default(),
        failed: None,
        tracked: None,
        stored: Stored { status: job.status.clone(), version: job.metadata.resource_version },
        untracks: Vec::new(),
        status: Status::default(),
        end: None,
    };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.uncounted = self.plan.untrack.iter().map(Untrack::of_uncounted).collect();
        if self.uncounted.is_empty() {
            return self.claim(turn);
        }
        turn.note(Note::Process(self.uncounted.iter().map(count::uid).collect()));
        // Before anything else: whether the Job can be counted does not matter to these Pods.
        Step::All(|state| members(&mut state.uncounted), Pace::AtOnce, Self::untracked_uncounted)
    }

    fn untracked_uncounted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let left: Vec<Uid> = self.uncounted.iter().filter(|untrack| !untrack.is_done()).map(count::uid).collect();
        if !left.is_empty() {
            turn.note(Note::Unprocess(left));
        }
        count::report_denied(turn, &self.uncounted);
        self.outcome.changed += self.uncounted.iter().filter(|untrack| untrack.found_change()).count();
        self.claim(turn)
    }

    /// The first refusal by which a Pod that is not counted keeps its finalizer. The event of a Pod that has changed brings the
    /// Job again.
    fn untrack_failure(&self) -> Option<Failed> {
        self.uncounted.iter().find_map(|untrack| {
            let what = || format!("removing the finalizer of pod {}", untrack.pod.meta().key());
            untrack.failure().map(|refusal| Failed::request(&what(), refusal))
        })
    }

    fn claim(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match &self.plan.left_alone {
            None => return Step::All(|state| vec![&mut state.claim], Pace::AtOnce, Self::claimed),
            Some(LeftAlone::Finished | LeftAlone::ManagedBy(_)) => {}
            Some(LeftAlone::UnknownCompletionMode) => {
                let message = "Skipped Job sync because completion mode is unknown";
                turn.tell(EventType::Warning, "UnknownCompletionMode", message);
            }
            Some(LeftAlone::Selector(problem)) => turn.note(Note::BrokenSelector(problem.to_string())),
        }
        if let Some(failed) = self.untrack_failure() {
            turn.end(Err(failed));
        }
        Step::Done
    }

    fn claimed(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.claim.tell_denied(turn);
        match self.claim.outcome() {
            Ok(Claims::Done) => {}
            Ok(Claims::Changed) => return self.ends(turn, Ok(Requeue::Conflict)),
            Err(failed) => return self.ends(turn, Err(failed.while_doing("cannot claim Pods"))),
        }
        // The plan counts on every adoption.
        if !self.claim.is_complete() {
            let adopted: Vec<PodRef> = self.claim.adopted().cloned().collect();
            let situation = Situation::new(self.snapshot, situation::claimed(self.snapshot, &adopted));
            self.gang = decide::gang::gang(self.snapshot, &situation, self.snapshot.scheduling.as_ref());
            self.manage = Cow::Owned(manage::manage(self.snapshot, &situation));
            self.situation = Cow::Owned(situation);
        }
        // Before any Pod: it names its group from the start.
        self.ensure_gang(turn)
    }

    fn manage(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.action = self.manage.label();
        match &*self.manage {
            Manage::Nothing
            | Manage::NotAllowed(_)
            | Manage::Deleting
            | Manage::NoIndexLeft { .. }
            | Manage::Postpone { .. } => self.track(turn),
            Manage::End(victims) => self.remove(victims.clone(), false),
            Manage::DeleteUncounted(victims) | Manage::Suspend(victims) | Manage::Remove(victims) => {
                self.remove(victims.clone(), true)
            }
            Manage::Create { .. } => self.create(turn),
        }
    }

    fn remove(&mut self, victims: Vec<manage::Victim>, untracks: bool) -> Next<'a> {
        let removal = |victim: &manage::Victim| RemovePod::new(&self.situation.pods[victim.at], untracks, victim.why);
        self.removals = victims.iter().map(removal).collect();
        Step::All(|state| members(&mut state.removals), Pace::AtOnce, Self::removed)
    }

    fn removed(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        for removal in &self.removals {
            self.outcome.removed += usize::from(removal.is_done());
            self.outcome.removed_ready += usize::from(removal.is_done() && removal.was_ready());
            self.outcome.changed += usize::from(removal.found_change());
        }
        let refusal = self.removals.iter().find_map(RemovePod::failure);
        self.failed = refusal.map(|refusal| Failed::request("unable to delete pods", refusal));
        self.track(turn)
    }

    /// Creates Pods slowly at first, so that a Job whose Pods are refused costs one request a state.
    fn create(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let (job, owner) = (&self.snapshot.job, &self.snapshot.owner);
        let Manage::Create { pods, .. } = &*self.manage else { return self.track(turn) };
        let bodies = match Bodies::new(job, owner.controller_ref(), self.group.as_ref()) {
            Ok(bodies) => bodies,
            Err(problem) => {
                self.failed = Some(Failed::new("template", format!("unable to create pods, {problem}")));
                return self.track(turn);
            }
        };
        let create = |pod: &manage::NewPod| {
            let prefix = bodies.prefix(pod.index);
            let name = pod.index.map_or_else(String::new, |_| format!("{prefix}*")).into();
            CreatePod::new(&owner.namespace, &name, turn.body(|| bodies.of(*pod))).generate_name(prefix)
        };
        self.creates = pods.iter().map(create).collect();
        Step::All(|state| members(&mut state.creates), Pace::SlowStart(usize::MAX), Self::created)
    }

    fn created(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if self.creates.iter().any(CreatePod::found_terminating_namespace) {
            turn.note(Note::NamespaceTerminates);
        }
        let refusals: Vec<&Refusal> = self.creates.iter().filter_map(CreatePod::failure).collect();
        self.failed = refusals.first().map(|refusal| Failed::request("", refusal));
        self.outcome.created = self.creates.iter().filter(|create| create.is_done()).count();
        let reason = CreationReason::of(&self.snapshot.job, self.situation.failed, self.situation.terminating);
        turn.note(Note::Created(reason, self.outcome.created, refusals.len()));
        self.track(turn)
    }

    /// Decides what the status becomes first, and writes it if it is another one.
    fn track(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let managed = manage::managed(self.snapshot, &self.situation, &self.manage, &self.outcome);
        let tracked = track::track(self.snapshot, &self.situation, &managed, turn.now);
        if let Some(suspension) = tracked.suspension {
            turn.tell(EventType::Normal, suspension.as_str(), suspension.message());
        }
        self.count(turn, tracked)
    }

    fn finish(&mut self, turn: &mut Turn<Note>, result: Result<(), Failed>) -> Next<'a> {
        if let Err(failed) = result {
            return self.ends(turn, Err(failed));
        }
        if let Some(failed) = self.failed.take().or_else(|| self.untrack_failure()) {
            return self.ends(turn, Err(failed));
        }
        let capped = self.tracked.as_ref().is_some_and(|tracked| tracked.capped);
        // After a conflict, the next sync waits until the cache shows the Pods that have changed.
        let requeue = if capped || self.goes_on() || (self.outcome.changed > 0 && self.has_written_pods()) {
            Requeue::After(Duration::ZERO)
        } else if self.outcome.changed > 0 {
            Requeue::Conflict
        } else {
            // The loop knows when the plan is due; what replaced a part of the plan may be due earlier.
            let due = decide::requeue_after(self.snapshot, &self.situation, &self.manage);
            due.map_or(Requeue::No, Requeue::After)
        };
        self.ends(turn, Ok(requeue))
    }

    /// Whether a write to a Pod was granted in this sync.
    fn has_written_pods(&self) -> bool {
        self.outcome.created + self.outcome.removed > 0 || self.untracks.iter().any(Untrack::is_done)
    }

    /// Whether the number of Pods is not yet what it is to be only because one sync does not do everything.
    fn goes_on(&self) -> bool {
        let most = self.snapshot.limits.pods;
        match &*self.manage {
            Manage::Create { pods, missing, .. } => {
                self.outcome.created == pods.len() && pods.len() == most && *missing > pods.len()
            }
            Manage::Remove(victims) => self.outcome.removed == victims.len() && victims.len() == most,
            _ => false,
        }
    }

    fn ends(&self, turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
        turn.note(Note::Synced(outcome.is_ok(), self.action, turn.now.duration_since(self.snapshot.now)));
        turn.end(outcome);
        Step::Done
    }
}
