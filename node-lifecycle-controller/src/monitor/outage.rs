//! Measures how long passes have made no decisions about nodes, because this process may have missed heartbeats.
//!
//! The time is measured by passes, not by single events: while Leases cannot be watched, events of Nodes may still arrive, but
//! passes make no decisions.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, runtime::LoopContext};
use parking_lot::Mutex;

use crate::node_records::NodeRecords;

/// Time in which passes make no decisions about nodes, because this process may have missed heartbeats.
pub(crate) struct MonitorOutage {
    context: LoopContext,
    node_records: Arc<Mutex<NodeRecords>>,
    started_at: Instant,
    /// Time since when passes make no decisions; `None` if the last pass made decisions. Before the first pass, the start of
    /// this process.
    outage_since: Mutex<Option<Instant>>,
    /// Whether the last pass made no decisions; false before the first pass.
    was_last_pass_in_outage: Mutex<bool>,
}

/// Difference between a pass and the previous one: only one of the two passes made decisions about nodes.
pub(super) enum OutageChange {
    /// The previous pass made decisions, this pass did not.
    Began,
    /// The previous pass made no decisions, this pass did.
    Ended,
}

impl MonitorOutage {
    pub(super) fn new(context: LoopContext, fleet: Arc<Mutex<NodeRecords>>) -> Self {
        let started = context.clock.monotonic_now();
        Self {
            context,
            node_records: fleet,
            started_at: started,
            outage_since: Mutex::new(Some(started)),
            was_last_pass_in_outage: Mutex::default(),
        }
    }

    /// Records whether a pass at `now` made no decisions, and returns the difference from the previous pass. `unseen_for` is
    /// the age of the last event or answer from the server; `None` if that is recent.
    pub(super) fn record_pass(
        &self,
        is_blind: bool,
        unseen_for: Option<Duration>,
        now: Instant,
    ) -> Option<OutageChange> {
        let mut since = self.outage_since.lock();
        *since =
            is_blind.then(|| since.unwrap_or_else(|| saturating_sub_duration(now, unseen_for.unwrap_or_default())));
        match (std::mem::replace(&mut *self.was_last_pass_in_outage.lock(), is_blind), is_blind) {
            (false, true) => Some(OutageChange::Began),
            (true, false) => Some(OutageChange::Ended),
            _ => None,
        }
    }

    /// Returns the time for which passes have made no decisions, or for which no event and no answer has arrived, if that is
    /// longer. `None` if passes make decisions, and on a standby.
    pub(crate) fn outage_duration(&self) -> Option<Duration> {
        let from =
            if self.context.settings.is_shadow() { self.started_at } else { self.context.write_gate.open_since()? };
        let now = self.context.clock.monotonic_now();
        let unseen = self.node_records.lock().server_contact.time_without_contact(now);
        let noted = self.outage_since.lock().map(|since| now.saturating_duration_since(since));
        let longest = noted.max(unseen)?;
        Some(longest.min(now.saturating_duration_since(from)))
    }
}

fn saturating_sub_duration(now: Instant, by: Duration) -> Instant {
    now.checked_sub(by).unwrap_or(now)
}
