//! Concurrent requests of one sync: all together, up to a maximum count, or in batches that double in size (slow start).

use futures::{StreamExt as _, stream};

/// Maximum number of concurrent requests of one sync.
pub const MAX_REQUESTS_IN_FLIGHT: usize = 100;

/// Awaits all `calls`, at most `in_flight` of them at the same time, and returns the results in the order of the calls.
pub async fn join_all_with_concurrency_limit<F: Future>(
    in_flight: usize,
    calls: impl IntoIterator<Item = F>,
) -> Vec<F::Output> {
    // The calls are collected first, because the compiler cannot prove that a stream over the borrowing iterator is `Send`.
    let calls: Vec<F> = calls.into_iter().collect();
    stream::iter(calls).buffered(in_flight).collect().await
}

/// Number of calls in the first batch. Upstream: `SlowStartInitialBatchSize`.
pub const SLOW_START_INITIAL_BATCH_SIZE: usize = 1;

/// Iterator over the batch sizes of a slow start: 1, 2, 4, ..., with the remainder last.
///
/// The caller awaits each batch and drops the iterator after the first batch with an error. Upstream:
/// `pkg/controller/replicaset`, `slowStartBatch`.
#[derive(Clone, Debug)]
pub struct BatchSizes {
    remaining: usize,
    next: usize,
    most: usize,
}

/// Returns the batch sizes of a slow start for `count` calls. The first size is [`SLOW_START_INITIAL_BATCH_SIZE`].
pub fn slow_start_batch_sizes(count: usize) -> BatchSizes {
    BatchSizes { remaining: count, next: SLOW_START_INITIAL_BATCH_SIZE, most: usize::MAX }
}

/// Returns the size of a single batch with all `count` calls.
pub fn single_batch_size(count: usize) -> BatchSizes {
    BatchSizes { next: usize::MAX, ..slow_start_batch_sizes(count) }
}

impl BatchSizes {
    /// Limits the size of each batch to `most` calls; 0 counts as 1.
    #[must_use]
    pub fn with_max_batch_size(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }
}

impl Iterator for BatchSizes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let size = self.next.min(self.most).min(self.remaining);
        self.remaining -= size;
        self.next = size.saturating_mul(2);
        (size > 0).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// COMMON-40.
    #[test]
    fn batches_double_until_the_remainder() {
        for (count, batches) in [
            (0, vec![]),
            (1, vec![1]),
            (3, vec![1, 2]),
            (7, vec![1, 2, 4]),
            (10, vec![1, 2, 4, 3]),
            (250, vec![1, 2, 4, 8, 16, 32, 64, 123]),
            (500, vec![1, 2, 4, 8, 16, 32, 64, 128, 245]),
        ] {
            assert_eq!(slow_start_batch_sizes(count).collect::<Vec<_>>(), batches, "{count}");
        }
    }

    #[test]
    fn batches_grow_up_to_a_limit() {
        let sizes = |count| slow_start_batch_sizes(count).with_max_batch_size(500).skip(8).collect::<Vec<_>>();
        assert_eq!((sizes(600), sizes(1500)), (vec![256, 89], vec![256, 500, 489]));
        assert_eq!(slow_start_batch_sizes(3).with_max_batch_size(1).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!((single_batch_size(0).next(), single_batch_size(700).collect::<Vec<_>>()), (None, vec![700]));
    }

    /// Runs a slow start that stops after the first batch with a failure. Returns the count of calls made, the count of
    /// successful calls, and the count of the other calls, including calls that were not made.
    fn run(wanted: usize, fails: impl Fn(usize) -> bool) -> (usize, usize, usize) {
        let (mut made, mut successes) = (0, 0);
        for batch in slow_start_batch_sizes(wanted) {
            let failed = (made..made + batch).filter(|call| fails(*call)).count();
            made += batch;
            successes += batch - failed;
            if failed > 0 {
                break;
            }
        }
        (made, successes, wanted - successes)
    }

    /// COMMON-40.
    #[test]
    fn a_failing_batch_is_the_last() {
        assert_eq!(run(10, |_| false), (10, 10, 0));
        assert_eq!(run(500, |_| false), (500, 500, 0));
        assert_eq!(run(10, |_| true), (1, 0, 10));
        assert_eq!(run(10, |call| call >= 3), (7, 3, 7));
        assert_eq!(run(10, |call| call == 2), (3, 2, 8));
    }

    proptest! {
        #[test]
        fn every_call_is_in_one_batch(count in 0usize..100_000) {
            let sizes: Vec<_> = slow_start_batch_sizes(count).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), count);
            for pair in sizes.windows(2) {
                prop_assert!(pair[1] <= 2 * pair[0]);
            }
            for pair in sizes.iter().rev().skip(1).rev().collect::<Vec<_>>().windows(2) {
                prop_assert_eq!(*pair[1], 2 * *pair[0]);
            }
        }
    }
}
