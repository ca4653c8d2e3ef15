//! The binary of the CronJob controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&cronjob_controller::DEFINITION)
}
