//! The binary `resourcequota-controller`, which runs the loop of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&resourcequota_controller::DEFINITION)
}
