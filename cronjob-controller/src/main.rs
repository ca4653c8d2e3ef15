//! The binary `cronjob-controller`, which runs the loop of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&cronjob_controller::DEFINITION)
}
