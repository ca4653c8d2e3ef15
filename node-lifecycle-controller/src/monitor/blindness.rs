//! Measures how long this process has judged no node because it may have missed heartbeats.
//!
//! The time is measured by passes, not by single events: while Leases cannot be watched, events of Nodes may still arrive, but
//! no pass judges a node.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, runtime::Context};
use parking_lot::Mutex;

use crate::fleet::Fleet;

/// Whether this process is blind: it may have missed heartbeats, so its passes judge no node.
pub(crate) struct Blindness {
    context: Context,
    fleet: Arc<Mutex<Fleet>>,
    started: Instant,
    /// Time since when passes judge no node; `None` if the last pass judged nodes. Before the first pass, the start of this
    /// process.
    since: Mutex<Option<Instant>>,
    /// Whether the last pass judged no node; false before the first pass.
    is_noted: Mutex<bool>,
}

/// A difference between two successive passes: only one of the two judged nodes.
pub(super) enum Change {
    /// Passes no longer judge nodes.
    Began,
    /// Passes judge nodes again.
    Ended,
}

impl Blindness {
    pub(super) fn new(context: Context, fleet: Arc<Mutex<Fleet>>) -> Self {
        let started = context.clock.instant();
        Self { context, fleet, started, since: Mutex::new(Some(started)), is_noted: Mutex::default() }
    }

    /// Records whether a pass at `now` judged no node, and returns the change. `unseen_for` is the age of the last event or
    /// answer from the server; `None` if it is recent.
    pub(super) fn note(&self, is_blind: bool, unseen_for: Option<Duration>, now: Instant) -> Option<Change> {
        let mut since = self.since.lock();
        *since = is_blind.then(|| since.unwrap_or_else(|| earlier(now, unseen_for.unwrap_or_default())));
        match (std::mem::replace(&mut *self.is_noted.lock(), is_blind), is_blind) {
            (false, true) => Some(Change::Began),
            (true, false) => Some(Change::Ended),
            _ => None,
        }
    }

    /// Returns how long this process has judged no node, or has received neither events nor answers; the longer time counts.
    /// `None` if it judges nodes, and on a standby, which never judges nodes.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let from = if self.context.settings.shadow() { self.started } else { self.context.gate.open_since()? };
        let now = self.context.clock.instant();
        let unseen = self.fleet.lock().sight.blind_for(now);
        let noted = self.since.lock().map(|since| now.saturating_duration_since(since));
        let longest = noted.max(unseen)?;
        Some(longest.min(now.saturating_duration_since(from)))
    }
}

fn earlier(now: Instant, by: Duration) -> Instant {
    now.checked_sub(by).unwrap_or(now)
}
