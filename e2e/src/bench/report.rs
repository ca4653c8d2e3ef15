//! What came out of it: a table for people, JSON for everything else.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::requests::Requests;

/// What was measured, and on what.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setup {
    pub(super) cluster: String,
    pub(super) workload: String,
    pub(super) pods: u32,
    pub(super) nodes: u32,
    pub(super) cores: usize,
    /// Whether this program was built in release mode.
    pub(super) optimized: bool,
}

/// What a phase is about, and how many of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Amount {
    pub(super) count: u32,
    pub(super) unit: Unit,
}

/// What figures are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    Pod,
    Object,
}

impl Amount {
    /// So many Pods.
    pub(super) fn pods(count: u32) -> Self {
        Self { count, unit: Unit::Pod }
    }

    /// So many objects of whatever kind.
    pub(super) fn objects(count: u32) -> Self {
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

/// One phase of a workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Phase {
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) amount: Amount,
    /// What was reached after how many seconds.
    pub(super) seconds: Vec<(&'static str, f64)>,
    /// Processor time by process.
    pub(super) cpu_seconds: BTreeMap<String, f64>,
    pub(super) requests: Requests,
    /// Resident memory at its end, in bytes, by process.
    pub(super) resident: BTreeMap<String, u64>,
    /// How long changes took to be followed, where that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency: Option<Latency>,
}

/// How long changes took to be followed, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    /// How many changes were measured.
    pub(super) changes: usize,
    /// Half of them took at most this long.
    pub(super) median: f64,
    /// All but one in a hundred took at most this long.
    pub(super) p99: f64,
    /// The longest.
    pub(super) longest: f64,
}

impl Latency {
    /// The figures of these durations; nothing if there are none.
    pub(super) fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        let last = durations.len().checked_sub(1)?;
        let at = |share: usize| durations[last * share / 100].as_secs_f64() * 1e3;
        Some(Self { changes: durations.len(), median: at(50), p99: at(99), longest: at(100) })
    }
}

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    /// With nothing to do.
    pub(super) idle: u64,
    /// Freshly started, with all Pods there.
    pub(super) filled: u64,
    /// The most ever.
    pub(super) peak: u64,
    /// At the end, with all Pods gone.
    pub(super) after: u64,
}

impl Memory {
    /// What one of so many Pods takes.
    fn per_pod(&self, pods: u32) -> f64 {
        (self.filled as f64 - self.idle as f64) / f64::from(pods.max(1))
    }
}

impl std::iter::Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            idle: a.idle + b.idle,
            filled: a.filled + b.filled,
            peak: a.peak + b.peak,
            after: a.after + b.after,
        })
    }
}

/// Whoever was measured.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) phases: Vec<Phase>,
    /// By process.
    pub(super) memory: BTreeMap<String, Memory>,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) setup: Setup,
    pub(super) subjects: Vec<Subject>,
}

/// A row of the table: a figure of each subject.
struct Row {
    label: String,
    /// Digits behind the point.
    digits: usize,
    values: Vec<Option<f64>>,
}

/// A part of the table.
struct Section {
    title: String,
    rows: Vec<Row>,
}

impl Phase {
    /// The figures of this phase with their labels.
    fn figures(&self) -> Vec<(String, usize, f64)> {
        let Amount { count, unit } = self.amount;
        let (amount, a_unit) = (f64::from(count.max(1)), unit.one());
        let mut figures = Vec::new();
        for (what, seconds) in &self.seconds {
            if count > 1 {
                figures.push((format!("{} {what} a second", unit.many()), 0, amount / seconds.max(1e-9)));
            } else {
                figures.push((format!("seconds until {what}"), 2, *seconds));
            }
        }
        let all: f64 = self.cpu_seconds.values().sum();
        if count > 1 {
            figures.push((format!("CPU, ms {a_unit}"), 3, all * 1e3 / amount));
            if self.cpu_seconds.len() > 1 {
                let one = |(name, cpu): (&String, &f64)| (format!("  {name}"), 3, cpu * 1e3 / amount);
                figures.extend(self.cpu_seconds.iter().map(one));
            }
            let one = |(verb, n): (String, u64)| (format!("requests {a_unit}: {verb}"), 3, n as f64 / amount);
            figures.extend(self.requests.by_verb().into_iter().map(one));
        } else {
            figures.push(("CPU, s".to_owned(), 2, all));
            let one = |(verb, n): (String, u64)| (format!("requests: {verb}"), 0, n as f64);
            figures.extend(self.requests.by_verb().into_iter().map(one));
        }
        if let Some(latency) = &self.latency {
            let mut add = |share: &str, milliseconds| {
                figures.push((format!("ms from Pod event to slice, {share}"), 1, milliseconds));
            };
            add("median", latency.median);
            add("p99", latency.p99);
            add("longest", latency.longest);
        }
        figures
    }
}

