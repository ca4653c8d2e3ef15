//! Parked objects. Each of them waits, without retries, until a kind is served, or until the initial list of a kind is
//! complete. No event of the object itself reports this.
//!
//! A parked object costs nothing while it waits: the periodic check visits the wait conditions, not the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use common::map::HashMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{graph::Kind, key::ObjectKey};

/// Maximum number of wait conditions in `/debug/explain`.
const MAX_LISTED_CONDITIONS: usize = 100;
/// Maximum number of objects for each wait condition in `/debug/explain`.
const MAX_LISTED_KEYS: usize = 10;

/// The state of one kind, or of all kinds, that a parked object waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitCondition {
    /// A resource of this kind is served.
    KindServed(Kind),
    /// The initial list of this kind is complete.
    KindListed(Kind),
    /// The initial lists of all kinds are complete, except kinds with a watch that has failed for a minute and a half.
    EverythingListed,
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KindServed(kind) => write!(f, "kind {} of {} is not served", kind.kind, kind.api_version),
            Self::KindListed(kind) => {
                write!(f, "not all objects of kind {} of {} are known", kind.kind, kind.api_version)
            }
            Self::EverythingListed => f.write_str("not all objects of all kinds are known"),
        }
    }
}

/// The queue to which a parked object returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QueueId {
    Delete,
    Orphan,
}

#[derive(Default)]
struct ParkedState {
    keys_by_condition: BTreeMap<WaitCondition, BTreeSet<(QueueId, ObjectKey)>>,
    condition_by_key: HashMap<(QueueId, ObjectKey), WaitCondition>,
}

impl ParkedState {
    fn remove(&mut self, queue_and_key: &(QueueId, ObjectKey)) {
        let Some(condition) = self.condition_by_key.remove(queue_and_key) else { return };
        if let Some(all) = self.keys_by_condition.get_mut(&condition) {
            all.remove(queue_and_key);
            if all.is_empty() {
                self.keys_by_condition.remove(&condition);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct ParkedObjects {
    state: Mutex<ParkedState>,
    /// Notified when the first object waits for [`WaitCondition::EverythingListed`], which needs a periodic check.
    pub(crate) periodic_check_needed: Notify,
}

impl ParkedObjects {
    /// Parks an object. `condition` replaces the previous wait condition of the object.
    pub(crate) fn park(&self, queue_id: QueueId, key: ObjectKey, condition: WaitCondition) {
        let mut state = self.state.lock();
        let queue_and_key = (queue_id, key);
        state.remove(&queue_and_key);
        // Wait conditions other than `EverythingListed` are checked after discovery and initial lists, so they need no timer.
        let first = condition == WaitCondition::EverythingListed && !state.keys_by_condition.contains_key(&condition);
        state.keys_by_condition.entry(condition.clone()).or_default().insert(queue_and_key.clone());
        state.condition_by_key.insert(queue_and_key, condition);
        drop(state);
        if first {
            self.periodic_check_needed.notify_one();
        }
    }

    pub(crate) fn unpark(&self, queue_id: QueueId, key: ObjectKey) {
        self.state.lock().remove(&(queue_id, key));
    }

    pub(crate) fn wait_conditions(&self) -> Vec<WaitCondition> {
        self.state.lock().keys_by_condition.keys().cloned().collect()
    }

    /// Whether an object waits for [`WaitCondition::EverythingListed`], which needs a periodic check.
    pub(crate) fn needs_periodic_check(&self) -> bool {
        self.state.lock().keys_by_condition.contains_key(&WaitCondition::EverythingListed)
    }

    pub(crate) fn take_objects_waiting_for(&self, condition: &WaitCondition) -> BTreeSet<(QueueId, ObjectKey)> {
        let mut state = self.state.lock();
        let all = state.keys_by_condition.remove(condition).unwrap_or_default();
        for queue_and_key in &all {
            state.condition_by_key.remove(queue_and_key);
        }
        all
    }

    pub(crate) fn retain(&self, is_known: impl Fn(&ObjectKey) -> bool) {
        let mut state = self.state.lock();
        let gone: Vec<_> = state.condition_by_key.keys().filter(|(_, key)| !is_known(key)).cloned().collect();
        for queue_and_key in &gone {
            state.remove(queue_and_key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().condition_by_key.len()
    }

    /// Returns each wait condition with its number of objects and the first of their keys.
    pub(crate) fn explain(&self) -> Value {
        let state = self.state.lock();
        let one = |(condition, all): (&WaitCondition, &BTreeSet<(QueueId, ObjectKey)>)| {
            let some: Vec<String> = all.iter().take(MAX_LISTED_KEYS).map(|(_, key)| key.to_string()).collect();
            json!({"waiting": condition.to_string(), "objects": all.len(), "some": some})
        };
        state.keys_by_condition.iter().take(MAX_LISTED_CONDITIONS).map(one).collect()
    }
}
