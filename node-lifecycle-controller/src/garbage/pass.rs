//! The only key in the queue of the Pod garbage collector.

use std::fmt;

use common::queue::QueueKey;

/// Key of the passes; each pass covers all Pods of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pass;

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pass")
    }
}

impl QueueKey for Pass {
    fn parse(text: &str) -> Option<Self> {
        (text == "pass").then_some(Self)
    }

    fn tenant(&self) -> &'static str {
        ""
    }
}
