//! Behaviour of all loops against the sandbox, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod eviction;
mod garbage;
mod shadow;
mod world;
