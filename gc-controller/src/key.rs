//! The key of both queues.

use std::fmt;

use common::{meta::Uid, queue::QueueKey};

/// The UID of an object.
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

    /// All objects share one tenant, because a UID does not contain the namespace.
    fn tenant(&self) -> &'static str {
        ""
    }
}
