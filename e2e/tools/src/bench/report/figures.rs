//! The figures of a report: numbers with a label, side by side for all runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Latency, Memory, Phase, Report, Run};
use crate::bench::{NAME, counters::Counters};

/// The title of the figures by controller, for which the table has a line for each controller.
pub(super) const BY_CONTROLLER: &str = "by controller";
/// The number of kinds of requests with a figure of their own; the others have one common figure.
const REQUEST_ROWS: usize = 30;
const MEGABYTE: f64 = 1e6;

/// Median, minimum and maximum of the same number in several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    /// The number of decimals.
    pub(super) digits: usize,
    /// The values of all runs, by subject.
    values: Vec<Vec<f64>>,
}

impl Row {
    /// The values of a subject; `None` if it does not have the figure. The median of an even number of values is the mean of
    /// the two in the middle.
    pub(super) fn spread(&self, subject: usize) -> Option<Spread> {
        let mut values = self.values[subject].clone();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
        Some(Spread { median: f64::midpoint(values[lower], values[upper]), min, max })
    }

    /// The median of the first subject divided by that of the second, if there are two.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.values.len() == 2).then(|| ratio(self.spread(0)?.median, self.spread(1)?.median))?
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Row>,
}

/// A quotient; `None` for the divisor zero.
pub(super) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b != 0.0).then(|| a / b)
}

/// Receives the figures of one run: title of the section, label, number of decimals, and value.
struct Sink<'a> {
    sections: &'a mut Vec<Section>,
    subject: usize,
    subjects: usize,
}

impl Sink<'_> {
    fn add(&mut self, title: &'static str, label: impl Into<String>, digits: usize, value: f64) {
        let (label, sections) = (label.into(), &mut *self.sections);
        let at = sections.iter().position(|section| section.title == title).unwrap_or_else(|| {
            sections.push(Section { title, rows: Vec::new() });
            sections.len() - 1
        });
        let rows = &mut sections[at].rows;
        let at = rows.iter().position(|row| row.label == label).unwrap_or_else(|| {
            rows.push(Row { label, digits, values: vec![Vec::new(); self.subjects] });
            rows.len() - 1
        });
        rows[at].values[self.subject].push(value);
    }
}

impl Report {
    /// The figures of all results side by side.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        for (subject, results) in self.results.iter().enumerate() {
            for run in &results.runs {
                let mut sink = Sink { sections: &mut sections, subject, subjects: self.results.len() };
                run.phases.iter().for_each(|phase| phase.figures(&mut sink));
                run.memory(&mut sink, self.setup.pods);
                run.by_controller(&mut sink);
                run.latencies(&mut sink);
                run.requests(&mut sink);
                run.totals(&mut sink);
            }
        }
        sections
    }
}

/// Sums over several processes, or over several phases.
fn sum<'a>(all: impl IntoIterator<Item = &'a Counters>) -> Counters {
    all.into_iter().fold(Counters::default(), |mut sum, counters| {
        sum.add(counters);
        sum
    })
}

impl Phase {
    /// Processor time of the servers that the bench has started.
    fn servers(&self) -> impl Iterator<Item = (&String, &f64)> {
        self.other_cpu_seconds.iter().filter(|(name, _)| *name != NAME)
    }

    /// The figures for each Pod, or in total if there is only one.
    fn figures(&self, sink: &mut Sink<'_>) {
        let (pods, is_divided) = (f64::from(self.pods.max(1)), self.pods > 1);
        for (state, seconds) in &self.seconds {
            if is_divided {
                sink.add(self.name, format!("Pods {state} a second"), 0, pods / seconds.max(1e-9));
            } else {
                sink.add(self.name, format!("seconds until {state}"), 2, *seconds);
            }
        }
        let all = sum(self.controllers.values());
        let servers = self.servers().map(|(name, cpu)| (format!("CPU of {name}"), *cpu));
        for (label, cpu) in [("CPU".to_owned(), all.cpu_seconds)].into_iter().chain(servers) {
            if is_divided {
                sink.add(self.name, format!("{label}, ms a Pod"), 3, cpu * 1e3 / pods);
            } else {
                sink.add(self.name, format!("{label}, s"), 2, cpu);
            }
        }
        let (suffix, digits) = if is_divided { (" a Pod", [2, 3]) } else { ("", [0, 0]) };
        if !self.controllers.is_empty() {
            let switches = all.context_switches as f64 / pods;
            sink.add(self.name, format!("context switches{suffix}"), digits[0], switches);
        }
        let mut verbs: BTreeMap<&str, u64> = BTreeMap::new();
        for (what, count) in &all.requests {
            *verbs.entry(what.split(' ').next().unwrap_or(what)).or_default() += count;
        }
        let all_requests = verbs.values().sum::<u64>();
        for (what, count) in [("requests".to_owned(), all_requests)]
            .into_iter()
            .chain(verbs.into_iter().map(|(verb, count)| (format!("requests: {verb}"), count)))
        {
            sink.add(
                self.name,
                what.replacen("requests", &format!("requests{suffix}"), 1),
                digits[1],
                count as f64 / pods,
            );
        }
        let kilobytes = all.watched_bytes() as f64 / 1e3 / pods;
        sink.add(self.name, format!("kB received by watches{suffix}"), 1, kilobytes);
    }
}

