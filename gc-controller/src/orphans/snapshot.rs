//! Everything a release of dependents may read.

use common::object::Resource;

use crate::graph::{Dependent, View};

/// An object whose dependents are to be released.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The object.
    pub view: View,
    /// The resource of its kind, if that is served.
    pub resource: Option<Resource>,
    /// Its dependents; none unless they are to be released now.
    pub dependents: Vec<Orphan>,
    /// Resources whose objects are not known yet, unless they are known to be broken.
    pub unsynced: Vec<String>,
}

/// A dependent, and the resource of its kind if that is served.
pub(super) type Orphan = (Dependent, Option<Resource>);
