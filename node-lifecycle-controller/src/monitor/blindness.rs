//! The time for which no node has been judged, because this process has no live view of nodes.
//!
//! This time is derived from passes, not from single events: while Leases cannot be watched, an event of a Node is evidence of a
//! live view, but no pass judges a node.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, runtime::Context};
use parking_lot::Mutex;

use crate::fleet::Fleet;

/// Whether passes judge nodes, and since when they do not.
pub(crate) struct Blindness {
    context: Context,
    fleet: Arc<Mutex<Fleet>>,
    started: Instant,
    /// Start of the blindness that the last pass found; `None` if it was not blind. A process is blind until its first pass.
    since: Mutex<Option<Instant>>,
    /// Whether the last pass judged no node because of blindness.
    is_noted: Mutex<bool>,
}

/// A change between two passes.
pub(super) enum Change {
    /// The process became blind.
    Began,
    /// The process has a live view again.
    Ended,
}

impl Blindness {
    pub(super) fn new(context: Context, fleet: Arc<Mutex<Fleet>>) -> Self {
        let started = context.clock.instant();
        Self { context, fleet, started, since: Mutex::new(Some(started)), is_noted: Mutex::default() }
    }

    /// Records whether a pass at `now` was blind, and returns the change. `unseen_for` is the age of the last evidence of a live
    /// view, if it is too old.
    pub(super) fn note(&self, is_blind: bool, unseen_for: Option<Duration>, now: Instant) -> Option<Change> {
        let mut since = self.since.lock();
        *since = is_blind.then(|| since.unwrap_or_else(|| earlier(now, unseen_for.unwrap_or_default())));
        match (std::mem::replace(&mut *self.is_noted.lock(), is_blind), is_blind) {
            (false, true) => Some(Change::Began),
            (true, false) => Some(Change::Ended),
            _ => None,
        }
    }

    /// How long this process has judged no node, or has had no live view; `None` if it is not blind. A standby judges no node and
    /// is never blind.
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
