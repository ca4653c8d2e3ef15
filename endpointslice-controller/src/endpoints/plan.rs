//! The plan for the Endpoints of a Service.

use std::sync::Arc;

use common::{controller::SyncPlan, intern::Labels};

use crate::{
    decide::subsets,
    memory::SyncedServiceState,
    objects::{Endpoints, Subset, TRIGGER_TIME_ANNOTATION},
};

/// The key of the annotation on Endpoints from which addresses or ports were omitted.
pub const OVER_CAPACITY_ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";
/// The decision about the Endpoints of one Service.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// No write: the Service has no selector, or it does not exist and there are no Endpoints to delete.
    #[default]
    NothingToDo,
    /// Delete these Endpoints, because their Service does not exist.
    Delete(Arc<Endpoints>),
    /// No write: the Endpoints, the Service and its Pods have not changed since a sync that needed no write.
    Unchanged(Arc<Endpoints>),
    /// Create or patch the Endpoints if [`WantedEndpoints::is_write_needed`] is set; store the synced state in any case.
    WriteIfNeeded(Box<WantedEndpoints>),
}

/// The wanted labels, annotations and subsets of an Endpoints object, compared with the cached object.
#[derive(Clone, Debug)]
pub struct WantedEndpoints {
    /// Whether the Endpoints are missing in the cache or differ from the wanted state.
    pub is_write_needed: bool,
    /// The cached Endpoints; `None` to create them.
    pub existing_endpoints: Option<Arc<Endpoints>>,
    /// The labels of the Service, together with the labels that this loop sets.
    pub labels: Labels,
    /// The value of the annotation with the time of the change that caused this sync; `None` if the time is unknown.
    pub trigger_time: Option<String>,
    /// The state of the Service and its Pods in this sync, with which the next sync compares.
    pub synced_state: SyncedServiceState,
    /// The value of the annotation [`OVER_CAPACITY_ANNOTATION`]; `None` if nothing is omitted.
    pub over_capacity_annotation: Option<&'static str>,
    /// The wanted `subsets`, in canonical form.
    pub subsets: Vec<Subset>,
}

impl WantedEndpoints {
    /// Returns the annotations that this loop writes; `None` removes the annotation.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [
            (TRIGGER_TIME_ANNOTATION, self.trigger_time.as_deref()),
            (OVER_CAPACITY_ANNOTATION, self.over_capacity_annotation),
        ]
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let subsets = match self {
            Self::NothingToDo => return "no Endpoints are wanted".to_owned(),
            Self::Delete(_) => return "the Service does not exist".to_owned(),
            Self::Unchanged(there) => &there.subsets,
            Self::WriteIfNeeded(wanted) => &wanted.subsets,
        };
        let (ready, not_ready) = subsets::ready_and_not_ready_address_counts(subsets);
        format!("{ready} ready addresses and {not_ready} that are not ready")
    }
}
