//! The plan for the Endpoints of a Service.

use std::sync::Arc;

use common::{controller::Explain, intern::Labels};

use crate::{
    decide::subsets,
    memory::Seen,
    objects::{Endpoints, Subset, TRIGGER_TIME},
};

/// The annotation key of Endpoints that lack some addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The decision about the Endpoints of one Service.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// No write: there is no Service with a selector, or nothing to delete.
    #[default]
    Leave,
    /// Delete the Endpoints, because the Service does not exist any more.
    Delete(Arc<Endpoints>),
    /// No write: the Endpoints, the Service and its Pods are unchanged since a sync found the Endpoints as wanted.
    Settled(Arc<Endpoints>),
    /// Compare the Endpoints with this state, and write them if [`Wanted::write`] is set.
    Keep(Box<Wanted>),
}

/// The wanted state of an Endpoints object.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whether the cached Endpoints differ from this state.
    pub write: bool,
    /// The cached Endpoints; `None` to create them.
    pub base: Option<Arc<Endpoints>>,
    /// `metadata.labels`, copied from the Service, with the labels of this loop.
    pub labels: Labels,
    /// The time of the change that caused this sync, if known.
    pub trigger_time: Option<String>,
    /// The state that this sync saw, which the next sync compares with.
    pub seen: Seen,
    /// The value of the annotation [`OVER_CAPACITY`]; `None` if no address is omitted.
    pub over_capacity: Option<&'static str>,
    /// `subsets`, in canonical form.
    pub subsets: Vec<Subset>,
}

impl Wanted {
    /// The annotations that this loop writes; `None` removes the annotation.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [(TRIGGER_TIME, self.trigger_time.as_deref()), (OVER_CAPACITY, self.over_capacity)]
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let subsets = match self {
            Self::Leave => return "no Endpoints are wanted".to_owned(),
            Self::Delete(_) => return "the Service does not exist".to_owned(),
            Self::Settled(there) => &there.subsets,
            Self::Keep(wanted) => &wanted.subsets,
        };
        let (ready, not_ready) = subsets::count(subsets);
        format!("{ready} ready addresses and {not_ready} that are not ready")
    }
}
