//! The timers of Pods that may stay on a tainted node for a limited time.

use common::prelude::*;
use parking_lot::Mutex;

use super::decide::{DeletionTimer, Plan, PodAction};

/// Timers by namespace and name of their Pod.
#[derive(Default)]
pub(super) struct DeletionTimers(Mutex<HashMap<NamespacedName, DeletionTimer>>);

impl DeletionTimers {
    pub(super) fn get(&self, key: &NamespacedName) -> Option<DeletionTimer> {
        self.0.lock().get(key).cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Starts or removes the timer of a Pod as the plan requires. The timer of a Pod to delete is removed after the deletion
    /// has succeeded: if the deletion fails, the next sync decides again to delete the Pod.
    pub(super) fn apply_plan(&self, key: &NamespacedName, plan: &Plan) {
        let mut timers = self.0.lock();
        match &plan.pod_action {
            PodAction::StayUntilTimer(timer) => _ = timers.insert(key.clone(), timer.clone()),
            PodAction::Delete { .. } if !plan.cancels_timer => {}
            PodAction::StayWithoutTimer | PodAction::Delete { .. } => _ = timers.remove(key),
        }
    }

    /// Removes the timer of a deleted Pod, but not the timer of a later Pod with the same name.
    pub(super) fn remove_timer_of_pod(&self, key: &NamespacedName, pod: Option<&Uid>) {
        let mut timers = self.0.lock();
        if timers.get(key).is_some_and(|timer| Some(&timer.pod_uid) == pod) {
            timers.remove(key);
        }
    }
}
