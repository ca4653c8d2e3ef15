//! Times of the Events that only this controller records, not upstream. Each Event is repeated at most once an hour.

use std::{collections::BTreeMap, sync::Arc};

use common::prelude::*;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Minimum time between two Events with the same content. An API server keeps an Event for an hour.
pub const REPORT_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// Time for the cache to show a Pod that the set created, before an Event reports that another Pod has the name.
const CACHE_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// The claim mismatches of one set that were reported in Events, with the times of the Events.
#[derive(Clone, Debug, Default)]
pub struct ReportedMismatches(BTreeMap<String, Timestamp>);

fn is_recent(then: Timestamp, now: Timestamp) -> bool {
    now.duration_since(then) < REPORT_INTERVAL
}

impl ReportedMismatches {
    /// Returns whether a mismatch was reported within [`REPORT_INTERVAL`] before `now`.
    pub fn was_reported_recently(&self, what: &str, now: Timestamp) -> bool {
        self.0.get(what).is_some_and(|then| is_recent(*then, now))
    }

    /// Returns the number of mismatches that were reported within [`REPORT_INTERVAL`] before `now`.
    pub fn recently_reported_count(&self, now: Timestamp) -> usize {
        self.0.values().filter(|then| is_recent(**then, now)).count()
    }

    fn add(&mut self, what: String, now: Timestamp) {
        self.0.retain(|_, then| is_recent(*then, now));
        self.0.insert(what, now);
    }
}

/// The series of creations of one Pod that the server refused because another Pod has the name.
#[derive(Clone, Copy, Debug)]
pub struct RefusedCreations {
    /// Time of the first refusal in the series. After [`REPORT_INTERVAL`] without a refusal, a new series begins.
    first: Timestamp,
    last: Timestamp,
    /// Time of the last Event about the Pod that has the name; `None` before the first Event.
    last_report: Option<Timestamp>,
}

impl RefusedCreations {
    /// Returns whether to report the Pod that has the name. The cache must have had 10 seconds to show a Pod of the set, and
    /// the last report must be older than [`REPORT_INTERVAL`].
    pub fn is_report_due(&self, now: Timestamp) -> bool {
        is_recent(self.last, now)
            && now.duration_since(self.first) >= CACHE_GRACE
            && self.last_report.is_none_or(|then| !is_recent(then, now))
    }

    fn refused_at(known: Option<Self>, now: Timestamp, examined: bool) -> Self {
        let known = known.filter(|known| is_recent(known.last, now));
        Self {
            first: known.map_or(now, |known| known.first),
            last: now,
            last_report: if examined { Some(now) } else { known.and_then(|known| known.last_report) },
        }
    }
}

/// The times of Events about all sets, by UID of the set.
#[derive(Debug, Default)]
pub(crate) struct ReportTimes(Mutex<HashMap<Uid, SetReports>>);

#[derive(Debug, Default)]
struct SetReports {
    differences: ReportedMismatches,
    refused_creations: BTreeMap<Arc<str>, RefusedCreations>,
}

impl ReportTimes {
    pub(crate) fn reported_mismatches(&self, set: &Uid) -> ReportedMismatches {
        self.0.lock().get(set).map(|reports| reports.differences.clone()).unwrap_or_default()
    }

    pub(crate) fn add_mismatch_report(&self, set: &Uid, difference: String, now: Timestamp) {
        self.0.lock().entry(set.clone()).or_default().differences.add(difference, now);
    }

    /// Returns the refused creations of a Pod; `None` if no creation was refused.
    pub(crate) fn refused_creations(&self, set: &Uid, pod: &str) -> Option<RefusedCreations> {
        self.0.lock().get(set)?.refused_creations.get(pod).copied()
    }

    /// Records a refused creation of a Pod with a taken name. `examined` is true if an Event reports the holder of the name.
    pub(crate) fn add_refused_creation(&self, set: &Uid, pod: Arc<str>, now: Timestamp, examined: bool) {
        let mut sets = self.0.lock();
        let taken = &mut sets.entry(set.clone()).or_default().refused_creations;
        taken.retain(|_, name| is_recent(name.last, now));
        let known = taken.get(&pod).copied();
        taken.insert(pod, RefusedCreations::refused_at(known, now, examined));
    }

    /// Removes the refused creations of Pods that the set owns now.
    pub(crate) fn remove_refused_creations<'p>(&self, set: &Uid, pods: impl Iterator<Item = &'p str>) {
        let mut sets = self.0.lock();
        let Some(reports) = sets.get_mut(set).filter(|reports| !reports.refused_creations.is_empty()) else { return };
        for pod in pods {
            reports.refused_creations.remove(pod);
        }
    }

    pub(crate) fn forget_set(&self, set: &Uid) {
        self.0.lock().remove(set);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    /// STATEFULSET-88.
    #[test]
    fn a_difference_is_reported_once_an_hour() {
        let (reports, set) = (ReportTimes::default(), Uid::new("SET"));
        assert!(!reports.reported_mismatches(&set).was_reported_recently("a", at(0)));
        reports.add_mismatch_report(&set, "a".to_owned(), at(0));
        let reported = reports.reported_mismatches(&set);
        assert!(reported.was_reported_recently("a", at(3599)) && !reported.was_reported_recently("a", at(3600)));
        assert!(!reported.was_reported_recently("b", at(1)));
        assert_eq!((reported.recently_reported_count(at(1)), reported.recently_reported_count(at(3600))), (1, 0));
        reports.add_mismatch_report(&set, "b".to_owned(), at(3600));
        assert_eq!(reports.reported_mismatches(&set).0.len(), 1, "old entries are dropped");
        reports.forget_set(&set);
        assert_eq!(reports.len(), 0);
    }

    /// STATEFULSET-77.
    #[test]
    fn a_taken_name_is_examined_after_a_grace_period_and_once_an_hour() {
        let (reports, set, pod) = (ReportTimes::default(), Uid::new("SET"), Arc::<str>::from("web-0"));
        let is_due =
            |seconds| reports.refused_creations(&set, &pod).is_some_and(|name| name.is_report_due(at(seconds)));
        assert!(!is_due(0));
        reports.add_refused_creation(&set, pod.clone(), at(0), false);
        assert!(!is_due(9) && is_due(10));
        reports.add_refused_creation(&set, pod.clone(), at(10), true);
        assert!(!is_due(20));
        for minutes in 1..60 {
            reports.add_refused_creation(&set, pod.clone(), at(10 + minutes * 60), false);
        }
        assert!(!is_due(3609) && is_due(3610));
        // After more than an hour without a refusal, a new series of refusals begins.
        assert!(!is_due(20_000));
        reports.add_refused_creation(&set, pod.clone(), at(20_000), false);
        assert!(!is_due(20_005));
        reports.remove_refused_creations(&set, ["web-1", "web-0"].into_iter());
        assert!(reports.refused_creations(&set, &pod).is_none());
    }
}
