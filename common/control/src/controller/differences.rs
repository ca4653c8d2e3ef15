//! Objects for which a shadow wants to write and nobody else does.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use crate::clock::Instant;

/// How long a shadow wants to write before that counts as a difference: the controller that does the work needs its time.
const DIFFERENCE_LASTS: Duration = Duration::from_secs(60);

/// How many differences are counted and listed at most: each is decided again when it is counted.
const DIFFERENCES: usize = 100;

/// Keys for which a shadow wants to write, and since when.
pub(super) struct Differences<K>(Mutex<BTreeMap<K, Instant>>);

impl<K> Default for Differences<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> Differences<K> {
    /// Notes whether a shadow wants to write for a key.
    pub(super) fn note(&self, key: &K, differs: bool, now: Instant) {
        if differs {
            self.0.lock().entry(key.clone()).or_insert(now);
        } else {
            self.remove(key);
        }
    }

    /// Forgets a key.
    pub(super) fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }

    /// The keys for which a shadow has wanted to write for [`DIFFERENCE_LASTS`].
    pub(super) fn lasting(&self, now: Instant) -> Vec<K> {
        let is_lasting = |since: &Instant| now.saturating_duration_since(*since) >= DIFFERENCE_LASTS;
        let differing = self.0.lock();
        let lasting = differing.iter().filter(|(_, since)| is_lasting(since));
        lasting.take(DIFFERENCES).map(|(key, _)| key.clone()).collect()
    }
}
