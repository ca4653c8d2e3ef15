//! The input of one sync of mirrored slices.

use std::sync::Arc;

use common::meta::NamespacedName;

use crate::objects::{Endpoints, Service, Slice};

/// Everything that a sync reads about one Endpoints object and its slices.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Endpoints and their Service.
    pub key: NamespacedName,
    /// The cached Endpoints; `None` if they do not exist.
    pub endpoints: Option<Arc<Endpoints>>,
    /// The cached Service with the same name; `None` if it does not exist.
    pub service: Option<Arc<Service>>,
    /// The cached slices that mirror the Endpoints, sorted by name, without terminating slices.
    pub slices: Vec<Arc<Slice>>,
    /// The maximal number of mirrored addresses per subset, from `--mirroring-max-endpoints-per-subset`.
    pub max_endpoints_per_subset: usize,
}

impl Snapshot {
    /// Returns the Endpoints if their Service exists and has no selector, and if the Endpoints are not excluded from mirroring.
    pub(super) fn mirrored_endpoints(&self) -> Option<&Endpoints> {
        let is_served = self.service.as_ref().is_some_and(|service| service.spec.selector.is_empty());
        self.endpoints.as_deref().filter(|endpoints| is_served && endpoints.is_mirrorable())
    }
}
