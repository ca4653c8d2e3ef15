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
        let observer = QueueMetricsCallbacks { metrics: metrics.clone(), timer: self.api.pace().add_queue_timer() };
        let queue = Queue::new(self.clock.clone(), backoff, Some(Arc::new(observer)));
        // The workers release the held keys when they start.
        queue.hold_keys();
        let probed = queue.downgrade();
        self.metrics.run_before_each_scrape(move || {
            if let Some(queue) = probed.upgrade() {
                let (unfinished, longest) = queue.total_and_longest_processing_time();
                metrics.set_unfinished_work(unfinished, longest);
            }
        });
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
