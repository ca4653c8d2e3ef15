//! What the queues hold.

use std::fmt;

use common::{meta::Uid, queue::QueueKey};

/// An object, by uid.
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

    /// All objects share the limit: a uid does not tell the namespace.
    fn tenant(&self) -> &'static str {
        ""
    }
}
