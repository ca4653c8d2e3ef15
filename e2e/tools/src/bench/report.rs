//! The results of the bench: a table, and JSON for programs and for comparison with later runs.
//!
//! ```text
//!   runs ──► figures of each run ──► rows: median and spread ──► table, JSON
//!                                                  ▲
//!                         baseline: earlier JSON ──┘
//! ```

mod baseline;
mod chart;
mod details;
mod figure;
mod memory;
mod phase;
mod table;

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::timeline::Timeline;

pub(super) use baseline::Baseline;
pub(super) use details::{Details, NodeWaits, Reactions, Wait, Whole, summary};
use figure::{Row, RunFigures, Section, sections};
pub(super) use memory::Memory;
pub(super) use phase::{Amount, Latency, Phase};

/// The version of the JSON format. Files with another version cannot be compared.
const FORMAT: &str = "nonet-bench/2";

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
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) phases: Vec<Phase>,
    /// Resident memory by process.
    pub(super) memory: BTreeMap<String, Memory>,
    /// The details over all phases, if they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<Whole>,
    /// Samples of processor time and memory, one per second.
    pub(super) timeline: Timeline,
}

/// The results of all runs with the same controllers.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) name: &'static str,
    pub(super) runs: Vec<Run>,
}

/// All results.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) setup: Setup,
    /// The results of each subject, Nonet first.
    pub(super) results: Vec<Results>,
    /// The earlier figures for the comparison with the first results, and their file.
    pub(super) baseline: Option<(PathBuf, Baseline)>,
}

impl Run {
    /// The figures of each phase, of memory, and of the whole workload, each part with a title.
    fn figures(&self, pods: u32) -> RunFigures<'_> {
        let mut parts: RunFigures<'_> = self.phases.iter().map(|phase| (phase.name, phase.figures())).collect();
        parts.push(("memory", memory::figures(&self.memory, pods, self.whole.is_none())));
        parts.extend(details::sections(self));
        parts.push(("whole workload", phase::totals(&self.phases)));
        parts
    }
}

impl Report {
    /// The figures of all results side by side.
    fn sections(&self) -> Vec<Section> {
        let pods = self.setup.pods;
        let runs = self.results.iter().map(|results| results.runs.iter().map(|run| run.figures(pods)).collect());
        sections(&runs.collect::<Vec<_>>())
    }

    /// The median of the first results divided by the median of the earlier ones.
    fn ratio_to_baseline(&self, section: &Section, row: &Row) -> Option<f64> {
        let (_, baseline) = self.baseline.as_ref()?;
        let now = row.spreads.first().copied().flatten()?;
        figure::ratio(now.median, baseline.median(&section.title, row.key())?)
    }

    /// Everything as JSON: all runs, and the figures of the table.
    pub(super) fn json(&self) -> Value {
        let results = |results: &Results| json!({"name": results.name, "runs": results.runs});
        let mut figures = Map::new();
        for section in self.sections() {
            let row = |row: &Row| {
                let names = self.results.iter().map(|results| results.name.to_owned());
                let mut values: Map<String, Value> =
                    names.zip(row.spreads.iter().map(|spread| json!(spread))).collect();
                let ratios = [("ratio", row.ratio()), ("toEarlier", self.ratio_to_baseline(&section, row))];
                values.extend(ratios.into_iter().filter_map(|(name, ratio)| Some((name.to_owned(), json!(ratio?)))));
                (row.key().to_owned(), Value::Object(values))
            };
            let rows = section.rows.iter().map(row).collect();
            figures.insert(section.title, Value::Object(rows));
        }
        json!({
            "format": FORMAT,
            "setup": self.setup,
            "subjects": self.results.iter().map(results).collect::<Vec<_>>(),
            "figures": figures,
        })
    }
}

#[cfg(test)]
mod tests;
