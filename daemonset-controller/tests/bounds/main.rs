//! The cost of a sync depends on the nodes and Pods on which it can act, and never on counts or sizes in a spec. It is measured in a
//! separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod decisions;
#[path = "../behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
