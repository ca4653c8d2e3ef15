//! The results of the bench: tables, and JSON for programs and for comparison with later runs.
//!
//! ```text
//!   runs ──► figures of each run ──► sections: values of all runs side by side ──► tables, JSON
//!                                                        ▲
//!                               baseline: earlier JSON ──┘
//! ```

mod baseline;
mod chart;
mod figures;
mod table;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{counters::Counters, observer::Reactions, timeline::Timeline};
use crate::nodes::WaitCounts;

pub(super) use baseline::Baseline;
use figures::{Row, Section};

/// The version of the JSON format. Files with another version cannot be compared.
const FORMAT: &str = "nonet-bench/3";

/// The setup of a measurement. Figures are comparable only if the setups are equal.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setup {
    pub(super) cluster: String,
    pub(super) workload: String,
    pub(super) controllers: Vec<&'static str>,
    pub(super) pods: u32,
    pub(super) nodes: u32,
    pub(super) cores: usize,
    /// Whether this program was built in release mode.
    pub(super) optimized: bool,
}

/// The results of one run of the workload.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Run {
    pub(super) phases: Vec<Phase>,
    /// Resident memory by process.
    pub(super) memory: BTreeMap<String, Memory>,
    /// Reactions and waits over all phases, which cannot be computed from those of the phases.
    pub(super) reactions: BTreeMap<&'static str, Latency>,
    pub(super) waits: Waits,
    /// Samples of processor time and memory, one per second.
    pub(super) timeline: Timeline,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// The number of Pods by which the figures are divided.
    pub(super) pods: u32,
    /// Seconds until each state was reached.
    pub(super) seconds: Vec<(&'static str, f64)>,
    /// The costs of each process under test.
    pub(super) controllers: BTreeMap<String, Counters>,
    /// Processor time of the bench with its nodes, and of the servers that it has started.
    pub(super) other_cpu_seconds: BTreeMap<String, f64>,
    /// The time from an event to the write that answers it, by controller.
    pub(super) reactions: BTreeMap<&'static str, Latency>,
    /// The time that Pods waited for the simulated nodes.
    pub(super) waits: Waits,
}

/// Resident memory of a process, in bytes; zero for what the workload does not measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    /// Without any work.
    pub(super) idle: u64,
    /// As `idle`, with the share of the process in pages that several processes map; zero if the kernel does not tell.
    pub(super) idle_share: u64,
    /// Right after a restart with all Pods in the cluster.
    pub(super) filled: u64,
    /// With all objects in the cluster and nothing to do.
    pub(super) rest: u64,
    /// The maximum.
    pub(super) peak: u64,
    /// At the end, after all Pods are gone.
    pub(super) after: u64,
}

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    count: u64,
    median: f64,
    p99: f64,
    longest: f64,
}

impl Latency {
    /// The distribution of `count` times with these quantiles; `None` without times.
    fn of(count: u64, quantile: impl Fn(f64) -> Option<Duration>) -> Option<Self> {
        let at = |share: f64| Some(quantile(share)?.as_secs_f64() * 1e3);
        Some(Self { count, median: at(0.5)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

/// The distributions of latencies.
pub(super) fn summary(reactions: &Reactions) -> BTreeMap<&'static str, Latency> {
    let latency = |(controller, all): (&&'static str, &Vec<Duration>)| {
        let mut all = all.clone();
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        let quantile = |share: f64| all.get((last as f64 * share) as usize).copied();
        Some((*controller, Latency::of(all.len() as u64, quantile)?))
    };
    reactions.iter().filter_map(latency).collect()
}

/// The time that Pods waited for the simulated scheduler and the simulated kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Waits {
    scheduler: Option<Latency>,
    kubelet: Option<Latency>,
}

impl Waits {
    pub(super) fn of(scheduler: &WaitCounts, kubelet: &WaitCounts) -> Self {
        let [scheduler, kubelet] =
            [scheduler, kubelet].map(|counts| Latency::of(counts.total(), |share| counts.quantile(share)));
        Self { scheduler, kubelet }
    }
}

/// The results of all runs with the same controllers.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) name: &'static str,
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) setup: Setup,
    /// The results of each subject, Nonet first.
    pub(super) results: Vec<Results>,
    /// The earlier figures for the comparison with the first results, and their file.
    pub(super) baseline: Option<(PathBuf, Baseline)>,
}

impl Report {
    /// The median of the first results divided by the median of the earlier ones.
    fn ratio_to_baseline(&self, section: &Section, row: &Row) -> Option<f64> {
        let (_, baseline) = self.baseline.as_ref()?;
        figures::ratio(row.spread(0)?.median, baseline.median(section.title, &row.label)?)
    }

    /// Everything as JSON: all runs, and the figures of the table.
    pub(super) fn json(&self) -> Value {
        let mut figures = Map::new();
        for section in self.sections() {
            let row = |row: &Row| {
                let subjects = self.results.iter().enumerate();
                let mut values: Map<String, Value> =
                    subjects.map(|(n, results)| (results.name.to_owned(), json!(row.spread(n)))).collect();
                let ratios = [("ratio", row.ratio()), ("toEarlier", self.ratio_to_baseline(&section, row))];
                values.extend(ratios.into_iter().filter_map(|(name, ratio)| Some((name.to_owned(), json!(ratio?)))));
                (row.label.clone(), Value::Object(values))
            };
            figures.insert(section.title.to_owned(), Value::Object(section.rows.iter().map(row).collect()));
        }
        let subjects = self.results.iter().map(|results| json!({"name": results.name, "runs": results.runs}));
        json!({
            "format": FORMAT,
            "setup": self.setup,
            "subjects": subjects.collect::<Vec<_>>(),
            "figures": figures,
        })
    }
}

#[cfg(test)]
mod tests;
