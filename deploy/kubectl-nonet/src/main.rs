//! The binary of the kubectl plug-in.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_nonet::command::main(std::env::args_os())
}
