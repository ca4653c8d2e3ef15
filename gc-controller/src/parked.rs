//! Objects that wait for something no event of theirs tells: a kind that is served, or all objects of one.
//!
//! They cost nothing while they wait, however many there are: what is waited for is looked at, not who waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use common::map::HashMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{graph::Kind, key::ObjectKey};

/// How much of what waits is told.
const LISTED: usize = 100;
/// And how many who wait for it.
const NAMED: usize = 10;

/// What an object waits for that no event of its own tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Awaited {
    /// A resource of that kind is served.
    Served(Kind),
    /// All objects of that kind are known.
    Known(Kind),
    /// All objects of all kinds are known, those aside whose watch has failed for long.
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

/// The queue that an object comes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QueueId {
    Delete,
    Orphan,
}

#[derive(Default)]
struct State {
    /// Who waits, by what for.
    by: BTreeMap<Awaited, BTreeSet<(QueueId, ObjectKey)>>,
    /// The same the other way round.
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

/// Everybody who waits.
#[derive(Default)]
pub(crate) struct Parked {
    state: Mutex<State>,
    /// Somebody has come who waits for something that only time tells.
    pub(crate) came: Notify,
}

impl Parked {
    /// Somebody waits for that from now on, and for nothing else.
    pub(crate) fn park(&self, queue: QueueId, key: ObjectKey, awaited: Awaited) {
        let mut state = self.state.lock();
        let who = (queue, key);
        state.remove(&who);
        // The others are looked at when something comes.
        let first = awaited == Awaited::Everything && !state.by.contains_key(&awaited);
        state.by.entry(awaited.clone()).or_default().insert(who.clone());
        state.of.insert(who, awaited);
        drop(state);
        if first {
            self.came.notify_one();
        }
    }

    /// Somebody waits no more.
    pub(crate) fn leave(&self, queue: QueueId, key: &ObjectKey) {
        let mut state = self.state.lock();
        if !state.of.is_empty() {
            state.remove(&(queue, key.clone()));
        }
    }

    /// Everything that is waited for.
    pub(crate) fn awaited(&self) -> Vec<Awaited> {
        self.state.lock().by.keys().cloned().collect()
    }

    /// Whether anybody waits for something that only time tells.
    pub(crate) fn is_watched(&self) -> bool {
        self.state.lock().by.contains_key(&Awaited::Everything)
    }

    /// Those who wait for that, which wait no more.
    pub(crate) fn take(&self, awaited: &Awaited) -> BTreeSet<(QueueId, ObjectKey)> {
        let mut state = self.state.lock();
        let all = state.by.remove(awaited).unwrap_or_default();
        for who in &all {
            state.of.remove(who);
        }
        all
    }

    /// Forgets those of whom nobody knows any more.
    pub(crate) fn retain(&self, is_known: impl Fn(&ObjectKey) -> bool) {
        let mut state = self.state.lock();
        let gone: Vec<(QueueId, ObjectKey)> = state.of.keys().filter(|(_, key)| !is_known(key)).cloned().collect();
        for who in gone {
            state.remove(&who);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().of.len()
    }

    /// What is waited for, by how many, and some of them.
    pub(crate) fn explain(&self) -> Value {
        let state = self.state.lock();
        let one = |(awaited, all): (&Awaited, &BTreeSet<(QueueId, ObjectKey)>)| {
            let some: Vec<String> = all.iter().take(NAMED).map(|(_, key)| key.to_string()).collect();
            json!({"waiting": awaited.to_string(), "objects": all.len(), "some": some})
        };
        state.by.iter().take(LISTED).map(one).collect()
    }
}
