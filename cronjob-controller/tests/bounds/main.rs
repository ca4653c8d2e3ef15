//! The memory of decisions, measured in a separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod decisions;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
