//! Many runs, on several threads, and what they show.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    judge::judge,
    outcome::{Outcome, Violation},
    perturbation::Perturbation,
    regressions::Known,
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

impl Task {
    /// A run without a fault.
    pub fn unperturbed(suite: &'static Suite, scenario: &'static str, seed: u64) -> Self {
        Self { suite, scenario, perturbation: Perturbation::none(), seed }
    }

    /// What it is summed up with.
    pub fn group(&self) -> Group {
        (format!("{}/{}", self.suite.name, self.scenario), self.perturbation.family())
    }
}

type BaselineKey = (&'static str, &'static str, u64);
/// An unperturbed run; `None` until it has been made.
type BaselineSlot = Arc<Mutex<Option<Arc<Outcome>>>>;

/// The unperturbed runs with which other runs are compared. Each is made once, even if several threads ask for it.
#[derive(Default)]
pub struct Baselines(Mutex<BTreeMap<BaselineKey, BaselineSlot>>);

impl Baselines {
    /// Creates an empty store.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the unperturbed run of the same scenario and seed. Makes the run if there is none yet.
    pub fn of(&self, task: &Task) -> io::Result<Arc<Outcome>> {
        let slot = Arc::clone(self.0.lock().entry((task.suite.name, task.scenario, task.seed)).or_default());
        let mut slot = slot.lock();
        if let Some(outcome) = &*slot {
            return Ok(Arc::clone(outcome));
        }
        let outcome = Arc::new(one(&Task::unperturbed(task.suite, task.scenario, task.seed), None)?);
        *slot = Some(Arc::clone(&outcome));
        Ok(outcome)
    }
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

/// What is summed up together: a scenario (`deployment/quota`) and a family of perturbations.
pub type Group = (String, &'static str);

/// Runs in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many there were.
    pub runs: u64,
    /// What was written in them.
    pub writes: u64,
    /// How long they took in the cluster.
    pub seconds: u64,
    /// In how many something was wrong.
    pub violations: u64,
}

impl Sum {
    fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            writes: self.writes + other.writes,
            seconds: self.seconds + other.seconds,
            violations: self.violations + other.violations,
        }
    }
}

/// What many runs were.
#[derive(Clone, Default)]
pub struct Report {
    /// The runs made so far.
    pub runs: BTreeMap<Group, Sum>,
    planned: BTreeMap<Group, u64>,
    /// What went wrong.
    pub failures: Vec<Failure>,
}

impl Report {
    /// All runs together.
    pub fn total(&self) -> Sum {
        self.runs.values().copied().fold(Sum::default(), Sum::and)
    }

    /// What went wrong and is none of the known violations.
    pub fn new_failures<'a>(&'a self, known: &'a [Known]) -> impl Iterator<Item = &'a Failure> {
        let is_known = |failure: &Failure, known: &Known| known.explains(&failure.task, failure.violation.oracle);
        self.failures.iter().filter(move |failure| !known.iter().any(|known| is_known(failure, known)))
    }

    fn plan(&mut self, tasks: &[Task]) {
        for task in tasks {
            *self.planned.entry(task.group()).or_default() += 1;
        }
    }

    /// Takes in a run; the sum of its group if that was the last of it.
    fn add(&mut self, task: &Task, outcome: Outcome, violation: Option<Violation>) -> Option<Sum> {
        let group = task.group();
        let one =
            Sum { runs: 1, writes: outcome.writes, seconds: outcome.seconds, violations: violation.is_some().into() };
        let sum = self.runs.entry(group.clone()).or_default();
        *sum = sum.and(one);
        let sum = *sum;
        if let Some(violation) = violation {
            self.failures.push(Failure { task: task.clone(), violation, outcome });
        }
        let left = self.planned.get_mut(&group)?;
        *left = left.saturating_sub(1);
        (*left == 0).then_some(sum)
    }
}

/// Who is told what runs show while they are made.
pub trait Listener: Sync {
    /// A run went wrong.
    fn failed(&self, failure: &Failure);
    /// All runs of a group have been made.
    fn finished(&self, group: &Group, sum: Sum);
}

impl Listener for () {
    fn failed(&self, _: &Failure) {}
    fn finished(&self, _: &Group, _: Sum) {}
}

/// Every suite and scenario, or those of one name: `deployment`, `deployment/quota`.
pub fn scenarios(name: Option<&str>) -> Vec<(&'static Suite, &'static Scenario)> {
    let mut out = Vec::new();
    for suite in super::scenarios::SUITES {
        // A text that cannot be read fails a test.
        for scenario in super::scenarios::of(suite).unwrap_or_default() {
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
    run(Run { suite, scenario, perturbation: &task.perturbation, seed: task.seed, without, told })
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

/// Makes the unperturbed runs of these scenarios that `baselines` lacks. A run that goes wrong by itself is among the failures of
/// the report.
pub fn unperturbed(
    scenarios: &[(&'static Suite, &'static Scenario)],
    seed: u64,
    baselines: &Baselines,
    threads: usize,
    report: &Mutex<Report>,
    listener: &impl Listener,
) -> io::Result<()> {
    let tasks: Vec<Task> =
        scenarios.iter().map(|(suite, scenario)| Task::unperturbed(suite, &scenario.name, seed)).collect();
    make(&tasks, baselines, None, threads, report, listener)
}

/// Makes all these runs, and compares each with the unperturbed run of the same scenario and seed. A run without a fault is taken
/// from `baselines`.
pub fn make(
    tasks: &[Task],
    baselines: &Baselines,
    without: Option<Safeguard>,
    threads: usize,
    report: &Mutex<Report>,
    listener: &impl Listener,
) -> io::Result<()> {
    report.lock().plan(tasks);
    each(tasks, threads, |task| {
        let baseline = baselines.of(task)?;
        if task.perturbation.0.is_empty() && without.is_none() {
            let violation = baseline.violation.clone();
            return take_in(task, Arc::unwrap_or_clone(baseline), violation, without, report, listener);
        }
        let outcome = one(task, without)?;
        let violation = judge(&task.perturbation, &baseline, &outcome);
        take_in(task, outcome, violation, without, report, listener)
    })
}

fn take_in(
    task: &Task,
    outcome: Outcome,
    violation: Option<Violation>,
    without: Option<Safeguard>,
    report: &Mutex<Report>,
    listener: &impl Listener,
) -> io::Result<()> {
    if let Some(violation) = &violation {
        // The same again, to the byte, and this time it is told.
        let (task, violation, outcome) = (task.clone(), violation.clone(), told(task, without)?);
        listener.failed(&Failure { task, violation, outcome });
    }
    let finished = report.lock().add(task, outcome, violation);
    if let Some(sum) = finished {
        listener.finished(&task.group(), sum);
    }
    Ok(())
}
