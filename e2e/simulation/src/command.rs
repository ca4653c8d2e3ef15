//! The program: reads its command line, makes runs, and prints their results.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use common::{
    clock::{Clock, Instant},
    duration,
};
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use serde_json::Value;

use super::{
    explore::{self, Baselines, Failure, Group, Listener, Report, Sum, Task},
    flags::Flags,
    json::text,
    judge::{ORACLES, Oracle, judge},
    neighbour::NEIGHBOURS,
    outcome::{Outcome, Violation},
    perturbation::{FORMS, Perturbation},
    plan,
    regressions::{self, Known},
    scenarios,
};

const NAME: &str = "simulate";

/// Runs the simulation as this process.
pub fn main() -> ExitCode {
    let flags: Flags = match command_line::parse(NAME) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    match command(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader has closed the pipe and needs no message.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            command_line::complain(NAME, &error);
            ExitCode::from(2)
        }
    }
}

fn command(flags: &Flags) -> io::Result<bool> {
    if flags.list {
        return list().map(|()| true);
    }
    if explore::scenarios(flags.scenario.as_deref()).is_empty() {
        let name = flags.scenario.as_deref().unwrap_or_default();
        return Err(io::Error::other(format!("there is no scenario {name:?}; see --list")));
    }
    if flags.all {
        return all(flags);
    }
    if let Some(budget) = flags.budget {
        return wander(flags, budget);
    }
    single(flags)
}

