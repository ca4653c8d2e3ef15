//! The time for which no node has been judged, because this process does not see what nodes do.
//!
//! It is told from passes, not from single proofs of sight: while Leases cannot be watched, an event of a Node is a proof,
//! and still no pass judges a node.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, runtime::Context};
use parking_lot::Mutex;

use crate::fleet::Fleet;

/// Whether passes judge nodes, and since when they do not.
pub(crate) struct Blindness {
    context: Context,
    fleet: Arc<Mutex<Fleet>>,
    started: Instant,
    /// When the blindness began that the last pass found. A process is blind until its first pass.
    since: Mutex<Option<Instant>>,
    /// Whether the last pass judged nobody because nothing was seen.
    is_noted: Mutex<bool>,
}

/// A change that a pass brings.
pub(super) enum Change {
    /// The process became blind.
    Began,
    /// The process sees again.
    Ended,
}

impl Blindness {
    pub(super) fn new(context: Context, fleet: Arc<Mutex<Fleet>>) -> Self {
        let started = context.clock.instant();
        Self { context, fleet, started, since: Mutex::new(Some(started)), is_noted: Mutex::default() }
    }

    /// Takes over from a pass at `now` whether it was blind. `unseen_for`: how old the last proof of sight is, where it is
    /// too old.
    pub(super) fn note(&self, is_blind: bool, unseen_for: Option<Duration>, now: Instant) -> Option<Change> {
        let mut since = self.since.lock();
        *since = is_blind.then(|| since.unwrap_or_else(|| earlier(now, unseen_for.unwrap_or_default())));
        match (std::mem::replace(&mut *self.is_noted.lock(), is_blind), is_blind) {
            (false, true) => Some(Change::Began),
            (true, false) => Some(Change::Ended),
            _ => None,
        }
    }

    /// How long this process has judged no node, or has seen nothing; none if it sees. A standby judges no node and is
    /// never blind.
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
