//! Objects that a shadow (a process that decides and never writes) wants to write although the active controller does not.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use crate::clock::Instant;

/// How long a shadow must want to write until this counts as a difference. The active controller needs time for its own write.
const MIN_DIFFERENCE_AGE: Duration = Duration::from_secs(60);

/// The most differences that are counted and listed. The limit bounds the work, because each listed key is decided again.
const MAX_DIFFERENCES: usize = 100;

/// The keys that a shadow wants to write, each with the start of this wish.
pub(super) struct ShadowDifferences<K>(Mutex<BTreeMap<K, Instant>>);

impl<K> Default for ShadowDifferences<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> ShadowDifferences<K> {
    /// Records whether a shadow wants to write the object of a key.
    pub(super) fn record_key(&self, key: &K, differs: bool, now: Instant) {
        if differs {
            self.0.lock().entry(key.clone()).or_insert(now);
        } else {
            self.remove(key);
        }
    }

    pub(super) fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }

    /// Returns the keys that a shadow has wanted to write for at least [`MIN_DIFFERENCE_AGE`].
    pub(super) fn lasting_keys(&self, now: Instant) -> Vec<K> {
        let is_lasting = |since: &Instant| now.saturating_duration_since(*since) >= MIN_DIFFERENCE_AGE;
        let differing = self.0.lock();
        let lasting = differing.iter().filter(|(_, since)| is_lasting(since));
        lasting.take(MAX_DIFFERENCES).map(|(key, _)| key.clone()).collect()
    }
}
