//! e2e
pub mod bench;
pub mod cluster;
mod command_line;
pub mod controllers;
pub mod loops;
pub mod nodes;
pub mod playground;
pub mod process;
pub mod sandbox;
pub mod scrape;
pub mod simulation;
pub mod suite;
