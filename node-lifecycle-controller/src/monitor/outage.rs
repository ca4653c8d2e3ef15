//! Measures how long passes have made no decisions about nodes, because this process may have missed heartbeats.
//!
//! The time is measured by passes, not by single events: while Leases cannot be watched, events of Nodes may still arrive, but
//! passes make no decisions.

use std::{sync::Arc, time::Duration};

use common::{metrics::Counter, prelude::*};
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

    /// Records a pass at `now`, with the reason if it made no decisions about nodes. The first such pass is logged and counted in
    /// `outage_counter`. `time_without_contact` is the age of the last event or answer from the server; `None` if that is recent.
    pub(super) fn record_pass(
        &self,
        outage_reason: Option<&str>,
        time_without_contact: Option<Duration>,
        now: Instant,
        outage_counter: &Counter,
    ) {
        let mut since = self.outage_since.lock();
        let start = || now.checked_sub(time_without_contact.unwrap_or_default()).unwrap_or(now);
        *since = outage_reason.map(|_| since.unwrap_or_else(start));
        let was_in_outage = std::mem::replace(&mut *self.was_last_pass_in_outage.lock(), outage_reason.is_some());
        let logger = "node-controller";
        match outage_reason {
            Some(why) if !was_in_outage => {
                outage_counter.inc();
                tracing::warn!(logger, why, "Nodes are not judged, because there is no live view of them");
            }
            None if was_in_outage => tracing::info!(logger, "Nodes are judged again, and all grace periods restart"),
            _ => {}
        }
    }

    /// Returns the time for which passes have made no decisions, or for which no event and no answer has arrived, if that is
    /// longer. `None` if passes make decisions, and on a standby.
    pub(crate) fn outage_duration(&self) -> Option<Duration> {
        let from = if self.context.settings.is_shadow() {
            self.started_at
        } else {
            self.context.write_gate.leading_since()?
        };
        let now = self.context.clock.monotonic_now();
        let time_without_contact = self.node_records.lock().server_contact.time_without_contact(now);
        let outage = self.outage_since.lock().map(|since| now.saturating_duration_since(since));
        let longest = outage.max(time_without_contact)?;
        Some(longest.min(now.saturating_duration_since(from)))
    }
}
