//! Objects for which a shadow wants to write and nobody else does.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{Controller, Decision, Observed, Shared};
use crate::{clock::Instant, metrics::Stability};

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
    fn lasting(&self, now: Instant) -> Vec<K> {
        let is_lasting = |since: &Instant| now.saturating_duration_since(*since) >= DIFFERENCE_LASTS;
        let differing = self.0.lock();
        let lasting = differing.iter().filter(|(_, since)| is_lasting(since));
        lasting.take(DIFFERENCES).map(|(key, _)| key.clone()).collect()
    }
}

impl<C: Controller> Shared<C> {
    /// Serves the number of lasting differences of a shadow.
    pub(super) fn count_differences(self: &Arc<Self>) {
        let help = "Objects for which a shadow has wanted to write for more than a minute while nobody else did, 100 at most, by loop.";
        let gauge = self.context.metrics.gauge("nonet_shadow_differences", Stability::Alpha, help, &["name"]);
        let (gauge, shared) = (gauge.with(&[self.name]), Arc::downgrade(self));
        self.context.metrics.before_scrape(move || {
            if let Some(shared) = shared.upgrade() {
                gauge.set(shared.differences().len() as f64);
            }
        });
    }

    /// The keys for which a shadow has wanted to write for longer than the controller that does the work takes, and still wants to.
    pub(super) fn differences(&self) -> Vec<C::Key> {
        let (clock, now) = (&self.context.clock, self.context.clock.now());
        let keys = self.differences.lasting(clock.instant());
        let wants_to_write = |key: &C::Key| matches!(self.controller.observe(key, now), Ok(Observed::Ready(snapshot)) if Decision::<C>::of(&snapshot, now).acts());
        let (lasting, settled): (Vec<_>, Vec<_>) = keys.into_iter().partition(wants_to_write);
        for key in &settled {
            self.differences.remove(key);
        }
        lasting
    }
}