impl Subject {
    /// The figures of memory with their labels.
    fn memory(&self, pods: u32) -> Vec<(String, usize, f64)> {
        let mut figures = Vec::new();
        let mut add = |name: &str, memory: &Memory| {
            let of = |what: &str| format!("{name}{what}");
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            figures.push((of("MB idle"), 1, megabytes(memory.idle)));
            // Workloads that never start the processes anew do not tell their caches from the rest.
            if memory.filled > 0 {
                figures.push((of("MB with all Pods cached"), 1, megabytes(memory.filled)));
                figures.push((of("bytes a cached Pod"), 0, memory.per_pod(pods)));
            }
            figures.push((of("MB at most"), 1, megabytes(memory.peak)));
            figures.push((of("MB afterwards"), 1, megabytes(memory.after)));
        };
        add("", &self.memory.values().copied().sum());
        if self.memory.len() > 1 {
            for (name, memory) in &self.memory {
                add(&format!("  {name}: "), memory);
            }
        }
        figures
    }
}

/// Puts the figures of several subjects side by side.
fn rows(subjects: &[Vec<(String, usize, f64)>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, figures) in subjects.iter().enumerate() {
        for (label, digits, value) in figures {
            let row = match rows.iter_mut().position(|row| row.label == *label) {
                Some(row) => row,
                None => {
                    rows.push(Row { label: label.clone(), digits: *digits, values: vec![None; subjects.len()] });
                    rows.len() - 1
                }
            };
            rows[row].values[at] = Some(*value);
        }
    }
    rows
}

impl Report {
    fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        let phases = self.subjects.first().map_or(0, |s| s.phases.len());
        for at in 0..phases {
            let figures: Vec<_> =
                self.subjects.iter().map(|s| s.phases.get(at).map_or_else(Vec::new, Phase::figures)).collect();
            let title = self.subjects.first().and_then(|s| s.phases.get(at)).map_or("", |p| p.name);
            sections.push(Section { title: title.to_owned(), rows: rows(&figures) });
        }
        let figures: Vec<_> = self.subjects.iter().map(|s| s.memory(self.setup.pods)).collect();
        if figures.iter().any(|f| !f.is_empty()) {
            sections.push(Section { title: "memory".to_owned(), rows: rows(&figures) });
        }
        sections
    }

    /// The table.
    fn table(&self) -> String {
        const LABEL: usize = 54;
        const VALUE: usize = 24;
        let setup = &self.setup;
        let mut out = format!(
            "{}: {} Pods on {} nodes, cluster {}, {} cores{}\n",
            setup.workload,
            setup.pods,
            setup.nodes,
            setup.cluster,
            setup.cores,
            if setup.optimized { "" } else { ", NOT built in release mode" }
        );
        let ratio = self.subjects.len() == 2;
        let _ = write!(out, "\n{:<LABEL$}", "");
        for subject in &self.subjects {
            let _ = write!(out, "{:>VALUE$}", subject.name);
        }
        out.push_str(if ratio { "   ratio\n" } else { "\n" });
        for section in self.sections() {
            let _ = writeln!(out, "{}", section.title);
            for row in section.rows {
                let _ = write!(out, "  {:<1$}", row.label, LABEL - 2);
                for value in &row.values {
                    let text = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.*}", row.digits));
                    let _ = write!(out, "{text:>VALUE$}");
                }
                if ratio {
                    let text = row_ratio(&row).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
                    let _ = write!(out, "{text:>8}");
                }
                out.push('\n');
            }
        }
        out
    }

    /// Prints the table.
    pub(super) fn print(&self) -> io::Result<()> {
        io::stdout().write_all(self.table().as_bytes())
    }

    /// Everything as JSON.
    pub(super) fn json(&self) -> Value {
        let subject = |subject: &Subject| {
            let memory: BTreeMap<&String, Value> = subject
                .memory
                .iter()
                .map(|(name, memory)| {
                    let mut value = json!(memory);
                    value["perPod"] = json!(memory.per_pod(self.setup.pods));
                    (name, value)
                })
                .collect();
            json!({"name": subject.name, "phases": subject.phases, "memory": memory})
        };
        let mut figures = serde_json::Map::new();
        for section in self.sections() {
            let row = |row: &Row| {
                let names = self.subjects.iter().map(|s| s.name.clone());
                let mut values: serde_json::Map<String, Value> =
                    names.zip(row.values.iter().map(|v| json!(v))).collect();
                if let Some(ratio) = row_ratio(row) {
                    values.insert("ratio".to_owned(), json!(ratio));
                }
                (row.label.trim_start().to_owned(), Value::Object(values))
            };
            figures.insert(section.title, Value::Object(section.rows.iter().map(row).collect()));
        }
        json!({
            "setup": self.setup,
            "subjects": self.subjects.iter().map(subject).collect::<Vec<_>>(),
            "figures": figures,
        })
    }
}

