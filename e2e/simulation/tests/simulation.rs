//! The simulation, as far as a test has time for it: every scenario, every kind of fault, every safeguard.
//!
//! `cargo run --release -p simulation -- --all` makes all of the runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

use std::{collections::BTreeMap, sync::Arc};

use clap::ValueEnum as _;
use parking_lot::Mutex;
use simulation::{
    explore::{self, Baselines, Report, Task},
    judge,
    neighbour::{self, NEIGHBOURS},
    outcome::{Outcome, Violation},
    plan, regressions, reproduce,
    safeguard::Safeguard,
    scenario::Scenario,
    scenarios,
};

/// As many as the machine that runs the tests has at least.
const THREADS: usize = 2;

fn task(scenario: &str, perturbation: &str, seed: u64) -> Task {
    let (suite, scenario) = scenarios::find(scenario).unwrap();
    Task { suite, scenario: &scenario.name, perturbation: perturbation.parse().unwrap(), seed }
}

/// What went wrong, each with the line that makes it again.
fn told(report: Report) -> Vec<String> {
    let one = |failure: explore::Failure| {
        let Violation { oracle, what, .. } = &failure.violation;
        format!("{oracle}: {what}\n  {}", reproduce(&failure.task))
    };
    report.failures.into_iter().map(one).collect()
}

static BASELINES: Baselines = Baselines::new();

/// Makes these runs and the unperturbed ones with which they are compared, and says what went wrong.
fn make(tasks: Vec<Task>) -> Report {
    let unperturbed = |task: &Task| Task::unperturbed(task.suite, task.scenario, task.seed);
    let unperturbed: BTreeMap<String, Task> =
        tasks.iter().map(unperturbed).map(|task| (reproduce(&task), task)).collect();
    let runs: Vec<Task> = unperturbed.into_values().chain(tasks).collect();
    let report = Mutex::new(Report::default());
    explore::make(&runs, &BASELINES, None, THREADS, &report, &()).unwrap();
    report.into_inner()
}

