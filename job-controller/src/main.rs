//! Jobs, and their removal some time after they finished, as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&job_controller::DEFINITION)
}