/// Ours out of theirs.
fn row_ratio(row: &Row) -> Option<f64> {
    match row.values[..] {
        [Some(ours), Some(theirs)] if theirs != 0.0 => Some(ours / theirs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, seconds: f64, idle: u64) -> Subject {
        let mut requests = Requests::default();
        requests.add("create pods".to_owned(), 100);
        let phase = Phase {
            name: "scale up",
            amount: Amount::pods(100),
            seconds: vec![("created", seconds)],
            cpu_seconds: BTreeMap::from([("a".to_owned(), 0.1), ("b".to_owned(), 0.3)]),
            requests,
            resident: BTreeMap::new(),
            latency: Latency::of((1..=200).map(Duration::from_millis).collect()),
        };
        let memory = Memory { idle, filled: idle + 100_000, peak: idle * 2, after: idle };
        Subject { name: name.to_owned(), phases: vec![phase], memory: BTreeMap::from([("a".to_owned(), memory)]) }
    }

    fn report(subjects: Vec<Subject>) -> Report {
        let setup = Setup {
            cluster: "sandbox".to_owned(),
            workload: "one-deployment".to_owned(),
            pods: 100,
            nodes: 2,
            cores: 2,
            optimized: true,
        };
        Report { setup, subjects }
    }

    #[test]
    fn ratios_are_ours_out_of_theirs() {
        let report = report(vec![subject("Nonet", 0.5, 10_000_000), subject("peer", 1.0, 40_000_000)]);
        let table = report.table();
        let line = |start: &str| table.lines().find(|l| l.trim_start().starts_with(start)).unwrap().to_owned();
        let words = |line: &str| line.split_whitespace().rev().take(3).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&line("Pods created a second")), ["2.00", "100", "200"]);
        assert_eq!(words(&line("CPU, ms a Pod")), ["1.00", "4.000", "4.000"]);
        assert_eq!(words(&line("requests a Pod: create")), ["1.00", "1.000", "1.000"]);
        assert_eq!(words(&line("ms from Pod event to slice, median")), ["1.00", "100.0", "100.0"]);
        assert_eq!(words(&line("ms from Pod event to slice, p99")), ["1.00", "198.0", "198.0"]);
        assert_eq!(words(&line("MB idle")), ["0.25", "40.0", "10.0"]);
        assert_eq!(words(&line("bytes a cached Pod")), ["1.00", "1000", "1000"]);
        let json = report.json();
        assert_eq!(json["figures"]["scale up"]["Pods created a second"]["ratio"], 2.0);
        assert_eq!(json["subjects"][0]["phases"][0]["requests"]["create pods"], 100);
        assert_eq!(json["subjects"][1]["memory"]["a"]["perPod"], 1000.0);
    }

    #[test]
    fn figures_are_of_what_a_phase_is_about() {
        let mut collected = subject("Nonet", 0.5, 10_000_000);
        collected.phases[0].amount = Amount::objects(50);
        let report = report(vec![collected]);
        let table = report.table();
        for line in ["objects created a second", "CPU, ms an object", "requests an object: create"] {
            assert!(table.contains(line), "{line}: {table}");
        }
        let phase = &report.json()["subjects"][0]["phases"][0];
        assert_eq!((&phase["count"], &phase["unit"]), (&json!(50), &json!("Object")));
    }

    #[test]
    fn one_subject_has_no_ratio() {
        let table = report(vec![subject("Nonet", 0.5, 10_000_000)]).table();
        assert!(!table.contains("ratio") && table.contains("Pods created a second"), "{table}");
    }
}
