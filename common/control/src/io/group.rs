//! Groups of requests, with a limit on the requests in flight at a time.

use std::future::Future;

use futures::{StreamExt as _, stream};

use super::run::Io;
use crate::batch::{self, BatchSizes};

/// The limit on the members of a group that run concurrently, and the effect of a failure on the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupConcurrency {
    /// Concurrent members, at most [`crate::batch::MAX_REQUESTS_IN_FLIGHT`] at a time. A failure does not end the group.
    AllConcurrent,
    /// Concurrent members, at most this many at a time. A failure does not end the group.
    LimitedConcurrent(usize),
    /// One member after the other. A failure ends the group.
    Sequential,
    /// Batches of 1, 2, 4, ... members, up to this size. A batch with a failure is the last one.
    SlowStart(usize),
}

impl GroupConcurrency {
    /// Returns the sizes of the batches for `count` members, and the limit on the members in flight.
    fn batches(self, count: usize) -> (BatchSizes, usize) {
        match self {
            Self::AllConcurrent => (batch::single_batch_size(count), batch::MAX_REQUESTS_IN_FLIGHT),
            Self::LimitedConcurrent(in_flight) => (batch::single_batch_size(count), in_flight.max(1)),
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

impl<M: Sync> Io<'_, M> {
    /// Runs `each` for all items as a group, and returns the results in the order of the items.
    ///
    /// A member that is not begun has no result. After a failure, `concurrency` determines whether further members begin. When the
    /// process shuts down, no further member begins. `each` is called for an item only when its member begins.
    pub fn run_group<I, T, E, F: Future<Output = Result<T, E>>>(
        self,
        concurrency: GroupConcurrency,
        items: impl IntoIterator<Item = I>,
        each: impl Fn(I) -> F,
    ) -> impl Future<Output = Vec<Result<T, E>>> {
        // The items are collected, because the compiler cannot prove that a future with a borrowing iterator is `Send`.
        let items: Vec<I> = items.into_iter().collect();
        async move {
            let mut results = Vec::with_capacity(items.len());
            let (batches, in_flight) = concurrency.batches(items.len());
            let mut items = items.into_iter();
            for size in batches {
                let members =
                    stream::iter(items.by_ref().take(size)).map(|item| self.await_unless_shutting_down(each(item)));
                let begun: Vec<Option<Result<T, E>>> = if self.is_forecast() {
                    // In a forecast the members never wait, so there is nothing to gain from concurrency.
                    members.then(|member| member).collect().await
                } else {
                    members.buffered(in_flight).collect().await
                };
                let has_failed = begun.iter().any(|result| !matches!(result, Some(Ok(_))));
                results.extend(begun.into_iter().flatten());
                if has_failed && concurrency.stops_after_failure() {
                    break;
                }
            }
            results
        }
    }

    /// Awaits a future; returns `None` without polling it if the process shuts down.
    pub async fn await_unless_shutting_down<F: Future>(self, future: F) -> Option<F::Output> {
        if self.is_shutting_down() { None } else { Some(future.await) }
    }
}
