//! The binary `volume-controller`, which runs the loops of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&volume_controller::DEFINITION)
}
