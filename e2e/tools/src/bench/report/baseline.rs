//! Figures of an earlier run, read from its JSON.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{FORMAT, Setup};

/// The earlier figures of one subject.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Baseline {
    subject: &'static str,
    /// Figures by section, label and subject.
    figures: Value,
}

impl Baseline {
    /// Reads the figures of a subject from a file that `--json` has written. An error is one line with the name of the file.
    pub(in crate::bench) fn read(path: &Path, setup: &Setup, subject: &'static str) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|error| named(format!("cannot be read: {error}")))?;
        Self::parse(&text, setup, subject).map_err(named)
    }

    pub(super) fn parse(text: &str, setup: &Setup, subject: &'static str) -> Result<Self, String> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        if value["format"] != FORMAT {
            return Err(format!("not a result of this version of the bench: its format is not {FORMAT:?}"));
        }
        let differences = differences(&value["setup"], &json!(setup));
        if !differences.is_empty() {
            return Err(format!("measured with another setup: {differences}"));
        }
        let baseline = Self { subject, figures: value["figures"].take() };
        let sections = baseline.figures.as_object().into_iter().flatten();
        let mut labels = sections.flat_map(|(title, rows)| {
            rows.as_object().into_iter().flatten().map(move |(label, _)| (title.as_str(), label.as_str()))
        });
        if !labels.any(|(title, label)| baseline.median(title, label).is_some()) {
            return Err(format!("without figures of {subject}"));
        }
        Ok(baseline)
    }

    /// The median of a figure; `None` if the earlier run did not have it.
    pub(super) fn median(&self, title: &str, label: &str) -> Option<f64> {
        self.figures[title][label][self.subject]["median"].as_f64()
    }
}

/// The fields of the setup that differ from the earlier setup.
fn differences(earlier: &Value, now: &Value) -> String {
    let fields = now.as_object().into_iter().flatten();
    let different = fields.filter(|(name, value)| earlier[name.as_str()] != **value);
    let texts = different.map(|(name, value)| format!("{name} {}, now {value}", earlier[name.as_str()]));
    texts.collect::<Vec<_>>().join("; ")
}
