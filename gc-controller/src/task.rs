//! Something that goes on beside the workers.

use std::future::Future;

use tokio::task::JoinHandle;

/// Goes on for as long as this lives.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn start(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
