//! The memory of decisions about Services with every list at its limit and beyond. It is measured in a separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod costs;
mod hostile;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