/// Makes these runs and the unperturbed ones with which they are compared. None may go wrong.
fn assert_well(tasks: Vec<Task>) {
    let failures = told(make(tasks));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_scenario_gets_there_whatever_goes_wrong() {
    let report = Mutex::new(Report::default());
    explore::unperturbed(&explore::scenarios(None), 1, &BASELINES, THREADS, &report, &()).unwrap();
    let failures = told(report.into_inner());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let mut tasks = Vec::new();
    for suite in scenarios::SUITES {
        let baseline =
            |scenario: &Scenario| BASELINES.of(&task(&format!("{}/{}", suite.name, scenario.name), "none", 1));
        let of_suite: Vec<Arc<Outcome>> =
            scenarios::of(suite).unwrap().iter().map(|scenario| baseline(scenario).unwrap()).collect();
        let of_suite: Vec<&Outcome> = of_suite.iter().map(Arc::as_ref).collect();
        let few = plan::few(suite, &of_suite);
        for outcome in &of_suite {
            let met = |form: &String| few.iter().any(|(_, p)| plan::form(p) == *form);
            let missing: Vec<String> = plan::at(suite, outcome, 1).iter().map(plan::form).filter(|f| !met(f)).collect();
            assert!(missing.is_empty(), "{}: never met: {missing:?}", suite.name);
        }
        let task = |(scenario, perturbation): (&str, _)| Task {
            perturbation,
            ..task(&format!("{}/{scenario}", suite.name), "none", 1)
        };
        tasks.extend(few.into_iter().map(task));
    }
    assert_well(tasks);
}

#[test]
fn what_once_went_wrong_does_not_again() {
    assert_well(regressions::all().unwrap());
}

/// Why a line of a known violation has to go: its run is well, or goes wrong in another way.
fn settled(known: &regressions::Known) -> Option<String> {
    let report = make(vec![known.task.clone()]);
    let found: Vec<&str> = report.failures.iter().map(|failure| failure.violation.oracle).collect();
    let oracle = known.oracle.as_str();
    (!found.contains(&oracle)).then(|| format!("{oracle} is not violated, but {found:?}: {}", reproduce(&known.task)))
}

#[test]
fn what_is_known_to_go_wrong_still_does() {
    let settled: Vec<String> = regressions::known().unwrap().iter().filter_map(settled).collect();
    assert!(settled.is_empty(), "no longer known violations:\n{}", settled.join("\n"));
}

#[test]
fn a_known_violation_whose_run_is_well_is_noticed() {
    let known = regressions::Known { task: task("replicaset/scale", "none", 1), oracle: "rests".to_owned() };
    assert!(settled(&known).is_some());
}

/// One run of each program, and faults that start processes and clocks of their own.
#[test]
fn one_seed_gives_one_run() {
    let run = |scenario: &str, perturbation: &str, seed| {
        explore::one(&task(scenario, perturbation, seed), None).unwrap().hash
    };
    // The baseline was made on another thread, and often between other runs.
    for scenario in ["neighbour/rollout", "neighbour/cronjob", "neighbour/cascade-of-all", "node-health/one-node"] {
        let baseline = BASELINES.of(&task(scenario, "none", 1)).unwrap().hash;
        assert_eq!(run(scenario, "none", 1), baseline, "{scenario}");
    }
    for (scenario, perturbation) in [
        ("replicaset/scale", "hold:replicaset-controller/pods@9+30s,failover@20"),
        ("job/indexed", "crash:after-effect@7"),
    ] {
        let hash = run(scenario, perturbation, 7);
        assert_eq!(run(scenario, perturbation, 7), hash, "{scenario} {perturbation}");
    }
    assert_ne!(
        run("job/indexed", "none", 8),
        BASELINES.of(&task("job/indexed", "none", 1)).unwrap().hash,
        "another seed"
    );
}

/// How many seeds are tried for a run that shows what a safeguard is for. A seed decides about timing, so does every change of a
/// controller, and only some timings show it.
const SEEDS: u64 = 16;

/// A line of `safeguards.txt`: a run, the safeguard that is taken away, and the oracle that is violated then.
fn safeguard(line: &str) -> (&str, &str, Safeguard, &str) {
    let (run, why) = line.split_once('#').unwrap();
    let words: Vec<&str> = run.split_whitespace().collect();
    let ["--scenario", scenario, "--perturb", perturbation, "--without", without] = *words else { panic!("{line}") };
    let (oracle, _) = why.trim().split_once(": ").unwrap();
    (scenario, perturbation, Safeguard::from_str(without, false).unwrap(), oracle)
}

/// What is wrong with a line: the oracle is violated in none of a few runs without the safeguard, or something is violated in the
/// same run with it.
fn unnoticed(line: &str) -> Option<String> {
    let (scenario, perturbation, without, oracle) = safeguard(line);
    let mut found = Vec::new();
    for seed in 1..=SEEDS {
        let task = task(scenario, perturbation, seed);
        let violated = explore::one(&task, Some(without)).unwrap().violation.map(|violation| violation.oracle);
        if violated == Some(oracle) {
            let with = match &*task.perturbation.0 {
                [] => BASELINES.of(&task).unwrap().violation.clone(),
                _ => explore::one(&task, None).unwrap().violation,
            };
            return with.map(|violation| format!("{violation:?} with the safeguard: {}", reproduce(&task)));
        }
        found.push(violated);
    }
    Some(format!("{oracle} in none of {found:?}: {line}"))
}

#[test]
fn what_each_safeguard_prevents_is_noticed_without_it() {
    let lines: Vec<&str> = include_str!("../safeguards.txt").lines().filter(|line| line.starts_with("--")).collect();
    let wrong = Mutex::new(Vec::new());
    let check = |line: &&str| {
        wrong.lock().extend(unnoticed(line));
        Ok(())
    };
    explore::each(&lines, THREADS, check).unwrap();
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let is_shown = |known: &&Safeguard| lines.iter().any(|line| safeguard(line).2 == **known);
    let all: Vec<&Safeguard> = Safeguard::value_variants().iter().filter(is_shown).collect();
    assert_eq!(all.len(), Safeguard::value_variants().len(), "only {all:?}");
}

/// The least writes for a neighbour beside a Job: about half of what the controllers write. Objects that they ignored would prove
/// nothing.
const BUSY: [(&str, u64); 7] = [
    ("refused", 150),
    ("unready", 6),
    ("cronjobs", 200),
    ("addresses", 100),
    ("daemons", 150),
    ("strays", 25),
    ("crowd", 10 * neighbour::CROWD as u64),
];

#[test]
fn hostile_neighbours_keep_the_controllers_busy_and_delay_nobody() {
    let mut pairs = Vec::new();
    for (row, (_, scenario)) in explore::scenarios(Some("neighbour")).into_iter().enumerate() {
        // Each neighbour beside some scenarios, and each scenario beside some neighbours.
        let is_run = |column: usize| scenario.name == "job" || (row + column).is_multiple_of(3);
        let neighbours = NEIGHBOURS.iter().enumerate().filter(|(column, _)| is_run(*column));
        pairs.extend(neighbours.map(|(_, neighbour)| (scenario.name.as_str(), neighbour.name)));
    }
    let wrong = Mutex::new(Vec::new());
    let check = |(scenario, neighbour): &(&str, &str)| {
        let task = task(&format!("neighbour/{scenario}"), &format!("neighbour:{neighbour}@step1"), 1);
        let (alone, beside) = (BASELINES.of(&task)?, explore::one(&task, None)?);
        let violation = judge::judge(&task.perturbation, &alone, &beside).map(|violation| violation.what);
        let least =
            BUSY.iter().find(|(name, _)| (*scenario, name) == ("job", neighbour)).map_or(0, |(_, least)| *least);
        let idle = (beside.beside < least).then(|| format!("{} writes for the neighbour", beside.beside));
        wrong.lock().extend(violation.or(idle).map(|what| format!("{what}: {}", reproduce(&task))));
        Ok(())
    };
    explore::each(&pairs, THREADS, check).unwrap();
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn who_is_delayed_beside_a_neighbour_is_noticed() {
    let run = |scenario: &str, perturbation: &str| explore::one(&task(scenario, perturbation, 1), None).unwrap();
    for (scenario, suffers) in [
        // The ReplicaSet controller does not see the Deployment's new ReplicaSet for thirty seconds.
        ("neighbour/rollout", "hold:replicaset-controller/replicasets@step2+30s"),
        // Every Pod of the StatefulSet is refused for most of a minute.
        ("neighbour/scale", "reject:403@2+45s"),
        // The controller that leads hangs for a minute.
        ("neighbour/job", "paused-leader@2+1m0s"),
        ("neighbour/cronjob", "reject:403@1+45s"),
    ] {
        let alone = BASELINES.of(&task(scenario, "none", 1)).unwrap();
        let beside = run(scenario, "neighbour:unready@step1");
        assert_eq!(judge::delay(&alone, &beside), None, "{scenario}");
        let delayed = run(scenario, &format!("neighbour:unready@step1,{suffers}"));
        let oracle = judge::delay(&alone, &delayed).map(|violation| violation.oracle);
        assert_eq!(oracle, Some("neighbours-do-not-delay"), "{scenario} {suffers}");
    }
}
