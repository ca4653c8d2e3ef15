//! Metrics of other processes, read from their Prometheus text.

use std::collections::BTreeMap;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The samples of one process at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples(Vec<Sample>);

impl Samples {
    /// Reads Prometheus text; lines without a sample are left out.
    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// The sum of all samples of a name; `None` without samples.
    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        let mut found = self.0.iter().filter(|s| s.name == name).map(|s| s.value).peekable();
        found.peek().is_some().then(|| found.sum())
    }

    /// The sums of the samples of a name by the value of one label.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for sample in self.0.iter().filter(|s| s.name == name) {
            let value = sample.labels.get(label).cloned().unwrap_or_default();
            *sums.entry(value).or_insert(0.0) += sample.value;
        }
        sums
    }
}

/// Reads `name{label="value",...} number`, with or without labels, and with or without a time.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        loop {
            match chars.next()? {
                (at, '"') => {
                    text = &rest[at + 1..];
                    break;
                }
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, c) => value.push(c),
            }
        }
        labels.insert(name.trim().to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP requests Requests.\n# TYPE requests counter\n\
        requests{code=\"201\",method=\"POST\"} 4\nrequests{code=\"409\",method=\"POST\"} 1\n\
        requests{code=\"200\",method=\"GET\"} 2 1700000000000\ndepth 1.5e+01\nodd{text=\"a \\\"}, b=\\\\c\"} 1\nbroken{x=\"\n";

    #[test]
    fn samples_are_summed_and_grouped() {
        let samples = Samples::parse(TEXT);
        assert_eq!(samples.sum("requests"), Some(7.0));
        assert_eq!(samples.sum("depth"), Some(15.0));
        assert_eq!(samples.sum("none"), None);
        let by = samples.by("requests", "method");
        assert_eq!(by, BTreeMap::from([("GET".to_owned(), 2.0), ("POST".to_owned(), 5.0)]));
    }

    #[test]
    fn label_values_may_hold_anything() {
        let by = Samples::parse(TEXT).by("odd", "text");
        assert_eq!(by.keys().collect::<Vec<_>>(), ["a \"}, b=\\c"]);
    }
}
