//! Tests of the namespace loop against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod deletion;
mod discovery;
mod faults;
mod scenes;
mod timing;
mod world;
