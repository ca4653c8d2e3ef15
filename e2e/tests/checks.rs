//! Checks of the whole workspace in one program: manifests, pages, recorded traces, costs, rights and formats.
//!
//! `cargo test -p e2e --test checks` runs them all, `... -- guards::` those of one module.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod beside;
mod check;
mod deploy;
mod docs;
mod guards;
mod projections;
mod repository;
mod rights;
mod templates;
mod traces;
mod why;
mod wire;
mod world;
