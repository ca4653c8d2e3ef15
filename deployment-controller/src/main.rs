//! The controller of Deployments, as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&deployment_controller::DEFINITION)
}
