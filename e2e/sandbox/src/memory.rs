//! Limits on the memory that a part of a test takes.

use std::{alloc::GlobalAlloc, panic, sync::Once};

use cap::Cap;

/// A limit on the memory of the process, as long as it lives. An allocation beyond it ends the process.
#[must_use]
pub struct Limit<A: 'static>(&'static Cap<A>);

impl<A: GlobalAlloc + Send + Sync> Limit<A> {
    /// Allows that many bytes more than are allocated now.
    pub fn of(allocator: &'static Cap<A>, bytes: usize) -> Self {
        static TELLS: Once = Once::new();
        // The message of a panic takes memory, too: within the limit, the process would wait for itself for ever.
        TELLS.call_once(|| {
            let tell = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                lift(allocator);
                tell(panic);
            }));
        });
        // Refused only where more is allocated by now, which the next allocation would show.
        let _ = allocator.set_limit(allocator.allocated().saturating_add(bytes));
        Self(allocator)
    }
}

impl<A> Drop for Limit<A> {
    fn drop(&mut self) {
        lift(self.0);
    }
}

fn lift<A>(allocator: &Cap<A>) {
    // Refused only where more is allocated than there can be.
    let _ = allocator.set_limit(usize::MAX);
}

/// Runs `work` with at most that many bytes more than are allocated now.
pub fn limited<A, T>(allocator: &'static Cap<A>, bytes: usize, work: impl FnOnce() -> T) -> T
where
    A: GlobalAlloc + Send + Sync,
{
    let _limit = Limit::of(allocator, bytes);
    work()
}
