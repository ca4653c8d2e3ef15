//! The memory of decisions and caches. It is measured in a separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod hostile;
mod memory;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
