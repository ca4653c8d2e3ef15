//! The snapshot of a sync: a Pod, its timer, and the taints of its node.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Instant,
    meta::{NamespacedName, Uid},
    taints::Taint,
};

use crate::objects::CachedPod;

/// Everything that one sync of a Pod reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) key: NamespacedName,
    /// The cached Pod; `None` if it does not exist.
    pub(crate) pod: Option<Arc<CachedPod>>,
    /// The `NoExecute` taints of the Pod's node; `None` if the node does not exist or cannot be decoded.
    pub(crate) no_execute_taints: Option<Arc<[Taint]>>,
    /// Minimum time until heartbeats can confirm the taints of the node, which may be healthy until then. `None` if the taints
    /// are confirmed, and in the first snapshot of a sync, which uses only the cache.
    pub(crate) time_until_taint_confirmation: Option<Duration>,
    /// The timer of the Pod, or of a Pod that was deleted and had the same name.
    pub(crate) timer: Option<DeletionTimer>,
    pub(crate) now: Instant,
    /// Whether the toleration operators `Lt` and `Gt` are enabled.
    pub(crate) are_comparison_operators_enabled: bool,
}

/// A Pod to delete, and the time of the deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeletionTimer {
    /// UID of the Pod to delete.
    pub(crate) pod_uid: Uid,
    /// Time at which the Pod is to be deleted.
    pub(crate) due_at: Instant,
    /// Whether the deletion was due earlier, and is put off because the node may be healthy.
    pub(crate) is_deletion_put_off: bool,
}

impl DeletionTimer {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due_at <= now
    }
}
