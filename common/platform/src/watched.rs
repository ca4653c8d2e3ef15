//! A value that tasks wait on.
//!
//! Like tokio's `watch`, but whoever waits is woken in the order in which they began to wait, and not in a random one: a run
//! of the same seed is the same run.

use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::sync::Notify;

/// The sender of a [`Receiver`] is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender is gone")]
pub struct Gone;

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

/// Changes the value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Waits for changes of the value.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// A value, and who changes and who waits for it.
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
    /// A value that nobody waits for yet.
    pub fn new(value: T) -> Self {
        channel(value).0
    }

    /// Sets the value.
    pub fn send_replace(&self, value: T) {
        self.send_modify(|old| *old = value);
    }

    /// Changes the value, if `change` says so.
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

    /// Changes the value.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// The value.
    pub fn borrow(&self) -> MappedMutexGuard<'_, T> {
        self.0.borrow()
    }

    /// Somebody who waits for changes from now on.
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
    /// The value.
    pub fn borrow(&self) -> MappedMutexGuard<'_, T> {
        self.shared.borrow()
    }

    /// The value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> MappedMutexGuard<'_, T> {
        let state = self.shared.state.lock();
        self.seen = state.version;
        MutexGuard::map(state, |state| &mut state.value)
    }

    /// Waits for a value that has not been seen. Safe to cancel.
    pub async fn changed(&mut self) -> Result<(), Gone> {
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
                    return Err(Gone);
                }
            }
            notified.await;
        }
    }

    /// Waits until the value is as wanted. Safe to cancel.
    pub async fn wait_for(&mut self, wanted: impl Fn(&T) -> bool) -> Result<(), Gone> {
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
    async fn whoever_waited_first_is_woken_first() {
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
    async fn a_change_before_the_wait_counts_and_a_seen_one_does_not() {
        let (sender, mut receiver) = channel(0);
        sender.send_modify(|value| *value += 1);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 1);
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Gone));
        assert_eq!(receiver.wait_for(|value| *value == 1).await, Ok(()));
    }
}
