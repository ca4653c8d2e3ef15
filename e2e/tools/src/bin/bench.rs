//! Measures throughput, processor time, memory and requests of the controllers.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::bench::main()
}
