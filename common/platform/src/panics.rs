//! Handling of panics: a panic in a sync fails that sync; any other panic ends the process.
//!
//! A dead task in a running process is worse than a dead process, because a process is restarted.

use std::{cell::Cell, future::poll_fn};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Exit code of a process that ends because of a panic. Go programs use the same code.
pub const PANIC_EXIT_CODE: i32 = 2;

/// Marks a future from which the caller catches panics, so that the process survives them.
pub fn mark_panics_caught<F: Future>(future: F) -> impl Future<Output = F::Output> + Unpin {
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        let _mark = Mark(GUARDED.replace(true));
        future.as_mut().poll(context)
    })
}

/// Restores the previous value of `GUARDED` at the end of a poll, also when the poll panics.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        GUARDED.set(self.0);
    }
}

/// Installs a panic hook that logs a panic as one line, and ends the process unless the panic happened inside
/// [`mark_panics_caught`].
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("the payload is not a string");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(panic = what, at = place, "Observed a panic");
        if !GUARDED.get() {
            std::process::exit(PANIC_EXIT_CODE);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn the_mark_is_set_while_the_future_runs_and_cleared_after_a_panic() {
        let seen = mark_panics_caught(async { GUARDED.get() }).await;
        assert!(seen);
        let result = std::panic::AssertUnwindSafe(mark_panics_caught(async {
            assert!(!GUARDED.get(), "on purpose");
        }))
        .catch_unwind()
        .await;
        assert!(result.is_err());
        assert!(!GUARDED.get());
    }
}
