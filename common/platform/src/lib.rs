//! What a process has of its machine: time, chance and the order of wake-ups, metrics, panics.

pub mod clock;
pub mod metrics;
pub mod pace;
pub mod panics;
pub mod version;
pub mod watched;

use nonet_objects::{meta, object};
