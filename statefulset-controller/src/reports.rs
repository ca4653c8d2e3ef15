//! What was told about a set in Events of this controller's own, so that it is told again only after a while.

use std::{collections::BTreeMap, sync::Arc};

use common::{map::HashMap, meta::Uid};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// How long something that was told is not told again. An API server keeps an Event for an hour.
pub const REPORT_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// How long the cache may take to show a Pod whose name is taken before the server is asked for it.
const CACHE_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// The differences that were reported of one set, with the times of their Events.
#[derive(Clone, Debug, Default)]
pub struct Reported(BTreeMap<String, Timestamp>);

fn is_recent(then: Timestamp, now: Timestamp) -> bool {
    now.duration_since(then) < REPORT_INTERVAL
}

impl Reported {
    /// Whether something was reported within [`REPORT_INTERVAL`].
    pub fn has_lately(&self, what: &str, now: Timestamp) -> bool {
        self.0.get(what).is_some_and(|then| is_recent(*then, now))
    }

    /// How many things were reported within [`REPORT_INTERVAL`].
    pub fn count_since(&self, now: Timestamp) -> usize {
        self.0.values().filter(|then| is_recent(**then, now)).count()
    }

    fn add(&mut self, what: String, now: Timestamp) {
        self.0.retain(|_, then| is_recent(*then, now));
        self.0.insert(what, now);
    }
}

/// The name of a Pod that could not be created because another Pod has it.
#[derive(Clone, Copy, Debug)]
pub struct TakenName {
    /// The first refusal of an unbroken series.
    first: Timestamp,
    /// The last refusal.
    last: Timestamp,
    /// When the Pod that has the name was last looked at.
    examined: Option<Timestamp>,
}

impl TakenName {
    /// Whether it is time to find out which Pod has the name, and to report it: the cache has had the time to show a Pod of the set,
    /// and this was not done lately.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_recent(self.last, now)
            && now.duration_since(self.first) >= CACHE_GRACE
            && self.examined.is_none_or(|then| !is_recent(then, now))
    }

    fn refused_at(known: Option<Self>, now: Timestamp, examined: bool) -> Self {
        let known = known.filter(|known| is_recent(known.last, now));
        Self {
            first: known.map_or(now, |known| known.first),
            last: now,
            examined: if examined { Some(now) } else { known.and_then(|known| known.examined) },
        }
    }
}

/// What was reported of all sets, by their uids.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<HashMap<Uid, SetReports>>);

#[derive(Debug, Default)]
struct SetReports {
    differences: Reported,
    taken: BTreeMap<Arc<str>, TakenName>,
}

impl Reports {
    /// The differences that were reported of a set.
    pub(crate) fn differences(&self, set: &Uid) -> Reported {
        self.0.lock().get(set).map(|reports| reports.differences.clone()).unwrap_or_default()
    }

    /// Notes that a difference was reported.
    pub(crate) fn add_difference(&self, set: &Uid, difference: String, now: Timestamp) {
        self.0.lock().entry(set.clone()).or_default().differences.add(difference, now);
    }

    /// What is known of the name of a Pod that a set could not create.
    pub(crate) fn taken(&self, set: &Uid, pod: &str) -> Option<TakenName> {
        self.0.lock().get(set)?.taken.get(pod).copied()
    }

    /// Notes that a Pod could not be created because its name is taken, and whether the Pod that has it was looked at.
    pub(crate) fn add_taken(&self, set: &Uid, pod: Arc<str>, now: Timestamp, examined: bool) {
        let mut sets = self.0.lock();
        let taken = &mut sets.entry(set.clone()).or_default().taken;
        taken.retain(|_, name| is_recent(name.last, now));
        let known = taken.get(&pod).copied();
        taken.insert(pod, TakenName::refused_at(known, now, examined));
    }

    /// Forgets the taken names of a set that its Pods have by now.
    pub(crate) fn free<'p>(&self, set: &Uid, pods: impl Iterator<Item = &'p str>) {
        let mut sets = self.0.lock();
        let Some(reports) = sets.get_mut(set).filter(|reports| !reports.taken.is_empty()) else { return };
        for pod in pods {
            reports.taken.remove(pod);
        }
    }

    /// Forgets a set that is gone.
    pub(crate) fn forget(&self, set: &Uid) {
        self.0.lock().remove(set);
    }

    /// How many sets something is kept of.
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

    #[test]
    fn a_difference_is_reported_once_an_hour() {
        let (reports, set) = (Reports::default(), Uid::new("SET"));
        assert!(!reports.differences(&set).has_lately("a", at(0)));
        reports.add_difference(&set, "a".to_owned(), at(0));
        let reported = reports.differences(&set);
        assert!(reported.has_lately("a", at(3599)) && !reported.has_lately("a", at(3600)));
        assert!(!reported.has_lately("b", at(1)));
        assert_eq!((reported.count_since(at(1)), reported.count_since(at(3600))), (1, 0));
        reports.add_difference(&set, "b".to_owned(), at(3600));
        assert_eq!(reports.differences(&set).0.len(), 1, "what is old is dropped");
        reports.forget(&set);
        assert_eq!(reports.len(), 0);
    }

    #[test]
    fn a_taken_name_is_examined_after_a_grace_period_and_once_an_hour() {
        let (reports, set, pod) = (Reports::default(), Uid::new("SET"), Arc::<str>::from("web-0"));
        let is_due = |seconds| reports.taken(&set, &pod).is_some_and(|name| name.is_due(at(seconds)));
        assert!(!is_due(0));
        reports.add_taken(&set, pod.clone(), at(0), false);
        assert!(!is_due(9) && is_due(10));
        reports.add_taken(&set, pod.clone(), at(10), true);
        assert!(!is_due(20));
        for minutes in 1..60 {
            reports.add_taken(&set, pod.clone(), at(10 + minutes * 60), false);
        }
        assert!(!is_due(3609) && is_due(3610));
        // After a long break it is another matter.
        assert!(!is_due(20_000));
        reports.add_taken(&set, pod.clone(), at(20_000), false);
        assert!(!is_due(20_005));
        reports.free(&set, ["web-1", "web-0"].into_iter());
        assert!(reports.taken(&set, &pod).is_none());
    }
}
