//! Endpoints of Services, as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&endpointslice_controller::DEFINITION)
}
