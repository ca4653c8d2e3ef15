//! The process around the controllers: flags, logging, the HTTP server for metrics and diagnostics, the watch for second
//! writers, and the life cycle from the start to the shutdown.

/// Allocator of statically linked binaries, because an allocation takes three times as long with musl's own allocator.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

pub mod app;
pub mod built_in_flags;
pub mod logging;
mod names;
pub mod second_writer;
pub mod server;

use nonet_client::{api, client, events, gate, history, succession, write_sampler};
use nonet_control::{io, leader, runtime, settings};
use nonet_objects::{duration, map, meta, object, siphash};
use nonet_platform::{clock, metrics, pace, panics, version, watched};
