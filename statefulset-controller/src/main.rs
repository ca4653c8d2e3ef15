//! The binary `statefulset-controller`.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&statefulset_controller::DEFINITION)
}
