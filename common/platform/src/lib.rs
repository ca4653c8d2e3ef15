//! The process and its machine: time, randomness, the pace of wake-ups, metrics and panics.

pub mod clock;
pub mod metrics;
pub mod pace;
pub mod panics;
#[cfg(target_os = "linux")]
pub mod resting_pages;
pub mod version;
pub mod watched;

use nonet_objects::{meta, object};
