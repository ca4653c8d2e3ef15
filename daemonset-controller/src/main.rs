//! Runs the DaemonSet controller in a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&daemonset_controller::DEFINITION)
}
