//! The behaviour of the Job loop and the TTL loop with an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod admission;
mod bad_input;
mod crash;
mod finish;
mod gangs;
mod hand_over;
mod loops;
mod orphans;
mod plain;
mod scenes;
mod shadow;
mod suspend;
mod ttl;
mod versions;
mod world;
