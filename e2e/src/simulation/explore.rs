//! Many runs, on several threads, and what they show.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::{
    judge::judge,
    outcome::{Outcome, Violation},
    perturbation::Perturbation,
    run::{Run, run},
    safeguard::Safeguard,
    scenario::{Scenario, Suite},
};

/// A run to be made.
#[derive(Clone)]
pub struct Task {
    /// The suite of the scenario.
    pub suite: &'static Suite,
    /// The scenario's name.
    pub scenario: &'static str,
    /// What goes wrong.
    pub perturbation: Perturbation,
    /// The seed.
    pub seed: u64,
}

/// A run that went wrong.
#[derive(Clone)]
pub struct Failure {
    /// Which.
    pub task: Task,
    /// What is wrong.
    pub violation: Violation,
    /// What happened.
    pub outcome: Outcome,
}

/// What many runs were.
#[derive(Clone, Default)]
pub struct Report {
    /// Runs, writes, and seconds in the cluster, by scenario and family of perturbation.
    pub runs: BTreeMap<(String, &'static str), (u64, u64, u64)>,
    /// What went wrong.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Runs, writes, and seconds in the cluster, of all.
    pub fn total(&self) -> (u64, u64, u64) {
        self.runs.values().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
    }

    fn add(&mut self, task: &Task, outcome: Outcome, violation: Option<Violation>) {
        let key = (format!("{}/{}", task.suite.name, task.scenario), task.perturbation.family());
        let entry = self.runs.entry(key).or_default();
        *entry = (entry.0 + 1, entry.1 + outcome.writes, entry.2 + outcome.seconds);
        if let Some(violation) = violation {
            self.failures.push(Failure { task: task.clone(), violation, outcome });
        }
    }
}

/// Every suite and scenario, or those of one name: `deployment`, `deployment/quota`.
pub fn scenarios(name: Option<&str>) -> Vec<(&'static Suite, Scenario)> {
    let mut out = Vec::new();
    for suite in super::scenarios::SUITES {
        for scenario in (suite.scenarios)() {
            if name.is_none_or(|n| n == suite.name || n == format!("{}/{}", suite.name, scenario.name)) {
                out.push((*suite, scenario));
            }
        }
    }
    out
}

/// Makes one run.
pub fn one(task: &Task, without: Option<Safeguard>) -> io::Result<Outcome> {
    play(task, without, false)
}

/// Makes one run, and tells its story.
pub fn told(task: &Task, without: Option<Safeguard>) -> io::Result<Outcome> {
    play(task, without, true)
}

fn play(task: &Task, without: Option<Safeguard>, told: bool) -> io::Result<Outcome> {
    let name = format!("{}/{}", task.suite.name, task.scenario);
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("there is no scenario {name}"));
    let (suite, scenario) = super::scenarios::find(&name).ok_or_else(missing)?;
    run(Run { suite, scenario: &scenario, perturbation: &task.perturbation, seed: task.seed, without, told })
}

/// Does something with each of many on so many threads. Whatever fails first ends it.
pub fn each<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed)
                    && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err(error) = work(item) {
                        *failed.lock() = Err(error);
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failed.into_inner()
}

/// The unperturbed run of every scenario given. One that goes wrong by itself is among the failures of the report.
pub fn unperturbed(
    scenarios: &[(&'static Suite, Scenario)],
    seed: u64,
    threads: usize,
    report: &Mutex<Report>,
) -> io::Result<BTreeMap<(&'static str, &'static str), Outcome>> {
    let found = Mutex::new(BTreeMap::new());
    each(scenarios, threads, |(suite, scenario)| {
        let task = Task { suite, scenario: scenario.name, perturbation: Perturbation::none(), seed };
        let outcome = one(&task, None)?;
        let violation = outcome.violation.clone();
        found.lock().insert((suite.name, scenario.name), outcome.clone());
        report.lock().add(&task, outcome, violation);
        Ok(())
    })?;
    Ok(found.into_inner())
}

/// Makes all these runs and judges them by the unperturbed ones of the same seed.
pub fn make(
    tasks: &[Task],
    baselines: &BTreeMap<(&'static str, &'static str), Outcome>,
    without: Option<Safeguard>,
    threads: usize,
    report: &Mutex<Report>,
    tell: impl Fn(&Failure) + Sync,
) -> io::Result<()> {
    each(tasks, threads, |task| {
        let outcome = one(task, without)?;
        let violation = match baselines.get(&(task.suite.name, task.scenario)) {
            Some(baseline) => judge(&task.perturbation, baseline, &outcome),
            None => outcome.violation.clone(),
        };
        if let Some(violation) = &violation {
            // The same again, to the byte, and this time it is told.
            let (task, violation, outcome) = (task.clone(), violation.clone(), told(task, without)?);
            tell(&Failure { task, violation, outcome });
        }
        report.lock().add(task, outcome, violation);
        Ok(())
    })
}
