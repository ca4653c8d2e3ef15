//! Objects that wait for something no event of theirs tells: a kind that is served, or all objects of one.
//!
//! They cost nothing while they wait, however many there are: what is waited for is looked at, not who waits.

use std::collections::{BTreeMap, BTreeSet};

use common::map::HashMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{decide::Awaited, key::ObjectKey};

/// How much of what waits is told.
const LISTED: usize = 100;
/// And how many who wait for it.
const NAMED: usize = 10;

/// Which loop an object comes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Line {
    Delete,
    Orphan,
}

#[derive(Default)]
struct State {
    /// Who waits, by what for.
    by: BTreeMap<Awaited, BTreeSet<(Line, ObjectKey)>>,
    /// The same the other way round.
    of: HashMap<(Line, ObjectKey), Awaited>,
}

impl State {
    fn remove(&mut self, who: &(Line, ObjectKey)) {
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
    pub(crate) fn park(&self, line: Line, key: ObjectKey, awaited: Awaited) {
        let mut state = self.state.lock();
        let who = (line, key);
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
    pub(crate) fn leave(&self, line: Line, key: &ObjectKey) {
        let mut state = self.state.lock();
        if !state.of.is_empty() {
            state.remove(&(line, key.clone()));
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
    pub(crate) fn take(&self, awaited: &Awaited) -> BTreeSet<(Line, ObjectKey)> {
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
        let gone: Vec<(Line, ObjectKey)> = state.of.keys().filter(|(_, key)| !is_known(key)).cloned().collect();
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
        let one = |(awaited, all): (&Awaited, &BTreeSet<(Line, ObjectKey)>)| {
            let some: Vec<String> = all.iter().take(NAMED).map(|(_, key)| key.to_string()).collect();
            json!({"waiting": awaited.to_string(), "objects": all.len(), "some": some})
        };
        state.by.iter().take(LISTED).map(one).collect()
    }
}
