//! Runs that once went wrong and must not again.

use super::{explore::Task, scenarios};

/// The file's text.
const LINES: &str = include_str!("../regressions.txt");

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no line of the form --scenario S --perturb P --seed N")]
pub struct Unreadable(String);

/// Every line as a run.
pub fn all() -> Result<Vec<Task>, Unreadable> {
    let lines = LINES.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(|line| parse(line).ok_or_else(|| Unreadable(line.to_owned()))).collect()
}

fn parse(line: &str) -> Option<Task> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["--scenario", scenario, "--perturb", perturbation, "--seed", seed] = *words.as_slice() else { return None };
    let (suite, scenario) = scenarios::find(scenario)?;
    let (perturbation, seed) = (perturbation.parse().ok()?, seed.parse().ok()?);
    Some(Task { suite, scenario: scenario.name, perturbation, seed })
}
