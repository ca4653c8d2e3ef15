//! Runs the Job controller and the TTL-after-finished controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&job_controller::DEFINITION)
}
