//! Nodes and Pods with invalid or very large content neither make a decision fail nor make it expensive. The tests run in
//! a separate process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

mod hostile;
mod memory;
#[path = "../behaviour/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::alloc::System;

use cap::Cap;
use testkit::bounds::Meter;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
static METER: Meter = Meter::new(&ALLOCATOR);
