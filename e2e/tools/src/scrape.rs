//! Metrics of other processes, read from their Prometheus text.

use std::collections::BTreeMap;

/// The metrics of one process at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(pub(crate) String);

impl Samples {
    /// The labels and the value of each sample of a name: `name{label="value",...} number`, with or without labels and a time.
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(labelled) => labelled.rsplit_once('}')?,
                None => ("", rest.strip_prefix(' ')?),
            };
            Some((labels, value.split_whitespace().next()?.parse().ok()?))
        })
    }

    /// The sum of all samples of a name; 0 without samples.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of(name).map(|(_, value)| value).sum()
    }

    /// The sums of the samples of a name by the value of one label, which has no quotes.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let (mut sums, start) = (BTreeMap::new(), format!("{label}=\""));
        for (labels, value) in self.of(name) {
            let of_label = labels.split_once(&start).and_then(|(_, rest)| rest.split('"').next());
            *sums.entry(of_label.unwrap_or_default().to_owned()).or_insert(0.0) += value;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_and_grouped() {
        let text = "# HELP requests Requests.\n# TYPE requests counter\nrequests_total 9\n\
            requests{code=\"201\",method=\"POST\"} 4\nrequests{code=\"409\",method=\"POST\"} 1\n\
            requests{path=\"a }, b=c\",method=\"GET\"} 2 1700000000000\ndepth 1.5e+01\nbroken{x=\"\n";
        let samples = Samples(text.to_owned());
        assert_eq!(["requests", "depth", "none", "broken"].map(|name| samples.sum(name) as u64), [7, 15, 0, 0]);
        let by = samples.by("requests", "method");
        assert_eq!(by, BTreeMap::from([("GET".to_owned(), 2.0), ("POST".to_owned(), 5.0)]));
    }
}
