//! This crate has only dependencies. Every build for tests uses their features (see `Cargo.toml`).
