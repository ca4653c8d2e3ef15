//! A whole cluster on this machine, and an example application that rolls out while you watch.

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::playground::main()
}
