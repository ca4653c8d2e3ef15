//! The only key in the queue of the Pod garbage collector.

use std::fmt;

use common::queue::QueueKey;

/// Key of the passes; each pass covers all Pods of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PassKey;

impl fmt::Display for PassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pass")
    }
}

impl QueueKey for PassKey {
    const FORM: &'static str = "`pass`";

    fn parse(text: &str) -> Option<Self> {
        (text == "pass").then_some(Self)
    }

    fn tenant(&self) -> &'static str {
        ""
    }
}
