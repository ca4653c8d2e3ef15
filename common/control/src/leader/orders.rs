//! What an election is told from outside, and what it asks of its process.

use tokio::sync::watch as channel;

/// What an election is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Lead if possible.
    Stand,
    /// Do not begin to lead; a leader goes on until it is told to release.
    Drain,
    /// Give the Lease up.
    Release,
}

/// Tells an election to end. Dropping it ends nothing.
#[derive(Clone, Debug)]
pub struct Stop(pub(super) channel::Sender<Order>);

impl Stop {
    /// No new leadership: a candidate withdraws, a leader keeps its Lease for what is still being finished.
    pub fn drain(&self) {
        self.0.send_if_modified(|order| {
            let rises = *order < Order::Drain;
            *order = (*order).max(Order::Drain);
            rises
        });
    }

    /// Ends leadership and gives the Lease up. The caller has made sure that nothing is left that could write.
    pub fn release(&self) {
        self.0.send_replace(Order::Release);
    }
}

/// Resolves when a standby of another version asks for the Lease that this process holds.
#[derive(Clone, Debug)]
pub struct Question(pub(super) channel::Receiver<bool>);

impl Question {
    /// Waits for it, forever if it never comes. Safe to cancel. The process then has to end in good order, by [`Stop`].
    pub async fn asked(mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // An election that is over is asked for nothing any more.
            std::future::pending::<()>().await;
        }
    }
}
