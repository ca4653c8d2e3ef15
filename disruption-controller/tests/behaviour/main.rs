//! Tests of the loop against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod budgets;
mod failures;
mod owners;
mod scenes;
mod stale_pods;
mod world;
