//! The garbage collector as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&gc_controller::DEFINITION)
}
