//! Figures: numbers with a label, and their median and spread over several runs.

use serde::Serialize;

/// A number of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Indented if the figure is a part of the one before it.
    pub(super) label: String,
    /// The number of decimals.
    pub(super) digits: usize,
    pub(super) value: f64,
}

impl Figure {
    pub(super) fn new(label: impl Into<String>, digits: usize, value: f64) -> Self {
        Self { label: label.into(), digits, value }
    }
}

/// The same number in several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The summary of the values. The median of an even number of values is the mean of the two in the middle. `None` without
    /// values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Self { median: f64::midpoint(values[lower], values[upper]), min, max })
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) digits: usize,
    /// One for each subject; `None` if the subject does not have the figure.
    pub(super) spreads: Vec<Option<Spread>>,
}

impl Row {
    /// The label without its indentation.
    pub(super) fn key(&self) -> &str {
        self.label.trim_start()
    }

    /// The median of the first subject divided by that of the second, if there are two.
    pub(super) fn ratio(&self) -> Option<f64> {
        match self.spreads[..] {
            [Some(first), Some(second)] => ratio(first.median, second.median),
            _ => None,
        }
    }
}

/// A part of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// A quotient; `None` for the divisor zero.
pub(super) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b != 0.0).then(|| a / b)
}

/// All values of a row.
struct Values<'a> {
    label: &'a str,
    digits: usize,
    /// One for each run, by subject.
    by_subject: Vec<Vec<f64>>,
}

/// The figures of one run: titles of sections with their figures.
pub(super) type RunFigures<'a> = Vec<(&'a str, Vec<Figure>)>;

/// Puts the figures of several subjects, each with several runs, side by side. Sections without figures are left out.
pub(super) fn sections(subjects: &[Vec<RunFigures<'_>>]) -> Vec<Section> {
    let mut sections: Vec<(&str, Vec<Values<'_>>)> = Vec::new();
    for (subject, runs) in subjects.iter().enumerate() {
        for (title, figures) in runs.iter().flatten().filter(|(_, figures)| !figures.is_empty()) {
            let at = sections.iter().position(|(known, _)| known == title).unwrap_or_else(|| {
                sections.push((title, Vec::new()));
                sections.len() - 1
            });
            for figure in figures {
                add(&mut sections[at].1, figure, subject, subjects.len());
            }
        }
    }
    let row = |values: Values<'_>| Row {
        label: values.label.to_owned(),
        digits: values.digits,
        spreads: values.by_subject.into_iter().map(Spread::of).collect(),
    };
    let section = |(title, rows): (&str, Vec<Values<'_>>)| Section {
        title: title.to_owned(),
        rows: rows.into_iter().map(row).collect(),
    };
    sections.into_iter().map(section).collect()
}

/// Adds a figure of a subject to the row with its label.
fn add<'a>(rows: &mut Vec<Values<'a>>, figure: &'a Figure, subject: usize, subjects: usize) {
    let at = rows.iter().position(|row| row.label == figure.label).unwrap_or_else(|| {
        rows.push(Values { label: &figure.label, digits: figure.digits, by_subject: vec![Vec::new(); subjects] });
        rows.len() - 1
    });
    rows[at].by_subject[subject].push(figure.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { median: 3.0, min: 3.0, max: 3.0 }));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[8.0, 1.0, 2.0, 4.0]), Some(Spread { median: 3.0, min: 1.0, max: 8.0 }));
    }

    #[test]
    fn figures_with_the_same_label_share_a_row() {
        let run = |value| vec![("restart", vec![Figure::new("CPU, s", 2, value)]), ("memory", Vec::new())];
        let other = vec![("restart", vec![Figure::new("requests: get", 0, 7.0)])];
        let sections = sections(&[vec![run(1.0), run(3.0)], vec![other]]);
        let row = |label: &str, digits, spreads| Row { label: label.to_owned(), digits, spreads };
        let rows = vec![
            row("CPU, s", 2, vec![Spread::of(vec![1.0, 3.0]), None]),
            row("requests: get", 0, vec![None, Spread::of(vec![7.0])]),
        ];
        assert_eq!(sections, [Section { title: "restart".to_owned(), rows }]);
    }
}
