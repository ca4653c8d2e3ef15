//! Monitors as sources of the graph, and the lists of objects that monitors read.

use super::{KindId, slab::GraphNodeId};

/// Identity of a monitor: the kind of its objects, and a serial number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorId {
    /// Kind of the objects that the monitor sees.
    pub kind: KindId,
    pub(super) serial_number: u32,
}

/// Counters that show whether a list contains all objects of a monitor.
#[derive(Default)]
pub(super) struct MonitorCounters {
    /// Number of objects in the graph that belong to this monitor.
    pub(super) object_count: u32,
    /// Number of objects of this monitor that were removed from the graph so far.
    pub(super) removal_count: u64,
}

/// The objects that a monitor has read so far in one list, one bit each.
#[derive(Debug)]
pub struct ListedObjects {
    pub(super) monitor: MonitorId,
    places: Vec<u64>,
    count: u32,
    /// Number of objects of the monitor that had been removed from the graph when the list began.
    removals: u64,
}

impl ListedObjects {
    pub(super) fn new(monitor_id: MonitorId, counters: Option<&MonitorCounters>) -> Self {
        let removals = counters.map_or(0, |counters| counters.removal_count);
        Self { monitor: monitor_id, places: Vec::new(), count: 0, removals }
    }

    /// Adds an object of the list. `own` is false if the object belongs to another monitor, which saw it first.
    pub(super) fn insert(&mut self, id: GraphNodeId, own: bool) {
        let (word, bit) = (id.0 as usize / 64, 1u64 << (id.0 % 64));
        if word >= self.places.len() {
            self.places.resize(word + 1, 0);
        }
        if self.places[word] & bit == 0 {
            self.places[word] |= bit;
            self.count += u32::from(own);
        }
    }

    pub(super) fn contains(&self, id: GraphNodeId) -> bool {
        self.places.get(id.0 as usize / 64).is_some_and(|word| word & (1 << (id.0 % 64)) != 0)
    }

    /// Returns false if the list lacks an object of the monitor, or if an object was removed since the list began.
    pub(super) fn contains_all_objects(&self, counters: &MonitorCounters) -> bool {
        self.count == counters.object_count && self.removals == counters.removal_count
    }
}
