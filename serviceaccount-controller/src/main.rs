//! The binary `serviceaccount-controller`, which runs the loops of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&serviceaccount_controller::DEFINITION)
}
