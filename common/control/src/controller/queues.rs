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
        let probed = queue.downgrade();
        self.metrics.run_before_each_scrape(move || {
            if let Some(queue) = probed.upgrade() {
                let (unfinished, longest) = queue.total_and_longest_processing_time();
                metrics.set_unfinished_work(unfinished, longest);
            }
        });
        queue
    }

    /// Creates the work queues of two loops that appear as one queue in metrics, with the label `name` and the default back-off.
    pub fn new_queue_pair<K: QueueKey, L: QueueKey>(&self, name: &str) -> (Queue<K>, Queue<L>) {
        let metrics = self.metrics.queue_metrics(name);
        let (first, second) = (
            self.held_queue(&metrics, BackoffSettings::default()),
            self.held_queue(&metrics, BackoffSettings::default()),
        );
        let (probed_first, probed_second) = (first.downgrade(), second.downgrade());
        self.metrics.run_before_each_scrape(move || {
            if let (Some(first), Some(second)) = (probed_first.upgrade(), probed_second.upgrade()) {
                let (first, second) = (
                    Queue::<K>::total_and_longest_processing_time(&first),
                    Queue::<L>::total_and_longest_processing_time(&second),
                );
                metrics.set_unfinished_work(first.0 + second.0, first.1.max(second.1));
            }
        });
        (first, second)
    }

    /// Creates a work queue that updates `metrics`. The workers release its held keys when they start.
    fn held_queue<K: QueueKey>(&self, metrics: &QueueMetrics, backoff: BackoffSettings) -> Queue<K> {
        let observer = QueueMetricsCallbacks { metrics: metrics.clone(), timer: self.api.pace().add_queue_timer() };
        let queue = Queue::new(self.clock.clone(), backoff, Some(Arc::new(observer)));
        queue.hold_keys();
        queue
    }
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
