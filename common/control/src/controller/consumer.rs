//! Consumers of a queue that send no requests.

use jiff::Timestamp;

use super::{Controller, NoSnapshot, SyncPlan};
use crate::{
    io::{Io, Requeue, SyncError},
    queue::QueueKey,
};

/// A handler of the keys of a queue that sends no requests, but enqueues keys of other queues.
pub trait KeyHandler: Send + Sync + 'static {
    /// The subject of a call.
    type Key: QueueKey;
    /// The effects of a key, with their description for diagnostics.
    type Effects: SyncPlan + Clone + Send + Sync;

    /// Finds the effects of a key, and changes nothing, because `/debug/explain` calls this method, too.
    fn find_effects(&self, key: &Self::Key) -> Self::Effects;
    /// Brings the effects about, also in shadow mode.
    fn apply_effects(&self, effects: &Self::Effects);
}

/// The controller with which a [`Loop`](super::Loop) runs a [`KeyHandler`] with workers, metrics and diagnostics.
pub struct QueueConsumer<H>(pub H);

impl<H: KeyHandler> Controller for QueueConsumer<H> {
    type Key = H::Key;
    type Snapshot = H::Effects;
    type Plan = H::Effects;

    fn observe(&self, key: &H::Key, _: Timestamp) -> Result<H::Effects, NoSnapshot> {
        Ok(self.0.find_effects(key))
    }

    fn decide(effects: &H::Effects) -> H::Effects {
        effects.clone()
    }

    fn record_plan(&self, _: &H::Effects, effects: &H::Effects) {
        self.0.apply_effects(effects);
    }

    async fn act(_: &H::Effects, _: &H::Effects, _: Io<'_, Self>) -> Result<Requeue, SyncError> {
        Ok(Requeue::AfterPlannedDelay)
    }
}
