//! Work queues with metrics, and with a timer that wakes the idle process.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    metrics::QueueMetrics,
    pace::QueueTimer,
    queue::{BackoffSettings, Queue, QueueCallbacks, QueueKey},
    runtime::LoopContext,
};

impl LoopContext {
    /// Creates a work queue with the metric label `name` and the default back-off. Its keys are held ([`Queue::hold_keys`]) until
    /// a worker starts.
    pub fn new_queue<K: QueueKey>(&self, name: &str) -> Queue<K> {
        self.new_queue_with_backoff(name, BackoffSettings::default())
    }

    /// Creates a work queue with another back-off.
    pub fn new_queue_with_backoff<K: QueueKey>(&self, name: &str, backoff: BackoffSettings) -> Queue<K> {
        let metrics = self.metrics.queue_metrics(name);
        let queue = self.held_queue(&metrics, backoff);
        let times = processing_times(&queue);
        self.metrics.run_before_each_scrape(move || {
            if let Some((unfinished, longest)) = times() {
                metrics.set_unfinished_work(unfinished, longest);
            }
        });
        queue
    }

    /// Creates the work queues of two loops, with the default back-off. In metrics they appear as one queue with the label
    /// `name`.
    pub fn new_queue_pair<K: QueueKey, L: QueueKey>(&self, name: &str) -> (Queue<K>, Queue<L>) {
        let metrics = self.metrics.queue_metrics(name);
        let first_queue = self.held_queue(&metrics, BackoffSettings::default());
        let second_queue = self.held_queue(&metrics, BackoffSettings::default());
        let (first_times, second_times) = (processing_times(&first_queue), processing_times(&second_queue));
        self.metrics.run_before_each_scrape(move || {
            if let (Some(first), Some(second)) = (first_times(), second_times()) {
                metrics.set_unfinished_work(first.0 + second.0, first.1.max(second.1));
            }
        });
        (first_queue, second_queue)
    }

    /// Creates a work queue that updates `metrics`. The workers release its held keys when they start.
    fn held_queue<K: QueueKey>(&self, metrics: &QueueMetrics, backoff: BackoffSettings) -> Queue<K> {
        let observer = QueueMetricsCallbacks { metrics: metrics.clone(), timer: self.api.pace().add_queue_timer() };
        let queue = Queue::new(self.clock.clone(), backoff, Some(Arc::new(observer)));
        queue.hold_keys();
        queue
    }
}

/// Returns a function that reads the total and the longest processing time of a queue; `None` after the queue was dropped.
fn processing_times<K: QueueKey>(queue: &Queue<K>) -> impl Fn() -> Option<(Duration, Duration)> + Send + Sync + use<K> {
    let queue = queue.downgrade();
    move || queue.upgrade().map(|queue| queue.total_and_longest_processing_time())
}

/// Updates the metrics of a queue, and sets the timer that wakes the idle process when the next delayed key is due.
struct QueueMetricsCallbacks {
    metrics: QueueMetrics,
    timer: QueueTimer,
}

impl QueueCallbacks for QueueMetricsCallbacks {
    fn on_key_added(&self) {
        self.metrics.count_added_key();
    }
    fn on_key_taken(&self, waited: Duration) {
        self.metrics.record_queue_time(waited);
    }
    fn on_key_done(&self, worked: Duration) {
        self.metrics.record_work_time(worked);
    }
    fn on_key_retried(&self) {
        self.metrics.count_retry();
    }
    fn on_idle_until(&self, due: Instant) {
        self.timer.set(due);
    }
}
