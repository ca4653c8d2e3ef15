//! A channel for one value. Tasks can await changes of the value.
//!
//! Works like tokio's `watch`, but wakes waiting tasks in the order in which they began to wait and not in a random order, so
//! that equal seeds give equal runs.

use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Error of a wait for a change that cannot happen, because the [`Sender`] was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped")]
pub struct SenderDropped;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    version: u64,
    gone: bool,
}

/// The side of a channel that changes the value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The side of a channel that waits for changes of the value.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// Creates a channel with an initial value, which counts as seen by the receiver.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { value, version: 0, gone: false });
    let shared = Arc::new(Shared { state, changed: Notify::new() });
    (Sender(Arc::clone(&shared)), Receiver { shared, seen: 0 })
}

impl<T> Shared<T> {
    fn borrow(&self) -> MappedMutexGuard<'_, T> {
        MutexGuard::map(self.state.lock(), |state| &mut state.value)
    }
}

impl<T> Sender<T> {
    /// Creates the sender of a channel that has no receivers yet.
    pub fn new(value: T) -> Self {
        channel(value).0
    }

    /// Sets the value and wakes all receivers, even if the value is equal to the old one.
    pub fn send_replace(&self, value: T) {
        self.send_modify(|old| *old = value);
    }

    /// Lets `change` modify the value, and wakes the receivers if `change` returns true. Returns the result of `change`.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = self.0.state.lock();
        let modified = change(&mut state.value);
        state.version += u64::from(modified);
        drop(state);
        if modified {
            self.0.changed.notify_waiters();
        }
        modified
    }

    /// Lets `change` modify the value, and wakes the receivers.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Locks and returns the current value.
    pub fn borrow(&self) -> MappedMutexGuard<'_, T> {
        self.0.borrow()
    }

    /// Creates a receiver that waits for changes after this call.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.state.lock().version;
        Receiver { shared: Arc::clone(&self.0), seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().gone = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    /// Locks and returns the current value without marking it as seen.
    pub fn borrow(&self) -> MappedMutexGuard<'_, T> {
        self.shared.borrow()
    }

    /// Locks and returns the current value, and marks it as seen.
    pub fn borrow_and_update(&mut self) -> MappedMutexGuard<'_, T> {
        let state = self.shared.state.lock();
        self.seen = state.version;
        MutexGuard::map(state, |state| &mut state.value)
    }

    /// Waits for a change that was not seen yet, and marks the new value as seen. Safe to cancel.
    pub async fn changed(&mut self) -> Result<(), SenderDropped> {
        loop {
            let shared = Arc::clone(&self.shared);
            let mut notified = std::pin::pin!(shared.changed.notified());
            notified.as_mut().enable();
            {
                let state = self.shared.state.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.gone {
                    return Err(SenderDropped);
                }
            }
            notified.await;
        }
    }

    /// Waits until the value satisfies `wanted`. Safe to cancel.
    pub async fn wait_for(&mut self, wanted: impl Fn(&T) -> bool) -> Result<(), SenderDropped> {
        while !wanted(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_are_woken_in_the_order_in_which_they_began_to_wait() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for who in 0..20 {
            let (mut receiver, woken) = (receiver.clone(), Arc::clone(&woken));
            tasks.push(tokio::spawn(async move {
                receiver.wait_for(|value| *value == 7).await.unwrap();
                woken.lock().push(who);
            }));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        sender.send_replace(7);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_before_the_wait_counts_and_a_seen_change_does_not() {
        let (sender, mut receiver) = channel(0);
        sender.send_modify(|value| *value += 1);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 1);
        drop(sender);
        assert_eq!(receiver.changed().await, Err(SenderDropped));
        assert_eq!(receiver.wait_for(|value| *value == 1).await, Ok(()));
    }
}
