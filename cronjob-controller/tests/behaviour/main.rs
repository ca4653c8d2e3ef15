//! Tests of the CronJob loop against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod history;
mod manual;
mod runs;
mod scenes;
mod shadow;
mod trouble;
mod world;
