//! What the controllers cost: throughput, processor time, memory and requests.

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::bench::main()
}
