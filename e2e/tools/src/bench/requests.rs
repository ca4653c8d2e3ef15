//! Counters of requests: by verb and resource if the API server counts them, and by HTTP method otherwise.

use std::collections::BTreeMap;

/// Counters of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub(super) struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// Adds to a counter: `create pods`, or `create` if the resource is unknown.
    pub(super) fn add(&mut self, what: String, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// Adds other counters to these.
    pub(super) fn merge(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.add(what.clone(), *count);
        }
    }

    /// The requests since an earlier state of the same counters.
    pub(super) fn since(&self, before: &Self) -> Self {
        let difference = |(what, count): (&String, &u64)| {
            let more = count.saturating_sub(before.0.get(what).copied().unwrap_or(0));
            (more > 0).then(|| (what.clone(), more))
        };
        Self(self.0.iter().filter_map(difference).collect())
    }

    /// All counters.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }

    /// The number of all requests.
    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Sums by verb.
    pub(super) fn by_verb(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (what, count) in &self.0 {
            let verb = what.split(' ').next().unwrap_or(what);
            *sums.entry(verb.to_owned()).or_default() += count;
        }
        sums
    }
}

/// The verbs that a client sends with an HTTP method.
pub(super) fn verbs(method: &str) -> String {
    match method {
        "GET" => "get/list/watch",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete/deletecollection",
        other => return other.to_ascii_lowercase(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_apart_only_by_verb() {
        let mut requests = Requests::default();
        for what in ["get deployments.apps", "list pods", "watch pods"] {
            requests.add(what.to_owned(), 2);
        }
        requests.add(verbs("GET"), 5);
        assert_eq!(
            requests.by_verb().into_iter().collect::<Vec<_>>(),
            [("get".to_owned(), 2), ("get/list/watch".to_owned(), 5), ("list".to_owned(), 2), ("watch".to_owned(), 2)]
        );
        assert_eq!(requests.total(), 11);
    }

    #[test]
    fn what_came_since_is_summed_by_verb() {
        let mut before = Requests::default();
        before.add("create pods".to_owned(), 3);
        before.add("watch pods".to_owned(), 1);
        let mut after = before.clone();
        after.add("create pods".to_owned(), 4);
        after.add("create events".to_owned(), 1);
        let since = after.since(&before);
        assert_eq!(since.by_verb(), BTreeMap::from([("create".to_owned(), 5)]));
    }
}
