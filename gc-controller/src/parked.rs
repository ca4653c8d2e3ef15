//! Parked objects: each waits until a kind is served, or until all objects of a kind are known. No event of the object reports
//! either.
//!
//! A parked object costs nothing while it waits: the periodic check visits conditions, not objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use common::map::HashMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{graph::Kind, key::ObjectKey};

/// Maximum number of conditions in `/debug/explain`.
const LISTED: usize = 100;
/// Maximum number of objects of each condition in `/debug/explain`.
const NAMED: usize = 10;

/// A condition that a parked object waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Awaited {
    /// A resource of this kind is served.
    Served(Kind),
    /// All objects of this kind are known: the initial list is complete.
    Known(Kind),
    /// All objects of all kinds are known, except kinds whose watch has failed for a long time.
    Everything,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served(kind) => write!(f, "kind {} of {} is not served", kind.kind, kind.api_version),
            Self::Known(kind) => write!(f, "not all objects of kind {} of {} are known", kind.kind, kind.api_version),
            Self::Everything => f.write_str("not all objects of all kinds are known"),
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
struct State {
    /// Parked objects by condition.
    by: BTreeMap<Awaited, BTreeSet<(QueueId, ObjectKey)>>,
    /// Conditions by parked object.
    of: HashMap<(QueueId, ObjectKey), Awaited>,
}

impl State {
    fn remove(&mut self, who: &(QueueId, ObjectKey)) {
        let Some(awaited) = self.of.remove(who) else { return };
        if let Some(all) = self.by.get_mut(&awaited) {
            all.remove(who);
            if all.is_empty() {
                self.by.remove(&awaited);
            }
        }
    }
}

/// The parked objects of the two queues, by condition.
#[derive(Default)]
pub(crate) struct Parked {
    state: Mutex<State>,
    /// Notified when the first object waits for [`Awaited::Everything`], which needs a periodic check.
    pub(crate) came: Notify,
}

impl Parked {
    /// Parks an object for this condition, which replaces an earlier condition of the object.
    pub(crate) fn park(&self, queue: QueueId, key: ObjectKey, awaited: Awaited) {
        let mut state = self.state.lock();
        let who = (queue, key);
        state.remove(&who);
        // Conditions other than `Everything` are checked after discovery and initial lists, so they need no timer.
        let first = awaited == Awaited::Everything && !state.by.contains_key(&awaited);
        state.by.entry(awaited.clone()).or_default().insert(who.clone());
        state.of.insert(who, awaited);
        drop(state);
        if first {
            self.came.notify_one();
        }
    }

    /// Removes an object that is no longer parked for this queue.
    pub(crate) fn leave(&self, queue: QueueId, key: &ObjectKey) {
        let mut state = self.state.lock();
        if !state.of.is_empty() {
            state.remove(&(queue, key.clone()));
        }
    }

    /// Returns all conditions that parked objects wait for.
    pub(crate) fn awaited(&self) -> Vec<Awaited> {
        self.state.lock().by.keys().cloned().collect()
    }

    /// Returns whether an object waits for [`Awaited::Everything`], which needs a periodic check.
    pub(crate) fn is_watched(&self) -> bool {
        self.state.lock().by.contains_key(&Awaited::Everything)
    }

    /// Removes and returns the objects that wait for this condition.
    pub(crate) fn take(&self, awaited: &Awaited) -> BTreeSet<(QueueId, ObjectKey)> {
        let mut state = self.state.lock();
        let all = state.by.remove(awaited).unwrap_or_default();
        for who in &all {
            state.of.remove(who);
        }
        all
    }

    /// Keeps only the objects for which `is_known` is true.
    pub(crate) fn retain(&self, is_known: impl Fn(&ObjectKey) -> bool) {
        let mut state = self.state.lock();
        let gone: Vec<(QueueId, ObjectKey)> = state.of.keys().filter(|(_, key)| !is_known(key)).cloned().collect();
        for who in gone {
            state.remove(&who);
        }
    }

    /// Returns the number of parked objects.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().of.len()
    }

    /// Returns each condition with the number of its objects and the first of their keys.
    pub(crate) fn explain(&self) -> Value {
        let state = self.state.lock();
        let one = |(awaited, all): (&Awaited, &BTreeSet<(QueueId, ObjectKey)>)| {
            let some: Vec<String> = all.iter().take(NAMED).map(|(_, key)| key.to_string()).collect();
            json!({"waiting": awaited.to_string(), "objects": all.len(), "some": some})
        };
        state.by.iter().take(LISTED).map(one).collect()
    }
}
