//! Measures how long passes have made no decisions about nodes, because this process may have missed heartbeats.
//!
//! The time is measured by passes, not by single events: while Leases cannot be watched, events of Nodes may still arrive, but
//! passes make no decisions.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
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
    pub(super) fn new(context: LoopContext, node_records: Arc<Mutex<NodeRecords>>) -> Self {
        let started_at = context.clock.monotonic_now();
        Self {
            context,
            node_records,
            started_at,
            outage_since: Mutex::new(Some(started_at)),
            was_last_pass_in_outage: Mutex::default(),
        }
    }

    /// Records whether a pass at `now` made no decisions, and returns the difference from the previous pass.
    /// `time_without_contact` is the age of the last event or answer from the server; `None` if that is recent.
    pub(super) fn record_pass(
        &self,
        is_in_outage: bool,
        time_without_contact: Option<Duration>,
        now: Instant,
    ) -> Option<OutageChange> {
        let mut since = self.outage_since.lock();
        let start = || now.checked_sub(time_without_contact.unwrap_or_default()).unwrap_or(now);
        *since = is_in_outage.then(|| since.unwrap_or_else(start));
        match (std::mem::replace(&mut *self.was_last_pass_in_outage.lock(), is_in_outage), is_in_outage) {
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
        let time_without_contact = self.node_records.lock().server_contact.time_without_contact(now);
        let outage = self.outage_since.lock().map(|since| now.saturating_duration_since(since));
        let longest = outage.max(time_without_contact)?;
        Some(longest.min(now.saturating_duration_since(from)))
    }
}
