//! Objects that a shadow (a process that decides and never writes) wants to write although the active controller does not.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use crate::clock::Instant;

/// How long a shadow must want a write until the write counts as a difference, because the active controller needs time for it.
const MIN_DIFFERENCE_AGE: Duration = Duration::from_secs(60);

/// The most differences that are counted and listed. The limit bounds the work of deciding each listed key again.
const MAX_DIFFERENCES: usize = 100;

/// The keys of the objects that a shadow wants to write, each with the time of the first sync that wanted the write.
pub(super) struct ShadowDifferences<K>(Mutex<BTreeMap<K, Instant>>);

impl<K> Default for ShadowDifferences<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> ShadowDifferences<K> {
    /// Records whether the last sync of a shadow wanted to write the object of a key.
    pub(super) fn record_difference(&self, key: &K, differs: bool, now: Instant) {
        if differs {
            self.0.lock().entry(key.clone()).or_insert(now);
        } else {
            self.remove(key);
        }
    }

    pub(super) fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }

    /// Returns the keys of the objects that a shadow has wanted to write for at least [`MIN_DIFFERENCE_AGE`], 100 at most.
    pub(super) fn keys_with_difference_of_min_age(&self, now: Instant) -> Vec<K> {
        let is_lasting = |since: &Instant| now.saturating_duration_since(*since) >= MIN_DIFFERENCE_AGE;
        let differing = self.0.lock();
        let lasting = differing.iter().filter(|(_, since)| is_lasting(since));
        lasting.take(MAX_DIFFERENCES).map(|(key, _)| key.clone()).collect()
    }
}
