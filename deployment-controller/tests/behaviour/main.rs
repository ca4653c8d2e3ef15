//! Behaviour against the sandbox in virtual time, with a ReplicaSet controller and nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod adopt;
mod bad_input;
mod hand_over;
mod recreate;
mod restore;
mod rollback;
mod rollout;
mod scenes;
mod second_writer;
mod shadow;
mod trouble;
mod world;
