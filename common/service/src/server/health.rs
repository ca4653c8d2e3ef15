//! Named checks, and the answers of `/healthz`, `/livez` and `/readyz`.

use std::fmt::Write as _;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;

use crate::metrics::{Counters, Gauges, Metrics, Stability};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
type Remark = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Whether an answer contains the reasons of failed checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureReasons {
    /// Reasons are left out, as upstream does for every caller.
    Withheld,
    /// Reasons are included. They name resources and quote errors of the API server.
    Included,
}

fn set_by_name<T>(list: &mut Vec<(String, T)>, name: &str, value: T) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, replaced)) => *replaced = value,
        None => list.push((name.to_owned(), value)),
    }
}

/// A set of named checks, with the metrics of their results.
pub struct HealthChecks {
    kind: &'static str,
    checks: Mutex<Vec<(String, Check)>>,
    notes: Mutex<Vec<(String, Remark)>>,
    state: Gauges,
    results: Counters,
}

impl HealthChecks {
    pub(super) fn new(kind: &'static str, metrics: &Metrics) -> Self {
        let help = "This metric records the result of a single healthcheck.";
        let state = metrics.gauge("kubernetes_healthcheck", Stability::Stable, help, &["name", "type"]);
        let (name, labels) = ("kubernetes_healthchecks_total", &["name", "status", "type"]);
        let help = "This metric records the results of all healthcheck.";
        let results = metrics.counter(name, Stability::Stable, help, labels);
        Self { kind, checks: Mutex::default(), notes: Mutex::default(), state, results }
    }

    pub(super) fn reset_metrics(&self) {
        self.state.clear();
        self.results.clear();
    }

    /// Adds a check, or replaces the check of this name. The check must not block, and returns the reason of a failure as `Err`.
    pub fn add_check(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        set_by_name(&mut self.checks.lock(), name, Box::new(check));
    }

    /// Adds a remark to the output of a passed check, about a problem that does not make the check fail. Replaces the remark of
    /// this name. `note` must not block.
    pub fn add_remark(&self, name: &str, note: impl Fn() -> Option<String> + Send + Sync + 'static) {
        set_by_name(&mut self.notes.lock(), name, Box::new(note));
    }

    fn remarks(&self, name: &str) -> String {
        let notes = self.notes.lock();
        let notes = notes.iter().filter(|(of, _)| of == name).filter_map(|(_, note)| note());
        notes.fold(String::new(), |text, note| text + ": " + &note)
    }

    /// Runs all checks, and returns the name and the reason of each failed check.
    pub fn find_failed_checks(&self) -> Vec<(String, String)> {
        self.run(&[]).into_iter().filter_map(|(name, result)| result.err().map(|why| (name, why))).collect()
    }

    fn run(&self, excluded: &[&str]) -> Vec<(String, Result<(), String>)> {
        let checks = self.checks.lock();
        let mut results: Vec<_> = checks
            .iter()
            .filter(|(name, _)| !excluded.contains(&name.as_str()))
            .map(|(name, check)| (name.clone(), check()))
            .collect();
        if checks.is_empty() {
            results.push(("ping".to_owned(), Ok(())));
        }
        for (name, result) in &results {
            let status = if result.is_ok() { "success" } else { "error" };
            self.state.with_label_values(&[name, self.kind]).set(f64::from(result.is_ok()));
            self.results.with_label_values(&[name, status, self.kind]).inc();
        }
        results
    }

    /// Runs the checks and returns the answer to a request. `query` may contain `verbose` and `exclude=<check>`.
    pub(super) fn answer_request(&self, query: Option<&str>, reasons: FailureReasons) -> Response {
        let parameters: Vec<_> = query.unwrap_or_default().split('&').filter(|p| !p.is_empty()).collect();
        let excluded: Vec<_> = parameters.iter().filter_map(|p| p.strip_prefix("exclude=")).collect();
        let verbose = parameters.iter().any(|p| *p == "verbose" || p.starts_with("verbose="));
        let results = self.run(&excluded);
        let failed = results.iter().any(|(_, result)| result.is_err());
        let mut text = String::new();
        for (name, result) in &results {
            // Writing into a string cannot fail.
            let _ = match (result, reasons) {
                (Ok(()), FailureReasons::Withheld) => writeln!(text, "[+]{name} ok"),
                (Ok(()), FailureReasons::Included) => writeln!(text, "[+]{name} ok{}", self.remarks(name)),
                (Err(_), FailureReasons::Withheld) => writeln!(text, "[-]{name} failed: reason withheld"),
                (Err(why), FailureReasons::Included) => writeln!(text, "[-]{name} failed: {why}"),
            };
        }
        for name in excluded.iter().filter(|name| self.checks.lock().iter().all(|(known, _)| known != *name)) {
            let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {name:?}");
        }
        let (code, outcome) =
            if failed { (StatusCode::INTERNAL_SERVER_ERROR, "failed") } else { (StatusCode::OK, "passed") };
        if failed || verbose {
            let _ = writeln!(text, "{} check {outcome}", self.kind);
        } else {
            "ok".clone_into(&mut text);
        }
        (code, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
    }
}
