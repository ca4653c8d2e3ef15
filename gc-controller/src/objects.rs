//! What garbage collection reads in the metadata of objects of any kind.

use common::prelude::*;

/// Whether the object is terminating and has this finalizer.
pub(crate) fn is_terminating_with(meta: &Meta, finalizer: &str) -> bool {
    meta.is_deleting() && meta.has_finalizer(finalizer)
}
