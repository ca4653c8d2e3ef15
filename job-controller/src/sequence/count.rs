//! The writes that count what has ended, in their order; see [`crate::decide::track`].

use common::{
    api,
    events::EventType,
    meta::{Meta, Uid},
    sequence::{Class, Failed, Pace, Refusal, Request, Step, Turn, members},
};
use serde::Deserialize;
use serde_json::json;

pub(super) use super::pods::Untrack;
use super::{Next, Note, State, Stored};
use crate::{
    decide::{End, Verdict, settle, track::Tracked},
    objects::{JOBS, Status},
};

/// The part of an answer that is read of a Job whose status was written.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

impl<'a> State<'a> {
    /// Writes the status that names terminated Pods, removes their finalizers, writes the status that counts them.
    ///
    /// Whatever fails, nothing after it happens: the next sync finds all it needs on the server. Upstream: `pkg/controller/job`,
    /// `flushUncountedAndRemoveFinalizers`.
    pub(super) fn count(&mut self, turn: &mut Turn<Note>, tracked: Tracked) -> Next<'a> {
        let (writes, why) = (tracked.writes, describe(&tracked));
        self.status = tracked.status.clone();
        self.tracked = Some(tracked);
        if !writes {
            return self.untrack(turn);
        }
        Step::Send(self.status_request(turn).because(why), |state, turn| match state.stored(turn) {
            Ok(()) => {
                turn.note(Note::Backoff(state.situation.backoff));
                state.untrack(turn)
            }
            Err(refusal) => state.status_failed(turn, "adding uncounted pods to status", &refusal),
        })
    }

    fn untrack(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(tracked) = &self.tracked else { return Step::Done };
        if !tracked.actions.is_empty() {
            turn.note(Note::Policy(tracked.actions.clone()));
        }
        self.untracks = tracked.release.iter().map(|at| Untrack::new(&self.situation.pods[*at].pod)).collect();
        if self.untracks.is_empty() {
            return self.settle(turn);
        }
        turn.note(Note::Process(self.untracks.iter().map(uid).collect()));
        Step::All(|state| members(&mut state.untracks), Pace::AtOnce, Self::settle)
    }

    /// Counts the Pods that have no finalizer any more, and tells of the end of the Job once nothing is left to be counted.
    fn settle(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(tracked) = &self.tracked else { return Step::Done };
        let mut uncounted = tracked.uncounted.clone();
        let (done, left): (Vec<&Untrack>, Vec<&Untrack>) = self.untracks.iter().partition(|untrack| untrack.is_done());
        for untrack in done {
            uncounted.remove(&uid(untrack));
        }
        if !left.is_empty() {
            turn.note(Note::Unprocess(left.iter().copied().map(uid).collect()));
        }
        let mut status = self.stored.status.clone();
        let counts = settle::settle(&mut status, &uncounted);
        self.end = tracked.end.clone().filter(|end| {
            let all = left.is_empty() && !tracked.capped;
            all && settle::finish(&self.snapshot.job, &mut status, end, tracked.terminating, turn.now)
        });
        self.outcome.changed += left.iter().filter(|untrack| untrack.found_change()).count();
        if !counts && self.end.is_none() {
            return self.counted(turn);
        }
        self.status = status;
        let request = self.status_request(turn);
        let request = match &self.end {
            Some(end) => request.because(format!("{} ({})", end.terminal(), end.reason)),
            None => request.because("it counts Pods whose finalizers are gone"),
        };
        Step::Send(request, Self::settled)
    }

    fn settled(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match self.stored(turn) {
            Ok(()) => self.finished(turn),
            Err(refusal) if self.end.is_some() && self.status.start_time.is_none() && wants_start(&refusal.error) => {
                settle::start_at_end(&mut self.status);
                Step::Send(self.status_request(turn), |state, turn| match state.stored(turn) {
                    Ok(()) => state.finished(turn),
                    Err(refusal) => state.status_failed(turn, "removing uncounted pods from status", &refusal),
                })
            }
            Err(refusal) => self.status_failed(turn, "removing uncounted pods from status", &refusal),
        }
    }

    fn finished(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(end) = self.end.take() {
            self.tell(turn, &end);
            turn.note(Note::Finished(Box::new(end)));
        }
        self.counted(turn)
    }

    fn counted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        report_denied(turn, &self.untracks);
        let failed = self.untracks.iter().find_map(|untrack| {
            let what = || format!("tracking status: removing the finalizer of pod {}", untrack.pod.meta().key());
            untrack.failure().map(|refusal| Failed::request(&what(), refusal))
        });
        self.finish(turn, failed.map_or(Ok(()), Err))
    }

    /// A Job that is gone needs no status.
    fn status_failed(&mut self, turn: &mut Turn<Note>, what: &str, refusal: &Refusal) -> Next<'a> {
        if refusal.class == Class::Gone {
            return self.finish(turn, Ok(()));
        }
        self.finish(turn, Err(Failed::request(&format!("tracking status: {what}"), refusal)))
    }

    /// Writes the status onto the version it was computed from.
    fn status_request(&self, turn: &Turn<Note>) -> Request {
        let body = turn.body(|| json!({"status": &self.status}));
        Request::status(JOBS, &self.snapshot.job.metadata, body).at(Some(self.stored.version))
    }

    /// Takes over the answer to a status that was written.
    fn stored(&mut self, turn: &mut Turn<Note>) -> Result<(), Refusal> {
        let stored = match turn.read::<Answer>()? {
            Some(Answer { metadata, status }) => {
                Stored { status: status.unwrap_or_default(), version: metadata.resource_version }
            }
            None => Stored { status: self.status.clone(), version: self.stored.version },
        };
        let before = std::mem::replace(&mut self.stored, stored);
        turn.note(Note::Counted(Box::new([before.status, self.stored.status.clone()])));
        Ok(())
    }

    /// Tells of the end of the Job.
    fn tell(&self, turn: &mut Turn<Note>, end: &End) {
        match end.verdict {
            Verdict::Success => {
                let wanted = self.snapshot.job.completions;
                if wanted.is_some_and(|wanted| i64::from(self.status.succeeded) > i64::from(wanted)) {
                    let message = "Too many succeeded pods running after completion count reached";
                    turn.tell(EventType::Warning, "TooManySucceededPods", message);
                }
                turn.tell(EventType::Normal, "Completed", "Job completed");
            }
            Verdict::Failure => turn.tell(EventType::Warning, end.reason.to_string(), end.message.to_string()),
        }
    }
}

/// Reports in one Event that the server denies the removal of finalizers.
pub(super) fn report_denied(turn: &mut Turn<Note>, untracks: &[Untrack]) {
    let mut refused = untracks.iter().filter_map(|untrack| Some((untrack, untrack.failure()?)));
    if let Some((untrack, refusal)) = refused.find(|(_, refusal)| refusal.error.is_denied()) {
        let pod = untrack.pod.meta().key();
        let message = format!("Error: cannot remove the finalizer of Pod {pod}: {}", refusal.error);
        turn.tell(EventType::Warning, "FailedUpdate", message);
    }
}

pub(super) fn uid(untrack: &Untrack) -> Uid {
    untrack.pod.meta().uid.clone()
}

fn wants_start(error: &api::Error) -> bool {
    error.is_invalid() && error.names("status.startTime")
}

/// What the first status is written for.
fn describe(tracked: &Tracked) -> String {
    match tracked.end.as_ref().filter(|end| end.is_new) {
        Some(end) => format!("{} ({})", end.interim(), end.reason),
        None => String::new(),
    }
}
