//! The controller in virtual time, against the in-process sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod admission;
mod hand_over;
mod history;
mod labels;
mod nodes;
mod scenes;
mod shadow;
mod trouble;
mod world;
