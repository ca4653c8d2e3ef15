//! The `main` function of every controller.
//!
//! [`main`] reads the command line, sets up logging, the HTTP server and the API client, and runs the control loops behind
//! leader election until a signal stops the process. [`start_loops`] starts the same loops, for tests too, with any client and
//! any clock.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | stopped by a signal, or to hand the Lease to a new version; all work is finished and the Lease is released |
//! | 1 | the Lease was lost or could not be released, the shutdown timed out, or a second signal ended the shutdown |
//! | 2 | the process could not start (command line, kubeconfig, certificate, port), or it panicked |

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
        FeatureGate, MIN_RESYNC_PERIOD, SECOND_WRITER_SEARCH_PERIOD, Tunable, WATCH_BATCH_PERIOD, WATCH_LIST_CLIENT,
        WorkersFlag,
    },
    version,
};

pub use assembly::{LeadershipMode, RunningLoops, ShutdownResult, StartParameters, start_loops};
pub use flags::{ParsedCommandLine, ProgramOptions, clap_command, parse_command_line};
pub use process::register_metrics;

/// The names, loops and flags of a controller binary.
#[derive(Clone, Copy)]
pub struct ProgramDefinition {
    /// Name of the binary and of its Lease, such as `replicaset-controller`.
    pub name: &'static str,
    /// Version of the controller's crate, `env!("CARGO_PKG_VERSION")`. Each controller is released on its own.
    pub version: &'static str,
    /// One sentence for the top of `--help`.
    pub about: &'static str,
    /// Control loops that the binary can run; `--controllers` chooses among them.
    pub loops: &'static [LoopDefinition],
    /// Flags that set the number of workers of a loop, such as `--concurrent-job-syncs`.
    pub workers_flags: &'static [WorkersFlag],
    /// Feature gates of the loops, in addition to the gates that every program has.
    pub feature_gates: &'static [FeatureGate],
    /// Settings of `--tune`, in addition to the settings that every program has.
    pub tunables: &'static [Tunable],
    /// Flags with one value each, such as `--node-monitor-period`. A loop reads the value with
    /// [`crate::settings::OperatorSettings::tuned_duration`] or a similar method.
    pub single_value_flags: &'static [Tunable],
}

impl ProgramDefinition {
    /// Returns the feature gates of the loops and of the common code.
    pub fn all_feature_gates(&self) -> Vec<FeatureGate> {
        [self.feature_gates, &[WATCH_LIST_CLIENT]].concat()
    }

    /// Returns the settings of `--tune` for the loops and for the common code.
    pub fn all_tunables(&self) -> Vec<Tunable> {
        [self.tunables, &[SECOND_WRITER_SEARCH_PERIOD, WATCH_BATCH_PERIOD]].concat()
    }

    fn all_value_flags(&self) -> impl Iterator<Item = &Tunable> {
        self.single_value_flags.iter().chain([&MIN_RESYNC_PERIOD])
    }
}

/// Runs the controller that `definition` describes, with the command line of the process, and returns the exit code.
pub fn main(definition: &ProgramDefinition) -> ExitCode {
    main_with_arguments(definition, std::env::args())
}

/// Runs a controller like [`main`], with arguments from the caller.
///
/// The first argument is the name of the program, as in [`std::env::args`].
pub fn main_with_arguments(definition: &ProgramDefinition, arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let clock = Clock::system();
    crate::map::set_hash_seed(|| clock.random_u64());
    version::set_program_version(definition.version);
    let identity = || leader::new_holder_identity(&process::hostname(), &clock);
    let options = match parse_command_line(definition, arguments, identity) {
        Ok(ParsedCommandLine::Run(options)) => options,
        Ok(ParsedCommandLine::Print(text)) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Err(error) => return exit_with_error(definition, &error),
    };
    let log = logging::install_log(options.log_settings.clone());
    panics::install_panic_hook();
    let pace = process::pace_from_options(&options);
    let runtime = match process::build_runtime(options.worker_threads, &pace, &clock) {
        Ok(runtime) => runtime,
        Err(error) => return exit_with_error(definition, &format!("cannot start: {error}")),
    };
    let ended = runtime.block_on(process::run(definition, *options, clock, pace, log));
    // Tasks that still run cannot write to the API server, because the gate is closed.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| exit_with_error(definition, &error.to_string()))
}

/// Writes an error to stderr as one line and returns exit code 2.
fn exit_with_error(definition: &ProgramDefinition, error: &str) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}: {}", definition.name, error.replace('\n', " "));
    ExitCode::from(2)
}

fn print(text: &str) {
    use std::io::Write as _;
    // An error is ignored, because the reader of stdout may close the pipe early.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests;
