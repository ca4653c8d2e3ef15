//! The controller in virtual time, against the in-process sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod claims;
mod hand_over;
mod labels;
mod namesakes;
mod revisions;
mod rights;
mod rollout;
mod scale;
mod shadow;
mod trouble;
mod world;
