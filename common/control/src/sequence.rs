//! Syncs as sequences of requests: for controllers that are not straight-line code yet.

#![allow(missing_docs)]

mod claim;
mod history;
mod pods;

use std::{borrow::Cow, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

pub use claim::{Claim, Claimed};
pub use history::{ChangeRevision, DeleteRevision, RawMembers, Refused, StoreRevision, Stored};
pub use pods::{CreatePod, DeletePod};

pub use crate::io::{
    Account, AccountObserver, Action, Body, Class, Entry, Executor, Failed, Fields, Forecast, Io, Note, Outcome, Pace,
    Precondition, Refusal, Request, Requeue, Retry, Role, Verb,
};
use crate::{
    api::{self, Written},
    events::EventType,
    meta::Meta,
};

/// A pure sequence of requests. `N` is what the controller notes in memory on the way.
pub trait Sequence<N: Note>: Send {
    /// Returns what comes next. `turn` holds the answer to the request that this sequence sent last, if it sent one.
    ///
    /// Called again after everything that was returned has been carried out, until it returns [`Next::Done`].
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N>;

    /// Whether it failed in a way that keeps its siblings from being begun; see [`Pace`].
    fn stops_siblings(&self) -> bool {
        false
    }
}

/// What a sequence does next.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and most are requests")]
pub enum Next<'a, N: Note> {
    /// Sends a request.
    Send(Request),
    /// Runs all of these sequences to their ends. Those that the end of the process keeps from being begun get no turn.
    All(Vec<&'a mut dyn Sequence<N>>, Pace),
    /// Waits.
    Pause(Duration),
    /// Waits for that time, lengthened by a random share of it below this factor.
    PauseWithJitter(Duration, f64),
    /// Reads caches and memory anew: time has passed since the snapshot.
    Observe(N::Question),
    /// Nothing.
    Done,
}

/// One call of a sequence: what it gets, and what it tells.
pub struct Turn<N: Note> {
    /// The time.
    pub now: Timestamp,
    is_forecast: bool,
    answer: Option<Result<(Fields, Bytes), Refusal>>,
    fresh: Option<N::Fresh>,
    effects: Vec<Effect<N>>,
    outcome: Option<Result<Requeue, Failed>>,
}

/// What a sequence does besides requests, in this order with them.
#[derive(Debug)]
enum Effect<N> {
    Tell(EventType, Cow<'static, str>, String),
    Note(N),
    Deviate(String),
}

impl<N: Note> Turn<N> {
    fn new(now: Timestamp, is_forecast: bool) -> Self {
        Self { now, is_forecast, answer: None, fresh: None, effects: Vec::new(), outcome: None }
    }

    /// Whether this is a forecast: nothing is sent, and every request counts as granted.
    pub fn is_forecast(&self) -> bool {
        self.is_forecast
    }

    /// The identity that the answer to a write gives the object; nothing is known of it in a forecast.
    pub fn written(&mut self) -> Result<Fields, Refusal> {
        self.answer.take().map_or_else(|| Ok(Fields::default()), |answer| answer.map(|(fields, _)| fields))
    }

    /// The object that the server answered with; `None` in a forecast.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Refusal> {
        let Some(answer) = self.answer.take() else { return Ok(None) };
        let (_, bytes) = answer?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| api::Error::Answer(error).into())
    }

    /// The metadata of the object that the server answered with; `None` in a forecast.
    pub fn metadata(&mut self) -> Result<Option<Meta>, Refusal> {
        Ok(self.read::<Written>()?.map(|written| written.metadata))
    }

    /// The object that the server answered with, if it did and it can be read. The answer stays for the other methods.
    pub fn peek<T: DeserializeOwned>(&self) -> Option<T> {
        let (_, bytes) = self.answer.as_ref()?.as_ref().ok()?;
        serde_json::from_slice(bytes).ok()
    }

    /// What was asked for with [`Next::Observe`]; `None` if nothing has changed since the snapshot, as in a forecast.
    pub fn fresh(&mut self) -> Option<N::Fresh> {
        self.fresh.take()
    }

    /// Records an Event about the object of the sync, before the next request leaves.
    pub fn tell(&mut self, kind: EventType, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        self.effects.push(Effect::Tell(kind, reason.into(), message.into()));
    }

    /// Has the controller change its memory, before the next request leaves.
    pub fn note(&mut self, note: N) {
        self.effects.push(Effect::Note(note));
    }

    /// Says why the sequence goes on otherwise than forecast although the last request was granted: a live read that shows
    /// another object than the cache does.
    pub fn deviates(&mut self, why: impl Into<String>) {
        self.effects.push(Effect::Deviate(why.into()));
    }

    /// The body of a request: encoded for the server, left out of a forecast.
    pub fn body<B: Serialize>(&self, make: impl FnOnce() -> B) -> Body {
        if self.is_forecast() { Body::default() } else { Body::encode(&make()) }
    }

    /// Sets how the sync ends. The first failure counts; without one, the last requeue.
    pub fn end(&mut self, outcome: Result<Requeue, Failed>) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(outcome);
        }
    }
}

