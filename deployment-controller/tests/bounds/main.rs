//! The cost of a sync depends on the number of ReplicaSets, and never on the values in a spec or an annotation. It is measured
//! in a separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod decisions;
mod neighbours;
#[path = "../behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
