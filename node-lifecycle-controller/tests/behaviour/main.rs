//! Tests of all loops against the sandbox (an API server in memory), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod blindness;
mod eviction;
mod garbage;
mod loops;
mod monitor;
mod refusals;
mod scenes;
mod shadow;
mod world;
mod zones;
