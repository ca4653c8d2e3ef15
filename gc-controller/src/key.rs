//! The key of the two queues, for deletions and for orphaning.

use std::fmt;

use common::{meta::Uid, queue::QueueKey};

/// An object in a queue, by UID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectKey(pub Uid);

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl QueueKey for ObjectKey {
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Uid::new(text)))
    }

    /// Returns one tenant (the unit for limits on retries) for all objects, because a UID does not contain the namespace.
    fn tenant(&self) -> &'static str {
        ""
    }
}
