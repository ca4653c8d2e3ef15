//! Which perturbations there are of a scenario, once its unperturbed run has shown where anything can go wrong.

use std::{collections::BTreeMap, time::Duration};

use super::{
    neighbour::NEIGHBOURS,
    outcome::Outcome,
    perturbation::{At, Failure, Fault, Kind, Moment, Perturbation},
    scenario::Suite,
    scenarios,
};

const HELD: Duration = Duration::from_secs(30);
/// How late events come from a server that lags.
const LATE: Duration = Duration::from_secs(10);
const HUNG: Duration = Duration::from_secs(60);
const REFUSED: Duration = Duration::from_secs(45);

const MOMENTS: [Moment; 3] = [Moment::Before, Moment::AfterEffect, Moment::AfterResponse];
const FAILURES: [Failure; 7] = [
    Failure::Conflict,
    Failure::TooManyRequests,
    Failure::Before,
    Failure::After,
    Failure::Unavailable,
    Failure::CutBefore,
    Failure::CutAfter,
];

/// Every single thing that can go wrong before one step of the users.
pub fn before(suite: &Suite, unperturbed: &Outcome, step: u64) -> Vec<Perturbation> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (program, resource) in &unperturbed.watched {
        kinds.push(Kind::Hold((*program).to_owned(), resource.clone(), HELD));
    }
    kinds.extend([Kind::Crash(Moment::Before), Kind::Lag(LATE), Kind::Missed(HELD), Kind::Recreate(HELD)]);
    kinds.extend([Kind::FailOver, Kind::StaleStandby(HELD), Kind::PausedLeader(HUNG)]);
    if scenarios::has_neighbours(suite) {
        kinds.extend(NEIGHBOURS.iter().map(|neighbour| Kind::Neighbour(neighbour.name.to_owned())));
    }
    kinds.into_iter().map(|kind| Perturbation::one(kind, At::Step(step))).collect()
}

/// Every single thing that can go wrong with one write.
pub fn at(suite: &Suite, unperturbed: &Outcome, k: u64) -> Vec<Perturbation> {
    let mut kinds: Vec<Kind> = Vec::new();
    kinds.extend(MOMENTS.map(Kind::Crash));
    kinds.extend(FAILURES.map(Kind::Error));
    kinds.extend([Kind::Reject(403, REFUSED), Kind::Reject(422, REFUSED)]);
    for (program, resource) in &unperturbed.watched {
        kinds.push(Kind::Hold((*program).to_owned(), resource.clone(), HELD));
    }
    kinds.extend([Kind::Unread(REFUSED), Kind::Lag(LATE), Kind::Missed(HELD), Kind::Recreate(HELD)]);
    kinds.extend([Kind::FailOver, Kind::StaleStandby(HELD), Kind::PausedLeader(HUNG)]);
    if !scenarios::follows_clocks(suite) {
        kinds.push(Kind::Clock(7200));
    }
    kinds.push(Kind::Clock(-2));
    kinds.extend(suite.interferences.iter().map(|i| Kind::Interfere(i.name.to_owned())));
    kinds.into_iter().map(|kind| Perturbation::one(kind, At::Write(k))).collect()
}

/// Everything that can go wrong with any one write or step.
pub fn all(suite: &Suite, unperturbed: &Outcome) -> Vec<Perturbation> {
    let writes = (1..=unperturbed.points.len() as u64).flat_map(|k| at(suite, unperturbed, k));
    writes.chain((1..=unperturbed.steps).flat_map(|step| before(suite, unperturbed, step))).collect()
}

/// A few, so that every kind of fault comes by at least once among the scenarios of a suite, and one before a step in each:
/// what a test has time for. Each with the scenario it is for.
pub fn few<'a>(suite: &Suite, unperturbed: &[&'a Outcome]) -> Vec<(&'a str, Perturbation)> {
    let mut kinds: BTreeMap<String, Vec<&'a Outcome>> = BTreeMap::new();
    for outcome in unperturbed.iter().copied() {
        for perturbation in at(suite, outcome, 1) {
            kinds.entry(form(&perturbation)).or_default().push(outcome);
        }
    }
    let mut few = Vec::new();
    for (n, (kind, scenarios)) in kinds.iter().enumerate() {
        let outcome = scenarios[n % scenarios.len()];
        let k = 1 + (n * 29 % outcome.points.len().max(1)) as u64;
        few.extend(
            at(suite, outcome, k).into_iter().find(|p| form(p) == *kind).map(|p| (outcome.scenario.as_str(), p)),
        );
    }
    for (n, outcome) in unperturbed.iter().enumerate() {
        let mut all = before(suite, outcome, 1 + n as u64 % outcome.steps.max(1));
        few.push((outcome.scenario.as_str(), all.swap_remove(n % all.len())));
    }
    few
}

/// What a perturbation is without the moment: `crash:before`.
pub fn form(perturbation: &Perturbation) -> String {
    let text = perturbation.to_string();
    text.split('@').next().unwrap_or_default().to_owned()
}

/// One of all combinations of up to three faults; beside a hostile neighbour, where the suite has them.
pub fn random(suite: &Suite, unperturbed: &Outcome, mut luck: impl FnMut(usize) -> usize) -> Perturbation {
    let mut faults: Vec<Fault> = Vec::new();
    if scenarios::has_neighbours(suite) {
        let name = NEIGHBOURS[luck(NEIGHBOURS.len())].name.to_owned();
        faults.push(Fault { kind: Kind::Neighbour(name), at: At::Step(1) });
    }
    for _ in 0..=luck(3) {
        let k = 1 + luck(unperturbed.points.len().max(1)) as u64;
        let steps = unperturbed.steps.max(1) as usize;
        let all = match luck(8) {
            0 => before(suite, unperturbed, 1 + luck(steps) as u64),
            _ => at(suite, unperturbed, k),
        };
        faults.extend(all[luck(all.len())].0.iter().cloned());
    }
    faults.sort_by_key(|fault| fault.at);
    Perturbation(faults)
}
