//! The binary `clusterrole-controller`, which runs the loop of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&clusterrole_controller::DEFINITION)
}
