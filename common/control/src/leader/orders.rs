//! Commands to an election, and requests from the election to its process.

use tokio::sync::watch as channel;

/// The commands to an election. A command may only be replaced by a command further down in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ElectionCommand {
    /// Acquire the Lease and lead.
    Lead,
    /// Do not start to lead. A leader keeps the Lease until `Release`.
    Drain,
    /// Release the Lease.
    Release,
}

/// A handle that ends an election. Dropping the handle does not end the election.
#[derive(Clone, Debug)]
pub struct ElectionStopHandle(pub(super) channel::Sender<ElectionCommand>);

impl ElectionStopHandle {
    /// Prevents new leadership: a candidate withdraws, and a leader keeps its Lease so that work in progress can finish.
    pub fn prevent_new_leadership(&self) {
        self.0.send_if_modified(|order| {
            let rises = *order < ElectionCommand::Drain;
            *order = (*order).max(ElectionCommand::Drain);
            rises
        });
    }

    /// Ends leadership and releases the Lease. The caller ensures that nothing in this process can still write.
    pub fn release_lease(&self) {
        self.0.send_replace(ElectionCommand::Release);
    }
}

/// A handle that reports when a standby of another version asks for the Lease of this process.
#[derive(Clone, Debug)]
pub struct StandbyRequestReceiver(pub(super) channel::Receiver<bool>);

impl StandbyRequestReceiver {
    /// Waits until a standby asks for the Lease. Cancel safe. The caller then ends the process in good order with
    /// [`ElectionStopHandle`].
    pub async fn wait_for_request(mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // No standby can ask an election that has ended.
            std::future::pending::<()>().await;
        }
    }
}
