//! Starts the process that runs the loops of the library `endpointslice_controller`.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&endpointslice_controller::DEFINITION)
}
