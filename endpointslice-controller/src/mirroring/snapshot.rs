//! Everything one sync of mirrored slices may read.

use std::sync::Arc;

use common::meta::Key;

use crate::objects::{Endpoints, Service, Slice};

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The key of the Endpoints and of their Service.
    pub key: Key,
    /// The Endpoints, if they are there.
    pub endpoints: Option<Arc<Endpoints>>,
    /// Their Service, if it is there.
    pub service: Option<Arc<Service>>,
    /// The slices that mirror them, by name.
    pub slices: Vec<Arc<Slice>>,
    /// The most addresses of a subset that are mirrored.
    pub max_endpoints_per_subset: usize,
}

impl Snapshot {
    /// The Endpoints, if they are to be mirrored.
    pub(super) fn mirrored(&self) -> Option<&Endpoints> {
        let is_served = self.service.as_ref().is_some_and(|service| service.spec.selector.is_empty());
        self.endpoints.as_deref().filter(|endpoints| is_served && endpoints.is_mirrorable())
    }
}
