//! Measurements of each single controller, and the delays of the simulated nodes.

use std::{collections::BTreeMap, time::Duration};

use e2e::sandbox::nodes::WaitCounts;
use serde::Serialize;

use super::{
    Memory, Run,
    figure::Figure,
    phase::{Latency, Phase},
};
use crate::bench::requests::Requests;

/// The title of the figures by controller, for which the table has a line for each controller.
pub(super) const BY_CONTROLLER: &str = "by controller";
/// The number of kinds of requests with a figure of their own; the others have one common figure.
const REQUEST_ROWS: usize = 30;

/// Latencies by controller, not summarized yet.
pub(in crate::bench) type Reactions = BTreeMap<&'static str, Vec<Duration>>;

/// The costs of a phase for each process.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::bench) struct Details {
    /// Requests by process.
    pub(in crate::bench) requests: BTreeMap<String, Requests>,
    /// Bytes received over TCP by process: TLS, HTTP headers and all answers.
    pub(in crate::bench) received_bytes: BTreeMap<String, u64>,
    /// The same without the bodies of answers other than watches.
    pub(in crate::bench) watch_bytes: BTreeMap<String, u64>,
    /// Processor time of the bench itself.
    pub(in crate::bench) bench_cpu_seconds: f64,
    /// The time from an event to the write that answers it, by controller.
    pub(in crate::bench) reactions: BTreeMap<&'static str, Latency>,
    /// The time that Pods waited for the simulated nodes.
    pub(in crate::bench) waits: NodeWaits,
}

/// The time that Pods waited for the simulated scheduler and the simulated kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in crate::bench) struct NodeWaits {
    pub(in crate::bench) scheduler: Option<Wait>,
    pub(in crate::bench) kubelet: Option<Wait>,
}

/// A distribution of waits, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Wait {
    requests: u64,
    median: f64,
    p99: f64,
}

impl Wait {
    /// `None` if no Pod has waited.
    pub(in crate::bench) fn of(counts: &WaitCounts) -> Option<Self> {
        let milliseconds = |share| Some(counts.quantile(share)?.as_secs_f64() * 1e3);
        Some(Self { requests: counts.total(), median: milliseconds(0.5)?, p99: milliseconds(0.99)? })
    }
}

/// The summary of latencies.
pub(in crate::bench) fn summary(reactions: &Reactions) -> BTreeMap<&'static str, Latency> {
    reactions.iter().filter_map(|(name, all)| Some((*name, Latency::of(all.clone())?))).collect()
}

/// The details of a whole run, which cannot be computed from those of its phases.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::bench) struct Whole {
    pub(in crate::bench) reactions: BTreeMap<&'static str, Latency>,
    pub(in crate::bench) waits: NodeWaits,
}

/// The sections of a run that is measured in detail.
pub(super) fn sections(run: &Run) -> Vec<(&'static str, Vec<Figure>)> {
    let Some(whole) = &run.whole else { return Vec::new() };
    let mut nodes = Vec::new();
    for (who, wait) in [("scheduler", whole.waits.scheduler), ("kubelet", whole.waits.kubelet)] {
        let shares = wait.map(|wait| [("median", wait.median), ("p99", wait.p99)]);
        let figure = |(share, value)| Figure::new(format!("ms that a Pod waits for its {who}, {share}"), 2, value);
        nodes.extend(shares.into_iter().flatten().map(figure));
    }
    let own = details(run).map(|details| details.bench_cpu_seconds).sum::<f64>();
    nodes.push(Figure::new("CPU of the bench and its nodes, s", 2, own));
    let reactions = whole.reactions.iter().flat_map(|(name, latency)| {
        latency.shares().into_iter().map(move |(share, ms)| Figure::new(format!("{name}, {share}"), 1, ms))
    });
    vec![
        (BY_CONTROLLER, by_controller(run)),
        ("from an event to the write that answers it, ms", reactions.collect()),
        ("simulated nodes", nodes),
        ("requests", requests(run)),
    ]
}

fn details(run: &Run) -> impl Iterator<Item = &Details> {
    run.phases.iter().filter_map(|phase| phase.details.as_ref())
}

/// The bytes that the watches of all controllers have received in all phases.
pub(super) fn watched(phases: &[Phase]) -> Option<f64> {
    let mut bytes = phases.iter().filter_map(|phase| phase.details.as_ref()).peekable();
    bytes.peek()?;
    Some(bytes.flat_map(|details| details.watch_bytes.values()).sum::<u64>() as f64)
}

fn by_controller(run: &Run) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut line = |name: &str, memory: &Memory, of: &dyn Fn(&str) -> bool| {
        let sum = |by_process: &BTreeMap<String, f64>| -> f64 {
            by_process.iter().filter(|(name, _)| of(name)).map(|(_, value)| value).sum()
        };
        let bytes: u64 = details(run).flat_map(|d| &d.watch_bytes).filter(|(n, _)| of(n)).map(|(_, b)| b).sum();
        let requests: u64 = details(run).flat_map(|d| &d.requests).filter(|(n, _)| of(n)).map(|(_, r)| r.total()).sum();
        let cpu: f64 = run.phases.iter().map(|phase| sum(&phase.cpu_seconds)).sum();
        for (column, digits, value) in [
            ("CPU, s", 2, cpu),
            ("MB idle", 1, memory.idle as f64 / 1e6),
            ("MB at rest", 1, memory.rest as f64 / 1e6),
            ("MB at most", 1, memory.peak as f64 / 1e6),
            ("MB watched", 2, bytes as f64 / 1e6),
            ("requests", 0, requests as f64),
        ] {
            figures.push(Figure::new(format!("{name}: {column}"), digits, value));
        }
    };
    for (name, memory) in &run.memory {
        line(name, memory, &|other| other == name);
    }
    line("all", &run.memory.values().copied().sum(), &|_| true);
    figures
}

/// All requests by verb and resource, the most frequent first.
fn requests(run: &Run) -> Vec<Figure> {
    let mut all = Requests::default();
    for phase in &run.phases {
        all.merge(&phase.requests);
    }
    let mut counts: Vec<(&str, u64)> = all.iter().collect();
    counts.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), *what));
    let rest: u64 = counts.iter().skip(REQUEST_ROWS).map(|(_, count)| count).sum();
    let named = counts.iter().take(REQUEST_ROWS).copied();
    let mut figures: Vec<Figure> = named.map(|(what, count)| Figure::new(what, 0, count as f64)).collect();
    if rest > 0 {
        figures.push(Figure::new("all others", 0, rest as f64));
    }
    figures
}
