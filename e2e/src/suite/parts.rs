//! One program that runs every suite, several at the same time, because suites mostly wait.
//!
//! Each suite runs in a separate process of this program, with [`SUITE_VARIABLE`] set, and its output is printed in one piece when
//! it ends. A suite that runs alone needs no process of its own. The last lines are the seconds that each suite took. `--list`,
//! filters and the other flags of `cargo test` work as usual. The name of a test is `<suite>::<scene>`, and a suite without a chosen
//! scene is not started.

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
use libtest_mimic::{Arguments, Trial};
use parking_lot::Mutex;

use super::{Kind, Suite, runner};
use crate::cluster::chosen_kind;

/// The environment variable with the name of the suite that this process runs.
const SUITE_VARIABLE: &str = "NONET_SUITE";
/// The number of concurrent suites on sandboxes. On other clusters they run one by one, because a real API server needs both cores
/// of a small machine, and the cluster of a kubeconfig is shared.
const SUITES_AT_ONCE: usize = 3;

fn names_of_scenes(suite: &Suite) -> impl Iterator<Item = String> {
    suite.scenes.iter().map(|scene| format!("{}::{}", suite.name, scene.name))
}

/// Runs the suites with scenes that the command line asks for. The exit code is that of `cargo test`.
pub fn run_all(suites: Vec<Suite>) -> ExitCode {
    let arguments = Arguments::from_args();
    if arguments.list {
        let tests = suites.iter().flat_map(names_of_scenes);
        return libtest_mimic::run(&arguments, tests.map(|name| Trial::test(name, || Ok(()))).collect()).exit_code();
    }
    let wanted = env::var(SUITE_VARIABLE).ok();
    let is_chosen = |suite: &&Suite| match &wanted {
        Some(name) => suite.name == name,
        None => names_of_scenes(suite).any(|test| is_chosen(&arguments, &test)),
    };
    let chosen: Vec<&Suite> = suites.iter().filter(is_chosen).collect();
    if let [only] = chosen[..] {
        return runner::run(only, arguments);
    }
    let kind = match chosen_kind() {
        Ok(kind) => kind,
        Err(error) => return fail(&error.to_string()),
    };
    let at_once = if kind == Kind::Sandbox { SUITES_AT_ONCE } else { 1 };
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&format!("the path of this program is unknown: {error}")),
    };
    let (clock, next) = (Clock::system(), AtomicUsize::new(0));
    let failed = Mutex::new(Vec::new());
    let times = Mutex::new(Vec::new());
    let work = || {
        while let Some(Suite { name, .. }) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut command = Command::new(&program);
            command.args(env::args_os().skip(1)).env(SUITE_VARIABLE, name).stdin(Stdio::null());
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
