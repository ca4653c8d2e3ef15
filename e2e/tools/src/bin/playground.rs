//! Runs a whole cluster on this machine, with an example application that rolls out.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::playground::main()
}
