//! The endpointslice-controller binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&endpointslice_controller::DEFINITION)
}
