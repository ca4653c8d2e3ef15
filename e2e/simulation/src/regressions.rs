//! Runs that once went wrong and must not again, and runs that are known to go wrong.

use super::{explore::Task, perturbation::Perturbation, plan, scenarios};

const REGRESSIONS: &str = include_str!("../regressions.txt");
const KNOWN_VIOLATIONS: &str = include_str!("../known-violations.txt");

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A line that names no run.
    #[error("{0:?} is no line of the form --scenario S --perturb P --seed N")]
    Run(String),
    /// A line of a known violation that does not say what is violated.
    #[error("{0:?} does not end in # and the oracle that is violated, a colon and what goes wrong")]
    Violation(String),
}

/// Every run that must not go wrong again.
pub fn all() -> Result<Vec<Task>, Unreadable> {
    lines(REGRESSIONS).map(|line| parse(line).map(|(task, _)| task)).collect()
}

/// A run that is known to go wrong.
#[derive(Clone)]
pub struct Known {
    /// The run.
    pub task: Task,
    /// The oracle that it violates.
    pub oracle: String,
}

impl Known {
    /// Whether another run that violates an oracle went wrong in the same way: the same oracle in the same scenario, with at
    /// least the faults of this run, at whatever moments.
    pub fn explains(&self, found: &Task, oracle: &str) -> bool {
        let task = &self.task;
        let mut forms = forms(&found.perturbation);
        let includes_all = self::forms(&task.perturbation).iter().all(|form| {
            let at = forms.iter().position(|found| found == form);
            at.map(|at| forms.swap_remove(at)).is_some()
        });
        includes_all && self.oracle == oracle && task.suite.name == found.suite.name && task.scenario == found.scenario
    }
}

/// Every run that is known to go wrong.
pub fn known() -> Result<Vec<Known>, Unreadable> {
    read_known(KNOWN_VIOLATIONS)
}

fn read_known(text: &str) -> Result<Vec<Known>, Unreadable> {
    let one = |line| {
        let (task, why) = parse(line)?;
        let (oracle, what) = why.split_once(':').unwrap_or_default();
        if oracle.is_empty() || oracle.contains(' ') || what.trim().is_empty() {
            return Err(Unreadable::Violation(line.to_owned()));
        }
        Ok(Known { task, oracle: oracle.to_owned() })
    };
    lines(text).map(one).collect()
}

fn forms(perturbation: &Perturbation) -> Vec<String> {
    perturbation.0.iter().map(|fault| plan::form(&Perturbation(vec![fault.clone()]))).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The run that a line names, and what it says after the `#`.
fn parse(line: &str) -> Result<(Task, &str), Unreadable> {
    let (run, why) = line.split_once('#').unwrap_or((line, ""));
    let task = task(run).ok_or_else(|| Unreadable::Run(line.to_owned()))?;
    Ok((task, why.trim()))
}

fn task(run: &str) -> Option<Task> {
    let words: Vec<&str> = run.split_whitespace().collect();
    let ["--scenario", scenario, "--perturb", perturbation, "--seed", seed] = *words.as_slice() else { return None };
    let (suite, scenario) = scenarios::find(scenario)?;
    let (perturbation, seed) = (perturbation.parse().ok()?, seed.parse().ok()?);
    Some(Task { suite, scenario: &scenario.name, perturbation, seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "--scenario job/suspended-after-success --perturb crash:before@5,error:cut@10 --seed 3";

    #[test]
    fn a_known_violation_names_its_run_and_its_oracle() {
        let known = read_known(&format!("# a header\n\n{LINE}  # rests: it is written for ever\n")).unwrap();
        let [known] = known.as_slice() else { panic!("one line") };
        assert_eq!(
            (known.task.suite.name, known.task.scenario, known.task.seed),
            ("job", "suspended-after-success", 3)
        );
        assert_eq!(known.oracle, "rests");
        for line in [LINE, &format!("{LINE} # it is written for ever: rests"), &format!("{LINE} # rests:")] {
            assert!(matches!(read_known(line), Err(Unreadable::Violation(_))), "{line}");
        }
        assert!(matches!(
            read_known("--scenario job/none --perturb none --seed 1 # rests: x"),
            Err(Unreadable::Run(_))
        ));
    }

    #[test]
    fn a_find_is_known_if_oracle_scenario_and_faults_are_listed() {
        let known = read_known(&format!("{LINE} # rests: it is written for ever")).unwrap();
        let is_known = |scenario: &str, perturbation: &str, oracle: &str| {
            let line = format!("--scenario {scenario} --perturb {perturbation} --seed 77");
            let task = parse(&line).unwrap().0;
            known.iter().any(|known| known.explains(&task, oracle))
        };
        let faults = "error:cut@2,interfere:suspend@3,crash:before@9";
        assert!(is_known("job/suspended-after-success", faults, "rests"));
        assert!(!is_known("job/suspended-after-success", faults, "gets-there"), "another oracle");
        assert!(!is_known("job/indexed", faults, "rests"), "another scenario");
        assert!(!is_known("job-stale/suspended-after-success", faults, "rests"), "another suite");
        assert!(!is_known("job/suspended-after-success", "error:cut@2,error:cut@3", "rests"), "without the crash");
    }
}
