//! The kubectl plug-in of Nonet.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_nonet::command::main(std::env::args_os())
}
