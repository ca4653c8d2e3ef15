//! One program that runs every suite, several at the same time, because suites mostly wait.
//!
//! Each suite runs in a separate process of this program, with [`PART_VARIABLE`] set. The output of a suite is printed in one
//! piece when it ends. The last lines are the seconds that each suite took. `--list`, filters and the other flags of `cargo test` work as usual. The name of a test is
//! `<suite>::<test>`, and a suite without a chosen test is not started.

use std::{
    cmp::Reverse,
    env,
    io::{self, Write as _},
    iter,
    process::{Command, ExitCode, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use common::clock::Clock;
use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};
use parking_lot::Mutex;

use super::runner::{self, Suite};
use crate::cluster::Kind;

/// The environment variable with the name of the part that this process runs.
const PART_VARIABLE: &str = "NONET_SUITE";
/// The number of concurrent parts on sandboxes. On other clusters they run one by one, because a real API server needs both cores
/// of a small machine, and the cluster of a kubeconfig is shared.
const PARTS_AT_ONCE: usize = 3;

/// A test without a cluster: its name, and the function that panics if it fails.
pub type PlainTest = (&'static str, fn() -> LocalBoxFuture<'static, ()>);

/// The part that one process runs.
pub enum Part {
    /// A suite with its cluster.
    Suite(Suite),
    /// Tests without a common cluster.
    Plain(&'static str, &'static [PlainTest]),
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Self::Suite(suite) => suite.name,
            Self::Plain(name, _) => name,
        }
    }

    /// The names of its tests in the list of the whole program.
    fn tests(&self) -> Vec<String> {
        let names: Vec<&str> = match self {
            Self::Suite(suite) => suite.tests.iter().map(runner::Test::name).collect(),
            Self::Plain(_, tests) => tests.iter().map(|(name, _)| *name).collect(),
        };
        names.into_iter().map(|name| format!("{}::{name}", self.name())).collect()
    }

    fn run(&self, arguments: Arguments) -> ExitCode {
        match self {
            Self::Suite(suite) => runner::run_with(suite, arguments, &format!("{}::", suite.name)),
            Self::Plain(_, tests) => plain(arguments, tests, &format!("{}::", self.name())),
        }
    }
}

/// Runs tests without a cluster as a separate program.
pub fn run_plain(tests: &[PlainTest]) -> ExitCode {
    plain(Arguments::from_args(), tests, "")
}

fn plain(arguments: Arguments, tests: &[PlainTest], prefix: &str) -> ExitCode {
    let trial = |(name, run): &PlainTest| {
        let run = *run;
        Trial::test(format!("{prefix}{name}"), move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run());
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit_code()
}

/// Runs the parts with tests that the command line asks for. The exit code is that of `cargo test`.
pub fn run_all(parts: Vec<Part>) -> ExitCode {
    let arguments = Arguments::from_args();
    if let Ok(name) = env::var(PART_VARIABLE) {
        return match parts.into_iter().find(|part| part.name() == name) {
            Some(part) => part.run(arguments),
            None => fail(&format!("{PART_VARIABLE}={name:?} names no suite")),
        };
    }
    if arguments.list {
        let tests = parts.iter().flat_map(Part::tests);
        return libtest_mimic::run(&arguments, tests.map(|name| Trial::test(name, || Ok(()))).collect()).exit_code();
    }
    let kind = match Kind::from_env() {
        Ok(kind) => kind,
        Err(error) => return fail(&error.to_string()),
    };
    let at_once = if kind == Kind::Sandbox { PARTS_AT_ONCE } else { 1 };
    let is_wanted = |part: &&Part| {
        // Tests without a cluster are the same everywhere.
        let has_run = matches!(part, Part::Plain(..)) && kind != Kind::Sandbox;
        !has_run && part.tests().iter().any(|test| is_chosen(&arguments, test))
    };
    let chosen: Vec<&'static str> = parts.iter().filter(is_wanted).map(Part::name).collect();
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&format!("the path of this program is unknown: {error}")),
    };
    let (clock, next) = (Clock::system(), AtomicUsize::new(0));
    let failed = Mutex::new(Vec::new());
    let times = Mutex::new(Vec::new());
    let work = || {
        while let Some(name) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut command = Command::new(&program);
            command.args(env::args_os().skip(1)).env(PART_VARIABLE, name).stdin(Stdio::null());
            let began = clock.monotonic_now();
            let output = command.output();
            times.lock().push((*name, clock.monotonic_now() - began));
            let passed = show(name, output);
            if !passed {
                failed.lock().push(*name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once.min(chosen.len()) {
            scope.spawn(work);
        }
    });
    print!("{}", time_table(times.into_inner()));
    let failed = failed.into_inner();
    if failed.is_empty() { ExitCode::SUCCESS } else { fail(&format!("failed: {}", failed.join(", "))) }
}

/// Prints the output of a part, and returns whether it passed.
fn show(name: &str, output: io::Result<Output>) -> bool {
    let mut out = io::stdout().lock();
    match output {
        Ok(output) => {
            let _ = writeln!(out, "\nsuite {name}");
            let _ = out.write_all(&output.stdout);
            let _ = out.write_all(&output.stderr);
            output.status.success()
        }
        Err(error) => {
            let _ = writeln!(out, "suite {name} cannot be started: {error}");
            false
        }
    }
}

/// One line for each suite with the seconds that it took, the slowest one first. Suites run at the same time, so the sum is more
/// than the time of the program.
fn time_table(mut times: Vec<(&'static str, Duration)>) -> String {
    times.sort_by_key(|(_, time)| Reverse(*time));
    let lines = times.iter().map(|(name, time)| format!("{:>7.1} s  {name}\n", time.as_secs_f64()));
    iter::once("\nseconds of each suite\n".to_owned()).chain(lines).collect()
}

fn fail(why: &str) -> ExitCode {
    eprintln!("suites: {why}");
    ExitCode::FAILURE
}

/// Whether the command line asks for a test with this name.
fn is_chosen(arguments: &Arguments, name: &str) -> bool {
    let matches = |filter: &String| if arguments.exact { name == filter } else { name.contains(filter.as_str()) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_times_begins_with_the_slowest_suite() {
        let table = time_table(vec![("job", Duration::from_millis(1_250)), ("failover", Duration::from_secs(61))]);
        assert_eq!(table, "\nseconds of each suite\n   61.0 s  failover\n    1.2 s  job\n");
    }

    #[test]
    fn filters_choose_tests_by_their_suite_and_name() {
        let chosen =
            |arguments: &[&str], name| is_chosen(&Arguments::from_iter(["suites"].iter().chain(arguments)), name);
        assert!(chosen(&[], "job::parallel"));
        assert!(chosen(&["job::"], "job::parallel"));
        assert!(!chosen(&["job::"], "cronjob_x::parallel"));
        assert!(!chosen(&["--exact", "job::par"], "job::parallel"));
        assert!(chosen(&["--exact", "job::parallel"], "job::parallel"));
        assert!(!chosen(&["--skip", "parallel"], "job::parallel"));
    }
}