impl Memory {
    /// Labels and megabytes of what the workload measures.
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("MB idle", self.idle, true),
            ("MB idle, shared pages once", self.idle_share, self.idle_share > 0),
            ("MB with all Pods cached", self.filled, self.filled > 0),
            ("MB at rest", self.rest, self.rest > 0),
            ("MB at most", self.peak, true),
            ("MB afterwards", self.after, true),
        ];
        all.into_iter()
            .filter(|(_, _, is_measured)| *is_measured)
            .map(|(label, bytes, _)| (label, bytes as f64 / MEGABYTE))
    }
}

impl std::iter::Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            idle: a.idle + b.idle,
            idle_share: a.idle_share + b.idle_share,
            filled: a.filled + b.filled,
            rest: a.rest + b.rest,
            peak: a.peak + b.peak,
            after: a.after + b.after,
        })
    }
}

impl Run {
    fn memory(&self, sink: &mut Sink<'_>, pods: u32) {
        let all: Memory = self.memory.values().copied().sum();
        for (label, megabytes) in all.figures() {
            sink.add("memory", label, 1, megabytes);
        }
        if all.filled > 0 {
            let cache = (all.filled as f64 - all.idle as f64) / f64::from(pods.max(1));
            sink.add("memory", "bytes a cached Pod", 0, cache);
        }
    }

    /// A line for each controller, with the sums over all phases, and one for all controllers.
    fn by_controller(&self, sink: &mut Sink<'_>) {
        let mut line = |name: &str, memory: Memory, counters: Counters| {
            let mut add =
                |column: &str, digits, value| sink.add(BY_CONTROLLER, format!("{name}: {column}"), digits, value);
            add("CPU, s", 2, counters.cpu_seconds);
            for (label, megabytes) in
                memory.figures().filter(|(label, _)| !["MB afterwards", "MB idle, shared pages once"].contains(label))
            {
                add(if label.contains("cached") { "MB cached" } else { label }, 1, megabytes);
            }
            add("MB watched", 2, counters.watched_bytes() as f64 / MEGABYTE);
            add("requests", 0, counters.requests.values().sum::<u64>() as f64);
        };
        for (name, memory) in &self.memory {
            line(name, *memory, sum(self.phases.iter().filter_map(|phase| phase.controllers.get(name))));
        }
        line("all", self.memory.values().copied().sum(), self.controllers());
    }

    /// The sum over all controllers and phases.
    fn controllers(&self) -> Counters {
        sum(self.phases.iter().flat_map(|phase| phase.controllers.values()))
    }

    fn latencies(&self, sink: &mut Sink<'_>) {
        let shares = |latency: &Latency| [("median", latency.median), ("p99", latency.p99)];
        for (name, latency) in &self.reactions {
            for (share, ms) in shares(latency) {
                sink.add("from an event to the write that answers it, ms", format!("{name}, {share}"), 1, ms);
            }
        }
        const NODES: &str = "simulated nodes";
        for (who, wait) in [("scheduler", self.waits.scheduler), ("kubelet", self.waits.kubelet)] {
            for (share, ms) in wait.iter().flat_map(shares) {
                sink.add(NODES, format!("ms that a Pod waits for its {who}, {share}"), 2, ms);
            }
        }
        let own = self.phases.iter().filter_map(|phase| phase.other_cpu_seconds.get(NAME)).sum();
        sink.add(NODES, "CPU of the bench and its nodes, s", 2, own);
    }

    /// All requests by verb and resource, the most frequent first.
    fn requests(&self, sink: &mut Sink<'_>) {
        let mut counts: Vec<(String, u64)> = self.controllers().requests.into_iter().collect();
        counts.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), what.clone()));
        let rest: u64 = counts.iter().skip(REQUEST_ROWS).map(|(_, count)| count).sum();
        counts.truncate(REQUEST_ROWS);
        if rest > 0 {
            counts.push(("all others".to_owned(), rest));
        }
        for (what, count) in counts {
            sink.add("requests", what, 0, count as f64);
        }
    }

    /// The sums over all phases, without the time between phases.
    fn totals(&self, sink: &mut Sink<'_>) {
        let all = self.controllers();
        let mut servers: BTreeMap<&String, f64> = BTreeMap::new();
        for (name, cpu) in self.phases.iter().flat_map(Phase::servers) {
            *servers.entry(name).or_default() += cpu;
        }
        let mut add = |label: String, digits, value| sink.add("whole workload", label, digits, value);
        add("CPU of the controllers, s".to_owned(), 2, all.cpu_seconds);
        for (name, cpu) in &servers {
            add(format!("CPU of {name}, s"), 2, *cpu);
        }
        if !servers.is_empty() {
            add("CPU of all of these, s".to_owned(), 2, all.cpu_seconds + servers.values().sum::<f64>());
        }
        add("context switches of the controllers".to_owned(), 0, all.context_switches as f64);
        add("MB received by watches".to_owned(), 2, all.watched_bytes() as f64 / MEGABYTE);
        add("requests of the controllers".to_owned(), 0, all.requests.values().sum::<u64>() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Row { label: String::new(), digits: 0, values: vec![values.to_vec()] }.spread(0);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { median: 3.0, min: 3.0, max: 3.0 }));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[8.0, 1.0, 2.0, 4.0]), Some(Spread { median: 3.0, min: 1.0, max: 8.0 }));
    }
}