fn threads(flags: &Flags) -> usize {
    flags.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn list() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for suite in scenarios::SUITES {
        writeln!(out, "{}", suite.name)?;
        for scenario in scenarios::of(suite).map_err(io::Error::other)? {
            writeln!(out, "  {:<34} {}", format!("{}/{}", suite.name, scenario.name), scenario.about)?;
        }
        let interferences: Vec<_> = suite.interferences.iter().map(|i| i.name).collect();
        writeln!(out, "  interferences: {}", interferences.join(", "))?;
        for invariant in suite.invariants.iter().copied().flatten() {
            writeln!(out, "  at every write: {:<34} ({})", invariant.name, invariant.claims)?;
        }
        for promise in suite.promises.iter().copied().flatten() {
            writeln!(out, "  at the end:     {:<34} ({})", promise.name, promise.claims)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "oracles of every run")?;
    for Oracle { name, claims, about } in ORACLES {
        writeln!(out, "  {name:<23} {about}{}", in_parentheses(claims))?;
    }
    writeln!(
        out,
        "\nperturbations (K is the number of a write of the controllers, from 1; commas separate several perturbations)"
    )?;
    for (form, what) in FORMS {
        writeln!(out, "  {form:<26} {what}")?;
    }
    writeln!(out, "\nhostile neighbours (possible in every scenario, planned in the suite neighbour)")?;
    for neighbour in NEIGHBOURS {
        writeln!(out, "  {:<22} {}", neighbour.name, neighbour.about)?;
    }
    Ok(())
}

/// Makes one run of each chosen scenario, and the unperturbed run with which it is compared.
fn single(flags: &Flags) -> io::Result<bool> {
    let text = flags.perturb.as_deref().unwrap_or("none");
    let perturbation: Perturbation = text.parse().map_err(io::Error::other)?;
    let mut well = true;
    for (suite, scenario) in explore::scenarios(flags.scenario.as_deref()) {
        let unperturbed = Task::unperturbed(suite, &scenario.name, flags.fixed_seed());
        let baseline = explore::one(&unperturbed, None)?;
        let task = Task { perturbation: perturbation.clone(), ..unperturbed };
        let outcome = explore::told(&task, flags.without)?;
        let violation = judge(&perturbation, &baseline, &outcome);
        let (writes, hash) = (outcome.points.len(), outcome.hash);
        let mut out = io::stdout().lock();
        let time = Duration::from_secs(outcome.seconds);
        writeln!(out, "{}/{} {perturbation} seed {}", suite.name, scenario.name, flags.fixed_seed())?;
        writeln!(
            out,
            "  {writes} writes of the controllers ({} unperturbed), {} writes in total, {} requests, {} of virtual time, hash {hash:016x}",
            baseline.points.len(),
            outcome.writes,
            outcome.requests,
            common::duration::format(time),
        )?;
        writeln!(out, "  waiting times of the users: {:.1?} ({:.1?} unperturbed)", outcome.waits, baseline.waits)?;
        if outcome.beside > 0 {
            writeln!(out, "  {} further writes of the controllers for the objects of the neighbour", outcome.beside)?;
        }
        if flags.trace && violation.is_none() {
            print_writes(&mut out, &outcome)?;
        }
        if let Some(violation) = violation {
            well = false;
            print_failure(&mut out, &Failure { task, violation, outcome })?;
        }
    }
    Ok(well)
}

fn print_writes(out: &mut impl io::Write, outcome: &Outcome) -> io::Result<()> {
    for line in &outcome.story.writes {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// The claims of an oracle as a suffix to its name; empty if the oracle has no claims.
fn in_parentheses(claims: &str) -> String {
    if claims.is_empty() { String::new() } else { format!(" ({claims})") }
}

fn print_failure(out: &mut impl io::Write, failure: &Failure) -> io::Result<()> {
    let Failure { task, violation: Violation { oracle, claims, what }, outcome } = failure;
    writeln!(out, "\nVIOLATED {oracle}{}: {what}", in_parentheses(claims))?;
    writeln!(out, "  writes until the violation:")?;
    print_writes(out, outcome)?;
    let mut sent: BTreeMap<String, u32> = BTreeMap::new();
    for point in &outcome.points {
        *sent.entry(format!("{} {} {}", point.program, point.method, point.resource)).or_default() += 1;
    }
    writeln!(out, "  numbers of sent writes, with the refused ones: {sent:?}")?;
    writeln!(out, "  last decisions:")?;
    for line in decisions(&outcome.story.explain) {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "  reproduce: {}", reproduce(task))
}

/// The number of decisions of each loop in a report, newest first.
const DECISIONS: usize = 12;

/// The last decisions of the loops of each program with their reasons, and the failing keys.
fn decisions(explain: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for program in list(explain) {
        for one in list(&program["explain"]) {
            lines.push(format!("{}: {}", text(&program, "/program"), text(&one, "/name")));
            for failing in list(&one["failing"]) {
                lines.push(format!("  failing: {failing}"));
            }
            for decided in list(&one["recent"]).iter().take(DECISIONS) {
                let (at, key, why) = (text(decided, "/at"), text(decided, "/key"), text(decided, "/situation"));
                lines.push(format!("  {at} {key}: {why}; {} {}", decided["actions"], decided["waiting"]));
            }
        }
    }
    lines
}

/// The command that repeats a run.
pub fn reproduce(task: &Task) -> String {
    let Task { suite, scenario, perturbation, seed } = task;
    let (binary, suite) = ("cargo run -p simulation --", suite.name);
    format!("{binary} --scenario {suite}/{scenario} --perturb {perturbation} --seed {seed}")
}

/// Reports the results of runs while other runs are made.
struct Teller {
    /// The number of failures that are reported with all details.
    full: usize,
    told: Mutex<usize>,
    sums: bool,
    known: Vec<Known>,
}

impl Teller {
    fn new(flags: &Flags, sums: bool, known: Vec<Known>) -> Self {
        Self { full: flags.failures, told: Mutex::new(0), sums, known }
    }
}

// An error means that the reader has closed the pipe, and needs no message.
impl Listener for Teller {
    fn failed(&self, failure: &Failure) {
        if let Some(known) = self.known.iter().find(|known| known.explains(&failure.task, failure.violation.oracle)) {
            let (found, listed) = (reproduce(&failure.task), reproduce(&known.task));
            let _ = writeln!(io::stdout().lock(), "KNOWN {}: {found}\n  listed as: {listed}", known.oracle);
            return;
        }
        let mut told = self.told.lock();
        *told += 1;
        let mut out = io::stdout().lock();
        let _ = if *told <= self.full {
            print_failure(&mut out, failure)
        } else {
            let Violation { oracle, what, .. } = &failure.violation;
            let what = what.lines().next().unwrap_or_default();
            writeln!(out, "VIOLATED {oracle}: {what}\n  reproduce: {}", reproduce(&failure.task))
        };
    }

    fn finished(&self, group: &Group, sum: Sum) {
        if self.sums {
            let _ = print_sum(&mut io::stdout().lock(), group, sum);
        }
    }
}

fn all(flags: &Flags) -> io::Result<bool> {
    let (threads, report) = (threads(flags), Mutex::new(Report::default()));
    let clock = Clock::system();
    let began = clock.monotonic_now();
    let chosen = explore::scenarios(flags.scenario.as_deref());
    let teller = Teller::new(flags, true, Vec::new());
    print_head(&mut io::stdout().lock())?;
    let baselines = Baselines::new();
    explore::unperturbed(&chosen, flags.fixed_seed(), &baselines, threads, &report, &teller)?;
    let mut tasks = Vec::new();
    for (suite, scenario) in &chosen {
        let unperturbed = Task::unperturbed(suite, &scenario.name, flags.fixed_seed());
        let baseline = baselines.of(&unperturbed)?;
        let mut perturbations = plan::all(suite, &baseline);
        perturbations.retain(|p| flags.perturb.as_ref().is_none_or(|start| p.to_string().starts_with(start)));
        // Sorted by family, in the order of the report.
        perturbations.sort_by_key(Perturbation::family);
        tasks.extend(perturbations.into_iter().map(|perturbation| Task { perturbation, ..unperturbed.clone() }));
    }
    explore::make(&tasks, &baselines, flags.without, threads, &report, &teller)?;
    print_total(&report.into_inner(), &[], &clock, began)
}

/// The number of scenarios in a round of random runs ...
const ROUND: usize = 16;
/// ... and the number of runs of each scenario.
const RUNS: usize = 4;

fn wander(flags: &Flags, budget: Duration) -> io::Result<bool> {
    let (threads, report) = (threads(flags), Mutex::new(Report::default()));
    let clock = Clock::system();
    let began = clock.monotonic_now();
    let in_time = || clock.monotonic_now() - began < budget;
    let chosen = explore::scenarios(flags.scenario.as_deref());
    let known = regressions::known().map_err(io::Error::other)?;
    let teller = Teller::new(flags, false, known.clone());
    // Short enough to type.
    let mut seed = flags.seed.unwrap_or_else(|| clock.random_u64() % 1_000_000_000);
    let budget_text = duration::format(budget);
    writeln!(io::stdout(), "random runs from seed {seed}; to repeat them: --budget {budget_text} --seed {seed}")?;
    // Each round has its own seed and its own unperturbed runs for comparison.
    for round in chosen.chunks(ROUND).cycle() {
        if !in_time() {
            break;
        }
        let baselines = Baselines::new();
        explore::unperturbed(round, seed, &baselines, threads, &report, &teller)?;
        let mut luck = StdRng::seed_from_u64(seed);
        let mut tasks = Vec::new();
        for _ in 0..RUNS {
            for (suite, scenario) in round {
                let unperturbed = Task::unperturbed(suite, &scenario.name, seed);
                let baseline = baselines.of(&unperturbed)?;
                let perturbation = plan::random(suite, &baseline, |bound| luck.random_range(0..bound));
                tasks.push(Task { perturbation, ..unperturbed });
            }
        }
        for some in tasks.chunks(ROUND) {
            if in_time() {
                explore::make(some, &baselines, flags.without, threads, &report, &teller)?;
            }
        }
        seed = seed.wrapping_add(1);
    }
    let report = report.into_inner();
    let mut out = io::stdout().lock();
    print_head(&mut out)?;
    for (group, sum) in &report.runs {
        print_sum(&mut out, group, *sum)?;
    }
    drop(out);
    print_total(&report, &known, &clock, began)
}

fn print_head(out: &mut impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<36} {:<10} {:>7} {:>9} {:>9} {:>10}",
        "scenario", "faults", "runs", "writes", "hours", "violations"
    )
}

fn print_sum(out: &mut impl io::Write, (scenario, family): &Group, sum: Sum) -> io::Result<()> {
    let Sum { runs, writes, violations, .. } = sum;
    writeln!(out, "{scenario:<36} {family:<10} {runs:>7} {writes:>9} {:>9.1} {violations:>10}", hours(sum))
}

fn hours(sum: Sum) -> f64 {
    sum.seconds as f64 / 3600.0
}

/// Prints the sums over all runs. Returns whether there are only known violations.
fn print_total(report: &Report, known: &[Known], clock: &Clock, began: Instant) -> io::Result<bool> {
    let (total, took) = (report.total(), clock.monotonic_now() - began);
    let new = report.new_failures(known).count() as u64;
    let of_known = match total.violations - new {
        0 => String::new(),
        known => format!(", and {known} known violations"),
    };
    let rate = hours(total) / (took.as_secs_f64() / 60.0).max(f64::EPSILON);
    writeln!(
        io::stdout().lock(),
        "\n{} runs, {} writes, {:.0} hours of virtual time in {:.0} s ({rate:.0} hours per minute), violations = {new}{of_known}",
        total.runs,
        total.writes,
        hours(total),
        took.as_secs_f64(),
    )?;
    Ok(new == 0)
}
