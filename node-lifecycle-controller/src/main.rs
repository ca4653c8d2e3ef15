//! The end of nodes and of the Pods on them, as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&node_lifecycle_controller::DEFINITION)
}
