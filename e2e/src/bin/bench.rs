//! Measures throughput, processor time, memory and requests of the controllers.

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::bench::main()
}
