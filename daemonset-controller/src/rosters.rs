//! The rosters of all DaemonSets, which events keep up to date.

use std::time::Duration;

use common::{
    intern::Text,
    map::HashMap,
    meta::{Key, Meta, Uid},
};
use jiff::Timestamp;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::{
    decide::eligibility::Eligibility,
    failed_pods::{Bounds, FailedPods},
    lost_creates::LostCreates,
    roster::{Roster, Surroundings, is_controller},
    snapshot::{Cursors, PodRef},
};

/// What is kept of one DaemonSet between syncs.
pub(crate) struct Record {
    pub(crate) uid: Uid,
    pub(crate) roster: Option<Roster>,
    pub(crate) failed: FailedPods,
    pub(crate) lost_creates: LostCreates,
    pub(crate) cursors: Cursors,
}

/// The records of all DaemonSets that have been synced.
#[derive(Default)]
pub(crate) struct Rosters {
    records: parking_lot::Mutex<HashMap<Key, Record>>,
    /// Held while the cache of Pods and the rosters change together.
    change: RwLock<()>,
}

/// The answers to a roster's questions: from the cache of nodes, and from the record of failed Pods.
pub(crate) struct Answers<'a> {
    pub(crate) eligibility: &'a dyn Fn(&str) -> Eligibility,
    pub(crate) failed: &'a FailedPods,
    pub(crate) bounds: Bounds,
    pub(crate) now: Timestamp,
}

impl Surroundings for Answers<'_> {
    fn eligibility(&self, node: &str) -> Eligibility {
        (self.eligibility)(node)
    }

    fn failed_until(&self, node: &Text) -> Option<Timestamp> {
        self.failed.until(node, self.bounds, self.now)
    }

    fn failed_delay(&self, node: &Text) -> Duration {
        self.failed.next_delay(node, self.bounds, self.now)
    }
}

impl Rosters {
    /// Runs a change of the cache of Pods, with the handlers that pass it on to the rosters.
    pub(crate) fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        let _change = self.change.write();
        change()
    }

    /// Keeps the cache of Pods and the rosters as they are while it is held.
    ///
    /// A sync that finds its own writes in the cache must find them in the roster, too.
    pub(crate) fn unchanged(&self) -> RwLockReadGuard<'_, ()> {
        self.change.read()
    }

    /// Calls `work` with the record of a DaemonSet, a new one if there is none of that uid.
    pub(crate) fn with<R>(&self, key: &Key, uid: &Uid, work: impl FnOnce(&mut Record) -> R) -> R {
        let mut records = self.records.lock();
        let new = || Record {
            uid: uid.clone(),
            roster: None,
            failed: FailedPods::default(),
            lost_creates: LostCreates::default(),
            cursors: Cursors::default(),
        };
        let record = records.entry(key.clone()).or_insert_with(new);
        if record.uid != *uid {
            *record = new();
        }
        work(record)
    }

    /// Drops the record of a DaemonSet that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.records.lock().remove(key);
    }

    /// Drops the rosters of a namespace, because of one of its Pods nothing but the metadata can be read. Returns their DaemonSets.
    ///
    /// A DaemonSet without a roster is not found by changes of nodes, so that each of these is to be synced.
    pub(crate) fn drop_rosters(&self, namespace: &str) -> Vec<Key> {
        let mut dropped = Vec::new();
        for (key, record) in self.records.lock().iter_mut() {
            if key.namespace.as_str() == namespace && record.roster.take().is_some() {
                dropped.push(key.clone());
            }
        }
        dropped
    }

    /// Passes a change of a Pod on to the roster of its controller.
    pub(crate) fn pod_changed(&self, old: Option<&PodRef>, new: Option<&PodRef>) {
        let mut records = self.records.lock();
        if let Some(pod) = old
            && let Some(roster) = of_controller(&mut records, pod.meta())
        {
            roster.remove(pod);
        }
        if let Some(pod) = new
            && let Some(roster) = of_controller(&mut records, pod.meta())
        {
            roster.insert(pod);
        }
    }

    /// Passes a change of a node on to every roster.
    pub(crate) fn node_changed(&self, node: &Text) {
        for record in self.records.lock().values_mut() {
            if let Some(roster) = &mut record.roster {
                roster.node_changed(node);
            }
        }
    }

    /// Calls `look` with every roster and the key of its DaemonSet.
    pub(crate) fn each(&self, mut look: impl FnMut(&Key, &Roster)) {
        for (key, record) in self.records.lock().iter() {
            if let Some(roster) = &record.roster {
                look(key, roster);
            }
        }
    }
}

fn of_controller<'a>(records: &'a mut HashMap<Key, Record>, pod: &Meta) -> Option<&'a mut Roster> {
    let set = &pod.controller()?.name;
    let record = records.get_mut(&Key::new(&pod.namespace, set))?;
    record.roster.as_mut().filter(|_| is_controller(set, &record.uid, pod))
}
