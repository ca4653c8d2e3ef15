//! Tests of the loop against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod counts;
mod failures;
mod kinds;
mod scenes;
mod world;
