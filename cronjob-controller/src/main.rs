//! CronJobs, as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&cronjob_controller::DEFINITION)
}
