//! Groups of requests, with a limit on their concurrency.

use std::future::Future;

use futures::{StreamExt as _, stream};

use super::{effect::Note, run::Io};
use crate::batch::{self, SlowStart};

/// The number of members of a group that run concurrently, and the effect of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All members concurrently, at most [`crate::batch::IN_FLIGHT`] in flight.
    AtOnce,
    /// All members concurrently, at most this number in flight.
    AtMost(usize),
    /// One member after the other. A failure ends the group.
    InOrder,
    /// Batches of 1, 2, 4, ... members, up to this size. A batch with a failure is the last one.
    SlowStart(usize),
}

impl Pace {
    /// Returns the batches of a group of `count` members, and the number of members in flight.
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

impl<N: Note> Io<'_, N> {
    /// Runs `each` for all items as a group, and returns the results in the order of the items.
    ///
    /// A member that is not begun has no result. After a failure, `pace` decides whether further members begin. A process that
    /// shuts down begins none. `each` is called for an item only when its member begins.
    pub fn all<I, T, E, F: Future<Output = Result<T, E>>>(
        self,
        pace: Pace,
        items: impl IntoIterator<Item = I>,
        each: impl Fn(I) -> F,
    ) -> impl Future<Output = Vec<Result<T, E>>> {
        // The items are collected, because a future with a borrowing iterator cannot be proven to be `Send`.
        let items: Vec<I> = items.into_iter().collect();
        async move {
            let mut results = Vec::with_capacity(items.len());
            let (batches, in_flight) = pace.batches(items.len());
            let mut items = items.into_iter();
            for size in batches {
                let members = stream::iter(items.by_ref().take(size)).map(|item| self.unless_ending(each(item)));
                let begun: Vec<Option<Result<T, E>>> = if self.is_forecast() {
                    // Members of a forecast never wait, so that they need no concurrency.
                    members.then(|member| member).collect().await
                } else {
                    members.buffered(in_flight).collect().await
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

    /// Awaits a future; returns `None` without polling it if the process shuts down.
    pub async fn unless_ending<F: Future>(self, future: F) -> Option<F::Output> {
        if self.is_ending() { None } else { Some(future.await) }
    }
}
