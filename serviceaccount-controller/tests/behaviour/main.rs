//! Tests of the loops against an API server in memory (the sandbox), in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod accounts;
mod bundle;
mod config_maps;
mod scenes;
mod trust_bundles;
mod world;
