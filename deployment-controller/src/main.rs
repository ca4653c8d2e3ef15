//! The binary of the Deployment controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&deployment_controller::DEFINITION)
}
