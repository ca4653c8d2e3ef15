//! A controller's `main`: one call.
//!
//! [`main`] reads the command line, sets up logs, the server and the client, and runs the control loops behind leader election until
//! it is told to stop. [`assemble`] is the part of that which is no process: the same loops over any client and any clock.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | told to stop, or asked for the Lease by a new version; everything finished, Lease released |
//! | 1 | Lease lost, stopped by force, or something failed on the way |
//! | 2 | the command line or the kubeconfig cannot be used, or a panic |

mod assembly;
mod flags;
mod process;
mod values;

use std::process::ExitCode;

use crate::{
    clock::Clock,
    leader, logging, panics,
    runtime::LoopDefinition,
    settings::{
        FeatureGate, MIN_RESYNC_PERIOD, SECOND_WRITER_PERIOD, Tune, WATCH_BATCH_PERIOD, WATCH_LIST_CLIENT, WorkersFlag,
    },
    version,
};

pub use assembly::{Assembly, Leadership, Parts, Stopped, assemble};
pub use flags::{Options, Parsed, command, parse};
pub use process::register_metrics;

/// What a binary is.
#[derive(Clone, Copy)]
pub struct Definition {
    /// Its name, and that of its Lease: `replicaset-controller`.
    pub name: &'static str,
    /// Its own version: controllers are released one by one. `env!("CARGO_PKG_VERSION")` of its crate.
    pub version: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The loops it can run.
    pub loops: &'static [LoopDefinition],
    /// Flags for their workers.
    pub workers: &'static [WorkersFlag],
    /// Feature gates they know, beside those of every program.
    pub gates: &'static [FeatureGate],
    /// Values behind `--tune`.
    pub tunes: &'static [Tune],
    /// Values that upstream offers as a flag each: they are read by [`crate::settings::Settings::duration`] and its like.
    pub flags: &'static [Tune],
}

impl Definition {
    /// The gates its loops know, and those of the machinery.
    pub fn all_gates(&self) -> Vec<FeatureGate> {
        [self.gates, &[WATCH_LIST_CLIENT]].concat()
    }

    /// The values behind `--tune` that its loops know, and those of the machinery.
    pub fn all_tunes(&self) -> Vec<Tune> {
        [self.tunes, &[SECOND_WRITER_PERIOD, WATCH_BATCH_PERIOD]].concat()
    }

    /// The values with a flag each that its loops know, and those of the machinery.
    fn all_flags(&self) -> impl Iterator<Item = &Tune> {
        self.flags.iter().chain([&MIN_RESYNC_PERIOD])
    }
}

/// Runs a controller as this process, with the command line of the process.
pub fn main(definition: &Definition) -> ExitCode {
    main_with(definition, std::env::args())
}

/// Runs a controller as this process, with a command line that the caller has read.
///
/// The first argument is the name of the program, as in [`std::env::args`].
pub fn main_with(definition: &Definition, arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let clock = Clock::system();
    crate::map::seed(|| clock.random_u64());
    version::set_program(definition.version);
    let identity = || leader::identity(&process::hostname(), &clock);
    let options = match parse(definition, arguments, identity) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Print(text)) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(definition, &error),
    };
    let log = logging::init(options.logging.clone());
    panics::install();
    let pace = process::pace(&options);
    let runtime = match process::runtime(options.threads, &pace, &clock) {
        Ok(runtime) => runtime,
        Err(error) => return refuse(definition, &format!("cannot start: {error}")),
    };
    let ended = runtime.block_on(process::run(definition, *options, clock, pace, log));
    // Whatever still runs has nothing left to write: the gate is shut.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| refuse(definition, &error.to_string()))
}

/// One line on stderr and exit code 2.
fn refuse(definition: &Definition, error: &str) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}: {}", definition.name, error.replace('\n', " "));
    ExitCode::from(2)
}

fn print(text: &str) {
    use std::io::Write as _;
    // A reader that has gone away has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests;
