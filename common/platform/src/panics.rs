//! What becomes of a panic: one in a sync is that sync's failure, one anywhere else ends the process.
//!
//! A silently dead task is worse than a dead process, which is restarted.

use std::{cell::Cell, future::poll_fn};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The exit code of a process that panicked.
pub const EXIT_CODE: i32 = 2;

/// Marks a future whose panics the caller catches: the process survives them.
pub fn guard<F: Future>(future: F) -> impl Future<Output = F::Output> + Unpin {
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        let _mark = Mark(GUARDED.replace(true));
        future.as_mut().poll(context)
    })
}

/// Resets the mark when a poll ends, also by unwinding.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        GUARDED.set(self.0);
    }
}

/// Logs panics as one line, and ends the process for those that nobody catches.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("something that is no text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(panic = what, at = place, "Observed a panic");
        if !GUARDED.get() {
            std::process::exit(EXIT_CODE);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn the_mark_is_there_while_the_future_runs_and_gone_after_it_panicked() {
        let seen = guard(async { GUARDED.get() }).await;
        assert!(seen);
        let result = std::panic::AssertUnwindSafe(guard(async {
            assert!(!GUARDED.get(), "on purpose");
        }))
        .catch_unwind()
        .await;
        assert!(result.is_err());
        assert!(!GUARDED.get());
    }
}
