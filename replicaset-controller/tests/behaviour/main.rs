//! Behaviour of both loops against the sandbox in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod admission;
mod bad_input;
mod claim;
mod failure;
mod hand_over;
mod loops;
mod options;
mod scale;
mod scenes;
mod shadow;
mod stale;
mod status;
mod versions;
mod world;
