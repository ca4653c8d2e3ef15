//! What is done about the Endpoints of a Service.

use std::sync::Arc;

use common::{controller::Explain, intern::Labels};

use crate::{
    decide::subsets,
    memory::Seen,
    objects::{Endpoints, Subset, TRIGGER_TIME},
};

/// The annotation of Endpoints that lack some addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// What is done about the Endpoints of a Service.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// Nothing.
    #[default]
    Leave,
    /// Delete them: the Service is gone.
    Delete(Arc<Endpoints>),
    /// Nothing: neither they nor the Service or its Pods have changed since they were found to be as wanted.
    Settled(Arc<Endpoints>),
    /// Bring them to this state. They may be in it already.
    Keep(Box<Wanted>),
}

/// The wanted state of Endpoints.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whether the Endpoints in the cache differ.
    pub write: bool,
    /// The Endpoints in the cache.
    pub base: Option<Arc<Endpoints>>,
    /// Their labels.
    pub labels: Labels,
    /// When the change happened that this sync reacts to, if it is known.
    pub trigger_time: Option<String>,
    /// What the next sync is to know of this one.
    pub seen: Seen,
    /// The value of the annotation [`OVER_CAPACITY`], if any.
    pub over_capacity: Option<&'static str>,
    /// Their addresses.
    pub subsets: Vec<Subset>,
}

impl Wanted {
    /// The annotations that this loop writes, each with its value.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [(TRIGGER_TIME, self.trigger_time.as_deref()), (OVER_CAPACITY, self.over_capacity)]
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let subsets = match self {
            Self::Leave => return "there is nothing to keep".to_owned(),
            Self::Delete(_) => return "the Service is gone".to_owned(),
            Self::Settled(there) => &there.subsets,
            Self::Keep(wanted) => &wanted.subsets,
        };
        let (ready, not_ready) = subsets::count(subsets);
        format!("{ready} addresses, and {not_ready} that are not ready")
    }
}
