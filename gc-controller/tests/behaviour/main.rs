//! Behaviour of the garbage collector against the sandbox, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod background;
mod custom;
mod faults;
mod foreground;
mod orphan;
mod parked;
mod references;
mod standby;
mod world;
