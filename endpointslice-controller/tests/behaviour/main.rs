//! Tests of the loops with the API server of the sandbox, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod endpoints;
mod hints;
mod loops;
mod mirrored;
mod neighbours;
mod requests;
mod scenes;
mod shadow;
mod slices;
mod trouble;
mod world;