/// The state of a sequence and the function that takes its next turn.
///
/// A sequence reads best as one method a turn, each of which names the next one.
pub struct Steps<S, N: Note> {
    /// The state.
    pub state: S,
    next: Then<S, N>,
}

/// A turn of [`Steps`].
pub type Then<S, N> = fn(&mut S, &mut Turn<N>) -> Step<S, N>;
/// The members of a group of [`Steps`].
pub type Members<S, N> = for<'s> fn(&'s mut S) -> Vec<&'s mut dyn Sequence<N>>;

/// What one turn of [`Steps`] comes to, and the turn that follows.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and most are requests")]
pub enum Step<S, N: Note> {
    /// Sends a request, then takes that turn.
    Send(Request, Then<S, N>),
    /// Runs these sequences, then takes that turn.
    All(Members<S, N>, Pace, Then<S, N>),
    /// Waits, then takes that turn.
    Pause(Duration, Then<S, N>),
    /// Waits for that time, lengthened by a random share of it below this factor, then takes that turn.
    PauseWithJitter(Duration, f64, Then<S, N>),
    /// Reads caches and memory anew, then takes that turn.
    Observe(N::Question, Then<S, N>),
    /// Ends.
    Done,
}

impl<S: Send, N: Note> Steps<S, N> {
    /// A sequence that begins with that turn.
    pub fn new(state: S, first: Then<S, N>) -> Self {
        Self { state, next: first }
    }
}

impl<S: Send, N: Note> Sequence<N> for Steps<S, N> {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        match (self.next)(&mut self.state, turn) {
            Step::Send(request, next) => {
                self.next = next;
                Next::Send(request)
            }
            Step::All(members, pace, next) => {
                self.next = next;
                Next::All(members(&mut self.state), pace)
            }
            Step::Pause(duration, next) => {
                self.next = next;
                Next::Pause(duration)
            }
            Step::PauseWithJitter(duration, factor, next) => {
                self.next = next;
                Next::PauseWithJitter(duration, factor)
            }
            Step::Observe(question, next) => {
                self.next = next;
                Next::Observe(question)
            }
            Step::Done => Next::Done,
        }
    }
}

/// Sequences as the members of a group.
pub fn members<S: Sequence<N>, N: Note>(sequences: &mut [S]) -> Vec<&mut dyn Sequence<N>> {
    sequences.iter_mut().map(|sequence| sequence as &mut dyn Sequence<N>).collect()
}

type Ending = Option<Outcome>;

/// Forecasts a sequence.
pub fn forecast<N: Note>(sequence: &mut dyn Sequence<N>, now: Timestamp) -> Forecast<N> {
    crate::io::forecast(now, async |io| take_turns(io, sequence).await)
}

/// Takes all turns of a sequence.
pub async fn take_turns<N: Note>(io: Io<'_, N>, sequence: &mut dyn Sequence<N>) -> Outcome {
    let mut outcome = None;
    turns(io, sequence, &mut outcome).await;
    outcome.unwrap_or(Ok(Requeue::No))
}

fn turns<'s, N: Note>(
    io: Io<'s, N>,
    sequence: &'s mut dyn Sequence<N>,
    outcome: &'s mut Ending,
) -> Pin<Box<dyn Future<Output = ()> + Send + 's>> {
    Box::pin(async move {
        let (mut answer, mut fresh) = (None, None);
        loop {
            let mut turn = Turn::new(io.now(), io.is_forecast());
            turn.answer = answer.take();
            turn.fresh = fresh.take();
            let next = sequence.next(&mut turn);
            for effect in std::mem::take(&mut turn.effects) {
                match effect {
                    Effect::Tell(kind, reason, message) => io.event(kind, reason, message),
                    Effect::Note(note) => io.note(note),
                    Effect::Deviate(why) => io.deviate(why),
                }
            }
            if turn.outcome.is_some() && !matches!(outcome, Some(Err(_))) {
                *outcome = turn.outcome;
            }
            match next {
                Next::Send(request) => {
                    answer = match io.send(request).await {
                        Ok(granted) => granted.body.map(|body| Ok((granted.fields, body))),
                        Err(refusal) => Some(Err(refusal)),
                    }
                }
                Next::All(members, pace) => {
                    let take_turns = async |member: &mut dyn Sequence<N>| {
                        turns(io, member, &mut None).await;
                        if member.stops_siblings() { Err(()) } else { Ok(()) }
                    };
                    io.all(pace, members, take_turns).await;
                }
                Next::Pause(duration) => io.pause(duration).await,
                Next::PauseWithJitter(duration, factor) => io.pause_with_jitter(duration, factor).await,
                Next::Observe(question) => fresh = io.observe(question),
                Next::Done => return,
            }
        }
    })
}
