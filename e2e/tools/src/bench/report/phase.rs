//! A phase of a workload, and its figures.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{
    details::{self, Details},
    figure::Figure,
};
use crate::bench::requests::Requests;

/// The number of Pods or objects of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::bench) struct Amount {
    count: u32,
    unit: Unit,
}

/// The unit by whose number the figures are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Unit {
    Pod,
    Object,
}

impl Amount {
    /// A number of Pods.
    pub(in crate::bench) fn pods(count: u32) -> Self {
        Self { count, unit: Unit::Pod }
    }

    /// A number of objects of any kind.
    pub(in crate::bench) fn objects(count: u32) -> Self {
        Self { count, unit: Unit::Object }
    }
}

impl Unit {
    fn many(self) -> &'static str {
        match self {
            Self::Pod => "Pods",
            Self::Object => "objects",
        }
    }

    fn one(self) -> &'static str {
        match self {
            Self::Pod => "a Pod",
            Self::Object => "an object",
        }
    }
}

/// The results of one phase.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::bench) struct Phase {
    pub(in crate::bench) name: &'static str,
    #[serde(flatten)]
    pub(in crate::bench) amount: Amount,
    /// Seconds until each state was reached.
    pub(in crate::bench) seconds: Vec<(&'static str, f64)>,
    /// Processor time by process under test.
    pub(in crate::bench) cpu_seconds: BTreeMap<String, f64>,
    /// Processor time by process of the cluster, if it is known.
    pub(in crate::bench) server_cpu_seconds: BTreeMap<String, f64>,
    /// Voluntary context switches of all processes under test.
    pub(in crate::bench) context_switches: Option<u64>,
    pub(in crate::bench) requests: Requests,
    /// Resident memory at its end, in bytes, by process.
    pub(in crate::bench) resident: BTreeMap<String, u64>,
    /// The time from changes to the reactions of the controllers, if it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::bench) latency: Option<Latency>,
    /// The costs for each process, if they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::bench) details: Option<Details>,
}

/// The time from changes to the reactions of the controllers, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Latency {
    /// The number of measured changes.
    changes: usize,
    /// The median.
    median: f64,
    /// The 99th percentile.
    p99: f64,
    longest: f64,
}

impl Latency {
    /// `None` without any duration.
    pub(in crate::bench) fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        let last = durations.len().checked_sub(1)?;
        let at = |share: usize| durations[last * share / 100].as_secs_f64() * 1e3;
        Some(Self { changes: durations.len(), median: at(50), p99: at(99), longest: at(100) })
    }

    /// The median and the 99th percentile.
    pub(super) fn shares(&self) -> [(&'static str, f64); 2] {
        [("median", self.median), ("p99", self.p99)]
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let shares = [("median", self.median), ("p99", self.p99), ("longest", self.longest)];
        shares.into_iter().map(|(share, ms)| Figure::new(format!("ms from Pod event to slice, {share}"), 1, ms))
    }
}

impl Phase {
    /// Processor time of all processes under test.
    fn cpu(&self) -> f64 {
        self.cpu_seconds.values().sum()
    }

    /// Its figures: for each Pod or object, or in total if there is only one.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = if self.amount.count > 1 { self.figures_per_unit() } else { self.figures_in_total() };
        figures.extend(self.latency.iter().flat_map(Latency::figures));
        figures
    }

    fn figures_per_unit(&self) -> Vec<Figure> {
        let Amount { count, unit } = self.amount;
        let (amount, a_unit) = (f64::from(count), unit.one());
        let mut figures = Vec::new();
        for (state, seconds) in &self.seconds {
            figures.push(Figure::new(format!("{} {state} a second", unit.many()), 0, amount / seconds.max(1e-9)));
        }
        let milliseconds = |label: String, seconds: f64| Figure::new(label, 3, seconds * 1e3 / amount);
        figures.push(milliseconds(format!("CPU, ms {a_unit}"), self.cpu()));
        // With details, a separate table has a line for each process.
        if self.cpu_seconds.len() > 1 && self.details.is_none() {
            figures.extend(self.cpu_seconds.iter().map(|(name, cpu)| milliseconds(format!("  {name}"), *cpu)));
        }
        for (name, cpu) in &self.server_cpu_seconds {
            figures.push(milliseconds(format!("CPU of {name}, ms {a_unit}"), *cpu));
        }
        if let Some(switches) = self.context_switches {
            figures.push(Figure::new(format!("context switches {a_unit}"), 2, switches as f64 / amount));
        }
        for (verb, requests) in self.requests.by_verb() {
            figures.push(Figure::new(format!("requests {a_unit}: {verb}"), 3, requests as f64 / amount));
        }
        figures
    }

    fn figures_in_total(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (state, seconds) in &self.seconds {
            figures.push(Figure::new(format!("seconds until {state}"), 2, *seconds));
        }
        figures.push(Figure::new("CPU, s", 2, self.cpu()));
        for (name, cpu) in &self.server_cpu_seconds {
            figures.push(Figure::new(format!("CPU of {name}, s"), 2, *cpu));
        }
        if let Some(switches) = self.context_switches {
            figures.push(Figure::new("context switches", 0, switches as f64));
        }
        for (verb, requests) in self.requests.by_verb() {
            figures.push(Figure::new(format!("requests: {verb}"), 0, requests as f64));
        }
        figures
    }
}

/// The sums over all phases, without the time between phases.
pub(super) fn totals(phases: &[Phase]) -> Vec<Figure> {
    let mut servers: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, cpu) in phases.iter().flat_map(|phase| &phase.server_cpu_seconds) {
        *servers.entry(name).or_default() += cpu;
    }
    let controllers: f64 = phases.iter().map(Phase::cpu).sum();
    let mut figures = vec![Figure::new("CPU of the controllers, s", 2, controllers)];
    figures.extend(servers.iter().map(|(name, cpu)| Figure::new(format!("CPU of {name}, s"), 2, *cpu)));
    if !servers.is_empty() {
        figures.push(Figure::new("CPU of all of these, s", 2, controllers + servers.values().sum::<f64>()));
    }
    if let Some(switches) = phases.iter().filter_map(|phase| phase.context_switches).reduce(|a, b| a + b) {
        figures.push(Figure::new("context switches of the controllers", 0, switches as f64));
    }
    if let Some(bytes) = details::watched(phases) {
        figures.push(Figure::new("MB received by watches", 2, bytes / 1e6));
    }
    let requests: u64 = phases.iter().map(|phase| phase.requests.total()).sum();
    figures.push(Figure::new("requests of the controllers", 0, requests as f64));
    figures
}
