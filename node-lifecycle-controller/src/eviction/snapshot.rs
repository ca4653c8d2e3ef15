//! What is known of a Pod and of its node.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Instant,
    meta::{Key, Uid},
    taints::Taint,
};

use crate::objects::CachedPod;

/// Everything one sync of a Pod may look at.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Namespace and name of the Pod.
    pub(crate) key: Key,
    /// The Pod, if it exists.
    pub(crate) pod: Option<Arc<CachedPod>>,
    /// The `NoExecute` taints of its node; `None` if the node does not exist.
    pub(crate) taints: Option<Arc<[Taint]>>,
    /// For how long at least the node may be well by what this process hears of it, whatever its taints say; not asked for the
    /// cache.
    pub(crate) doubt: Option<Duration>,
    /// The timer of the Pod, or of an earlier Pod of the same name.
    pub(crate) timer: Option<Timer>,
    /// The time of the sync.
    pub(crate) now: Instant,
    /// Whether the toleration operators `Lt` and `Gt` are enabled.
    pub(crate) compares: bool,
}

/// A deletion that is due later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    /// The Pod to delete.
    pub(crate) pod: Uid,
    /// The time of the deletion.
    pub(crate) due: Instant,
    /// Whether the deletion was due before and put off.
    pub(crate) is_put_off: bool,
}

impl Timer {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }
}
