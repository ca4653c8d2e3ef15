//! The binary `disruption-controller`, which runs the loop of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&disruption_controller::DEFINITION)
}
