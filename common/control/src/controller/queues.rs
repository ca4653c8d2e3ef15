//! Work queues with metrics, connected to the pace of the process.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    metrics::QueueMetrics,
    pace::Timer,
    queue::{Backoff, Queue, QueueKey, QueueObserver},
    runtime::Context,
};

impl Context {
    /// Creates a work queue with the metric label `name`. The queue is held ([`Queue::hold`]) until a loop opens it.
    pub fn queue<K: QueueKey>(&self, name: &str, backoff: Backoff) -> Queue<K> {
        let metrics = self.metrics.queue(name);
        let observer = Watching { metrics: metrics.clone(), timer: self.api.pace().timer() };
        let queue = Queue::new(self.clock.clone(), backoff, Some(Arc::new(observer)));
        // Workers open the queue when they start.
        queue.hold();
        let probed = queue.downgrade();
        self.metrics.before_scrape(move || {
            if let Some(queue) = probed.upgrade() {
                let (unfinished, longest) = queue.unfinished();
                metrics.running(unfinished, longest);
            }
        });
        queue
    }
}

/// The observer of a queue's metrics. It also sets the timer that wakes the idle process when the next delayed key is due.
struct Watching {
    metrics: QueueMetrics,
    timer: Timer,
}

impl QueueObserver for Watching {
    fn added(&self) {
        self.metrics.add();
    }
    fn taken(&self, waited: Duration) {
        self.metrics.get(waited);
    }
    fn done(&self, worked: Duration) {
        self.metrics.done(worked);
    }
    fn retried(&self) {
        self.metrics.retry();
    }
    fn waits_until(&self, due: Instant) {
        self.timer.set(due);
    }
}
