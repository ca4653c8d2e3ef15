//! The timers of Pods that may stay on a tainted node for a limited time.

use std::sync::Arc;

use common::{
    map::HashMap,
    meta::{Key, Uid},
};
use parking_lot::Mutex;

use super::{
    plan::{Plan, Then},
    snapshot::Timer,
};

/// Timers by namespace and name of their Pod. Clones share the same timers.
#[derive(Clone, Default)]
pub(super) struct Timers(Arc<Mutex<HashMap<Key, Timer>>>);

impl Timers {
    pub(super) fn get(&self, key: &Key) -> Option<Timer> {
        self.0.lock().get(key).cloned()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.0.lock().contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Starts or removes the timer of a Pod as the plan requires. The timer of a Pod that is being deleted stays until the
    /// deletion succeeds, so a failed deletion is due again at once.
    pub(super) fn follow(&self, key: &Key, plan: &Plan) {
        let mut timers = self.0.lock();
        match &plan.then {
            Then::Wait(timer) => _ = timers.insert(key.clone(), timer.clone()),
            Then::Delete { .. } if !plan.cancels => {}
            Then::Nothing | Then::Delete { .. } => _ = timers.remove(key),
        }
    }

    /// Removes the timer of a deleted Pod, but not the timer of a later Pod with the same name.
    pub(super) fn end(&self, key: &Key, pod: Option<&Uid>) {
        let mut timers = self.0.lock();
        if timers.get(key).is_some_and(|timer| Some(&timer.pod) == pod) {
            timers.remove(key);
        }
    }
}
