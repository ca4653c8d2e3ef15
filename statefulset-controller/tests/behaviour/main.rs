//! Behaviour of the StatefulSet controller against the sandbox, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod claims;
mod hand_over;
mod labels;
mod namesakes;
mod revisions;
mod rights;
mod rollout;
mod scenes;
mod shadow;
mod trouble;
mod world;
