//! The binary `daemonset-controller`.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&daemonset_controller::DEFINITION)
}
