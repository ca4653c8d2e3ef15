//! Lists the tests whose last run was skipped, and the tools that they lacked.

use std::process::ExitCode;

fn main() -> ExitCode {
    let skipped = match e2e::skips::all() {
        Ok(skipped) => skipped,
        Err(error) => {
            eprintln!("skipped: the records cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    if skipped.is_empty() {
        println!("no test was skipped");
    }
    for (lacking, tests) in skipped {
        println!("skipped, because {lacking}:");
        for test in tests {
            println!("  {test}");
        }
    }
    ExitCode::SUCCESS
}
