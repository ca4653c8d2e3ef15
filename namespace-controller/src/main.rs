//! The binary `namespace-controller`, which runs the loop of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&namespace_controller::DEFINITION)
}
