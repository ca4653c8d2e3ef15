//! The simulation: every crash, every stale view, every seed.

use std::process::ExitCode;

fn main() -> ExitCode {
    simulation::main()
}
