//! Runs the node monitor, the taint eviction and the Pod garbage collector in one process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&node_lifecycle_controller::DEFINITION)
}
