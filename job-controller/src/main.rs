//! The job-controller binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&job_controller::DEFINITION)
}
