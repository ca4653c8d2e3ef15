//! The API server as a sync sees it.

use std::{borrow::Cow, future::Future, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    effect::{Effect, Note},
    request::{Body, Fields, Refusal, Request},
    run::{GrantingServer, Run},
};
use crate::{
    api::{self, Written},
    batch::{self, SlowStart},
    events::EventType,
    meta::Meta,
};

/// The API server as one sync sees it, and the way to the controller's memory. A sync awaits nothing else.
pub struct Io<'r, N: Note>(Side<'r, N>);

enum Side<'r, N: Note> {
    Forecast(&'r GrantingServer<N>),
    Real(&'r Run<'r, N>),
}

impl<N: Note> Clone for Io<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Note> Copy for Io<'_, N> {}
impl<N: Note> Clone for Side<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Note> Copy for Side<'_, N> {}

/// How the members of a group follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All at the same time, up to [`crate::batch::IN_FLIGHT`].
    AtOnce,
    /// All at the same time, up to this number.
    AtMost(usize),
    /// One after the other; none after one that fails.
    InOrder,
    /// In batches of 1, 2, 4, ..., none larger than that; none after a batch in which one fails.
    SlowStart(usize),
}

impl Pace {
    /// The batches of a group of `count` members, and the number of members under way at the same time.
    fn batches(self, count: usize) -> (SlowStart, usize) {
        match self {
            Self::AtOnce => (batch::at_once(count), batch::IN_FLIGHT),
            Self::AtMost(in_flight) => (batch::at_once(count), in_flight.max(1)),
            Self::InOrder => (batch::slow_start(count).at_most(1), batch::IN_FLIGHT),
            Self::SlowStart(largest) => (batch::slow_start(count).at_most(largest), batch::IN_FLIGHT),
        }
    }

    fn stops_after_failure(self) -> bool {
        matches!(self, Self::InOrder | Self::SlowStart(_))
    }
}

/// The answer to a request that was granted.
#[derive(Debug, Default)]
pub struct Answer {
    /// Name, uid and version of the object that was written; empty in a forecast.
    pub fields: Fields,
    pub(crate) body: Option<Bytes>,
}

impl Answer {
    /// The object; `None` in a forecast.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Refusal> {
        let object = self.body.as_ref().map(|body| serde_json::from_slice(body)).transpose();
        object.map_err(|error| api::Error::Answer(error).into())
    }

    /// The metadata of the object; `None` in a forecast.
    pub fn metadata(&self) -> Result<Option<Meta>, Refusal> {
        Ok(self.read::<Written>()?.map(|written| written.metadata))
    }
}

impl<'r, N: Note> Io<'r, N> {
    pub(super) fn forecast(server: &'r GrantingServer<N>) -> Self {
        Self(Side::Forecast(server))
    }

    pub(super) fn real(run: &'r Run<'r, N>) -> Self {
        Self(Side::Real(run))
    }

    /// Sends a request. Does not return once this process may no longer write: the sync ends there.
    pub async fn send(self, request: Request) -> Result<Answer, Refusal> {
        match self.0 {
            Side::Forecast(server) => {
                server.expected.lock().add(&request);
                Ok(Answer::default())
            }
            // On the heap, because a group has many members.
            Side::Real(run) => {
                let (fields, body) = Box::pin(run.send(request)).await?;
                Ok(Answer { fields, body: Some(body) })
            }
        }
    }

    /// Sends a request and reads the object in the answer; `None` in a forecast.
    pub async fn read<T: DeserializeOwned>(self, request: Request) -> Result<Option<T>, Refusal> {
        self.send(request).await?.read()
    }

    /// Runs `each` for all items, as a group, and returns the results of those that were begun: the first ones, in the order of the items.
    ///
    /// After a failure `pace` decides whether others are begun; once the process shuts down none is. The future of a member is made when
    /// its turn comes.
    pub fn all<I, T, E, F: Future<Output = Result<T, E>>>(
        self,
        pace: Pace,
        items: impl IntoIterator<Item = I>,
        each: impl Fn(I) -> F,
    ) -> impl Future<Output = Vec<Result<T, E>>> {
        // Collected here, because a future that holds a borrowing iterator cannot be proven to be `Send`.
        let items: Vec<I> = items.into_iter().collect();
        async move {
            let mut results = Vec::with_capacity(items.len());
            let (batches, in_flight) = pace.batches(items.len());
            let mut items = items.into_iter();
            for size in batches {
                let members = stream::iter(items.by_ref().take(size)).map(|item| self.unless_ending(each(item)));
                let begun: Vec<Option<Result<T, E>>> = match self.0 {
                    // No request of a forecast waits.
                    Side::Forecast(_) => members.then(|member| member).collect().await,
                    Side::Real(_) => members.buffered(in_flight).collect().await,
                };
                let has_failed = begun.iter().any(|result| !matches!(result, Some(Ok(_))));
                results.extend(begun.into_iter().flatten());
                if has_failed && pace.stops_after_failure() {
                    break;
                }
            }
            results
        }
    }

    /// Awaits a future, unless the process shuts down.
    pub async fn unless_ending<F: Future>(self, future: F) -> Option<F::Output> {
        if let Side::Real(run) = self.0
            && run.is_ending()
        {
            return None;
        }
        Some(future.await)
    }

    /// Waits.
    pub async fn pause(self, duration: Duration) {
        self.pause_with_jitter(duration, 0.0).await;
    }

    /// Waits for that time, lengthened by a random share of it below `factor`.
    pub async fn pause_with_jitter(self, duration: Duration, factor: f64) {
        if let Side::Real(run) = self.0 {
            run.pause(duration, factor).await;
        }
    }

    /// Reads caches and memory again; `None` if nothing has changed since the snapshot, as in a forecast.
    pub fn observe(self, question: N::Question) -> Option<N::Fresh> {
        match self.0 {
            Side::Forecast(_) => None,
            Side::Real(run) => run.observe(question),
        }
    }

    /// The time.
    pub fn now(self) -> Timestamp {
        match self.0 {
            Side::Forecast(server) => server.now,
            Side::Real(run) => run.now(),
        }
    }

    /// Records an Event about the object of the sync.
    pub fn event(self, kind: EventType, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        self.apply(Effect::Event(kind, reason.into(), message.into()));
    }

    /// Changes the controller's memory.
    pub fn note(self, note: N) {
        self.apply(Effect::Note(note));
    }

    /// States why the sync continues otherwise than forecast although the last request was granted: a live read shows another object than
    /// the cache.
    pub fn deviate(self, why: impl Into<String>) {
        self.apply(Effect::Deviation(why.into()));
    }

    fn apply(self, effect: Effect<N>) {
        match self.0 {
            Side::Forecast(server) => server.effects.lock().push(effect),
            Side::Real(run) => run.apply(effect),
        }
    }

    /// The body of a request: encoded for the server, left out of a forecast.
    pub fn body<B: Serialize>(self, make: impl FnOnce() -> B) -> Body {
        if self.is_forecast() { Body::default() } else { Body::encode(&make()) }
    }

    pub(crate) fn is_forecast(self) -> bool {
        matches!(self.0, Side::Forecast(_))
    }
}
