//! The binary `gc-controller`.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&gc_controller::DEFINITION)
}
