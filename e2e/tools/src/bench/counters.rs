//! Counters of a process under test.

use std::collections::BTreeMap;

use serde::Serialize;

/// The costs of a process so far, or during a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counters {
    /// Processor time.
    pub(super) cpu_seconds: f64,
    /// Voluntary context switches of all threads.
    pub(super) context_switches: u64,
    /// Bytes received over TCP: TLS, HTTP headers and all answers.
    pub(super) received_bytes: u64,
    /// Bytes in the bodies of all answers that are not watches.
    pub(super) answered_bytes: u64,
    /// Requests by verb and resource, such as `create pods`. By verb alone if the API server does not count them.
    pub(super) requests: BTreeMap<String, u64>,
}

impl Counters {
    /// Bytes received by watches.
    pub(super) fn watched_bytes(&self) -> u64 {
        self.received_bytes.saturating_sub(self.answered_bytes)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.context_switches += other.context_switches;
        self.received_bytes += other.received_bytes;
        self.answered_bytes += other.answered_bytes;
        for (what, count) in &other.requests {
            *self.requests.entry(what.clone()).or_default() += count;
        }
    }

    fn since(&self, before: &Self) -> Self {
        let requests = self
            .requests
            .iter()
            .map(|(what, count)| (what.clone(), count.saturating_sub(before.requests.get(what).copied().unwrap_or(0))));
        Self {
            cpu_seconds: (self.cpu_seconds - before.cpu_seconds).max(0.0),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            answered_bytes: self.answered_bytes.saturating_sub(before.answered_bytes),
            requests: requests.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Adds the counters of each process.
pub(super) fn add_all(to: &mut BTreeMap<String, Counters>, other: &BTreeMap<String, Counters>) {
    for (name, counters) in other {
        to.entry(name.clone()).or_default().add(counters);
    }
}

/// The costs of each process since an earlier time.
pub(super) fn since_all(
    now: &BTreeMap<String, Counters>,
    before: &BTreeMap<String, Counters>,
) -> BTreeMap<String, Counters> {
    let none = Counters::default();
    now.iter().map(|(name, now)| (name.clone(), now.since(before.get(name).unwrap_or(&none)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_since_an_earlier_time() {
        let of = |creations: u64, watches: u64| {
            let requests = [("create pods", creations), ("watch pods", watches)];
            let requests = requests.map(|(what, count)| (what.to_owned(), count)).into();
            let all =
                Counters { received_bytes: 10 * creations, answered_bytes: creations, requests, ..Counters::default() };
            BTreeMap::from([("a".to_owned(), all)])
        };
        let mut now = of(3, 1);
        add_all(&mut now, &of(4, 0));
        let since = &since_all(&now, &of(3, 1))["a"];
        assert_eq!(since.requests, BTreeMap::from([("create pods".to_owned(), 4)]));
        assert_eq!(since.watched_bytes(), 36);
    }
}
