//! Tests of the ClusterRole aggregation loop against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod process;
mod scenes;
mod sources;
mod trouble;
mod world;
mod writes;
