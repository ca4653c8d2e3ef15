//! The tables.

use std::fmt::Write as _;

use super::{
    Report,
    figures::{BY_CONTROLLER, Section, Spread},
};

const LABEL: usize = 54;
/// Width of a value, and of one with its spread.
const VALUE: usize = 24;
const VALUE_WITH_SPREAD: usize = 34;
/// Width of the names and of the values in the table of controllers.
const NAME: usize = 28;
const COLUMN: usize = 12;

impl Report {
    /// The table: a column for each subject, one for their ratio if there are two, and one for the ratio to earlier figures.
    pub(in crate::bench) fn table(&self) -> String {
        let runs = self.results.iter().map(|results| results.runs.len()).max().unwrap_or(0);
        let width = if runs > 1 { VALUE_WITH_SPREAD } else { VALUE };
        let line = |label: &str, cells: Vec<String>, ratio: &str, to_earlier: &str| {
            let mut line = format!("{label:<LABEL$}");
            for cell in cells {
                let _ = write!(line, "{cell:>width$}");
            }
            if self.results.len() == 2 {
                let _ = write!(line, "{ratio:>8}");
            }
            if self.baseline.is_some() {
                let _ = write!(line, "{to_earlier:>12}");
            }
            line + "\n"
        };
        let names = self.results.iter().map(|results| results.name.to_owned()).collect();
        let mut out = self.heading(runs) + "\n" + &line("", names, "ratio", "to earlier");
        for section in self.sections() {
            if section.title == BY_CONTROLLER {
                out.push_str(&self.controllers(&section));
                continue;
            }
            let _ = writeln!(out, "{}", section.title);
            for row in &section.rows {
                let cells = (0..self.results.len()).map(|n| cell(row.spread(n), row.digits, runs)).collect();
                let [ratio, to_earlier] = [row.ratio(), self.ratio_to_baseline(&section, row)]
                    .map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
                out.push_str(&line(&format!("  {}", row.label), cells, &ratio, &to_earlier));
            }
        }
        out
    }

    /// A separate table for each subject with several processes. It has a line with medians for each process and one for all.
    fn controllers(&self, section: &Section) -> String {
        let mut out = String::new();
        for (subject, results) in self.results.iter().enumerate() {
            let mut lines: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
            for row in &section.rows {
                let Some((name, column)) = row.label.split_once(": ") else { continue };
                let Some(spread) = row.spread(subject) else { continue };
                let value = (column, cell(Some(spread), row.digits, 1));
                match lines.last_mut().filter(|(last, _)| *last == name) {
                    Some((_, values)) => values.push(value),
                    None => lines.push((name, vec![value])),
                }
            }
            // One process and the sum, which is equal.
            if lines.len() <= 2 {
                continue;
            }
            // The sum is the last line, for any order of the subjects.
            lines.sort_by_key(|(name, _)| *name == "all");
            let _ = write!(out, "{:<NAME$}", format!("{}, by controller", results.name));
            for (column, _) in lines.first().into_iter().flat_map(|(_, values)| values) {
                let _ = write!(out, "{column:>COLUMN$}");
            }
            for (name, values) in &lines {
                let _ = write!(out, "\n  {name:<0$}", NAME - 2);
                for (_, value) in values {
                    let _ = write!(out, "{value:>COLUMN$}");
                }
            }
            out.push('\n');
        }
        out
    }

    /// The setup and the meaning of the columns.
    fn heading(&self, runs: usize) -> String {
        let setup = &self.setup;
        let mut out = format!(
            "{}: scale {}, {} nodes, cluster {}, {} cores{}\n",
            setup.workload,
            setup.pods,
            setup.nodes,
            setup.cluster,
            setup.cores,
            if setup.optimized { "" } else { ", NOT built in release mode" }
        );
        if runs > 1 {
            let _ = writeln!(out, "medians of {runs} runs (minimum..maximum)");
        }
        if let Some((path, _)) = &self.baseline {
            let name = self.results.first().map_or("", |results| results.name);
            let _ = writeln!(out, "to earlier: {name} now / {name} in {}", path.display());
        }
        out
    }
}

/// A value, with its spread if there are several runs.
fn cell(spread: Option<Spread>, digits: usize, runs: usize) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { median, .. }) if runs < 2 => format!("{median:.digits$}"),
        Some(Spread { median, min, max }) => format!("{median:.digits$} ({min:.digits$}..{max:.digits$})"),
    }
}
