//! Groups of requests, with a limit on their concurrency.

use std::future::Future;

use futures::{StreamExt as _, stream};

use super::{effect::Note, run::Io};
use crate::batch::{self, BatchSizes};

/// The number of members of a group that run concurrently, and the effect of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupConcurrency {
    /// All members concurrently, at most [`crate::batch::MAX_REQUESTS_IN_FLIGHT`] in flight.
    AllConcurrent,
    /// All members concurrently, at most this number in flight.
    LimitedConcurrent(usize),
    /// One member after the other. A failure ends the group.
    Sequential,
    /// Batches of 1, 2, 4, ... members, up to this size. A batch with a failure is the last one.
    SlowStart(usize),
}

impl GroupConcurrency {
    /// Returns the batches of a group of `count` members, and the number of members in flight.
    fn batches(self, count: usize) -> (BatchSizes, usize) {
        match self {
            Self::AllConcurrent => (batch::single_batch(count), batch::MAX_REQUESTS_IN_FLIGHT),
            Self::LimitedConcurrent(in_flight) => (batch::single_batch(count), in_flight.max(1)),
            Self::Sequential => {
                (batch::slow_start_batch_sizes(count).with_max_batch_size(1), batch::MAX_REQUESTS_IN_FLIGHT)
            }
            Self::SlowStart(largest) => {
                (batch::slow_start_batch_sizes(count).with_max_batch_size(largest), batch::MAX_REQUESTS_IN_FLIGHT)
            }
        }
    }

    fn stops_after_failure(self) -> bool {
        matches!(self, Self::Sequential | Self::SlowStart(_))
    }
}

impl<N: Note> Io<'_, N> {
    /// Runs `each` for all items as a group, and returns the results in the order of the items.
    ///
    /// A member that is not begun has no result. After a failure, `pace` decides whether further members begin. A process that
    /// shuts down begins none. `each` is called for an item only when its member begins.
    pub fn run_group<I, T, E, F: Future<Output = Result<T, E>>>(
        self,
        pace: GroupConcurrency,
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
                let members = stream::iter(items.by_ref().take(size)).map(|item| self.unless_shutting_down(each(item)));
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
    pub async fn unless_shutting_down<F: Future>(self, future: F) -> Option<F::Output> {
        if self.is_shutting_down() { None } else { Some(future.await) }
    }
}
