//! The requests of one sync, as a pure function of the answers to them.
//!
//! A [`Sequence`] says which request comes next, given how the one before went. It sends nothing itself, so that it can run
//! twice: [`forecast`] runs it with the answers that a healthy server gives, which is what `/debug/explain`
//! and shadow mode show; the executor ([`Executor`]) runs it with the answers of the server. Both come from the same code, so
//! an explanation cannot promise what the controller does not do.
//!
//! What every controller would otherwise repeat is done by the executor: the leader's gate, preconditions and the versions that
//! writes of the same sync have left, batches and slow start, the classes of errors, the ledger of own writes, Events, and the
//! [`Account`] of what was done and of what was left out for which reason.

mod account;
mod claim;
mod execute;
mod history;
mod pods;
mod request;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

pub use account::{Account, AccountObserver, Action, Entry, Forecast, forecast};
pub use claim::{Claim, Claimed};
pub use execute::{Executor, Subject};
pub use history::{ChangeRevision, DeleteRevision, RawMembers, Refused, StoreRevision, Stored};
pub use pods::{CreatePod, DeletePod};
pub use request::{Body, Class, Fields, Precondition, Refusal, Request, Role, Verb};

use crate::{
    api::{self, Written},
    controller::{Requeue, Retry},
    events::EventType,
    meta::Meta,
    object::Unreadable,
};

/// A change of a controller's memory, which its sequences ask for.
pub trait Note: Send {
    /// What a sequence asks the controller's caches and memory for ([`Next::Observe`]); `()` if there is one question only.
    type Question: Send;
    /// What they answer.
    type Fresh: Send;
}

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

/// How the members of a group follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All at the same time, up to [`crate::batch::IN_FLIGHT`].
    AtOnce,
    /// All at the same time, up to this number.
    AtMost(usize),
    /// One after the other; none after one that [stops](Sequence::stops_siblings) its siblings.
    InOrder,
    /// In batches of 1, 2, 4, ..., none larger than that; none after a batch in which one stops its siblings.
    SlowStart(usize),
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

/// Why a sync failed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    text: String,
    label: &'static str,
    is_denied: bool,
    pub(crate) retry: Retry,
}

impl Failed {
    /// A failure that is no answer of the server. `label` names it in metrics.
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), label, is_denied: false, retry: Retry::Backoff }
    }

    /// A refused request; `what` was being done, nothing if the server's message says enough.
    pub fn request(what: &str, refusal: &Refusal) -> Self {
        let error = &refusal.error;
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        let is_denied = refusal.class == Class::Refused && error.is_denied();
        Self { text, label: error.label(), is_denied, retry: Retry::Backoff }
    }

    /// The same with what was being done before the text.
    #[must_use]
    pub fn while_doing(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    /// The name for metrics, one of few.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Whether the server, a policy or a webhook denies the request for what it holds: a right or a policy has to change before it
    /// can succeed.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// The same with another fate of the key.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// This process may not write any more.
    fn stopped() -> Self {
        let error = api::Error::NotLeader;
        Self { text: error.to_string(), label: error.label(), is_denied: false, retry: Retry::Stop }
    }
}

/// An object in the cache that cannot be read.
impl From<Unreadable> for Failed {
    fn from(error: Unreadable) -> Self {
        Self::new("unreadable", error.to_string())
    }
}
