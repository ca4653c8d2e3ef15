//! Costs that must not grow, counted and not timed: allocations of an event, bytes of a cached object, requests for a piece of
//! work.
//!
//! `guards.txt` has the numbers. A process of its own, because its allocator counts.

mod caches;
mod events;
mod objects;
mod requests;
mod statuses;

use sandbox::guards::Guards;

/// Fails with the costs that are above the table.
fn hold(guards: Guards) {
    let failures = guards.failures().unwrap();
    assert!(failures.is_empty(), "costs have grown, or are not in e2e/guards.txt yet:\n{}", failures.join("\n"));
}
