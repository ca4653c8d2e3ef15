//! Nothing but dependencies: their features are those of every build for tests (see `Cargo.toml`).
