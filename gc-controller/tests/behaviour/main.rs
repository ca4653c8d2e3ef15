//! Behaviour of the garbage collector against the sandbox, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod custom;
mod deletion;
mod faults;
mod parked;
mod references;
mod scenes;
mod secrets;
mod world;
