//! Tests of the loops against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod claims;
mod ephemeral;
mod failures;
mod live_look;
mod scenes;
mod volumes;
mod world;
