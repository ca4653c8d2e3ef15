//! Projections of ResourceQuotas and of the kinds whose objects use more than their number.

mod claim;
mod device;
mod pod;
mod quota;
mod service;

use common::{partial_object::PartialObject, prelude::*};
use jiff::Timestamp;

pub use claim::{CLAIMS, Claim};
pub use device::{DEVICE_CLASSES, DEVICES_SUFFIX, DeviceClass, RESOURCE_CLAIMS, ResourceClaim};
pub use pod::Pod;
pub use quota::{Condition, Limit, Limits, Operator, QUOTAS, Quota, QuotaStatus};
pub use service::{SERVICES, Service};

use crate::usage::Usage;

/// A kind whose objects are counted.
pub trait CountedObject: Object {
    /// Returns the usage of the object as far as it follows from the object alone.
    fn usage(&self, gates: Gates) -> CountedUsage;
}

/// The feature gates on which usage depends.
#[derive(Clone, Copy, Debug)]
pub struct Gates {
    /// `PodLevelResources`.
    pub pod_level_resources: bool,
    /// `DRAExtendedResource`.
    pub extended_resources: bool,
}

/// The usage of an object, with what extended resources need to know of it.
#[derive(Debug, Default)]
pub struct CountedUsage {
    /// The part that follows from the object alone.
    pub usage: Usage,
    /// What extended resources need to know of the object.
    pub link: Option<Box<DeviceLink>>,
}

/// What extended resources need to know of an object.
#[derive(Debug, PartialEq)]
pub enum DeviceLink {
    /// A Pod with a ResourceClaim that the scheduler created.
    Pod {
        /// Name of the claim in the status.
        claim: Text,
    },
    /// A ResourceClaim that the scheduler created for a Pod.
    Claim {
        /// Its creation, by which the first claim of a Pod is found.
        created: Option<Timestamp>,
        /// Name of the Pod.
        pod: Text,
        /// UID of the Pod.
        uid: Uid,
    },
    /// A DeviceClass with an extended resource.
    Class {
        /// `extendedResourceName`.
        extended_resource: Text,
    },
}

/// An object of which only the number matters.
impl CountedObject for PartialObject {
    fn usage(&self, _: Gates) -> CountedUsage {
        CountedUsage::default()
    }
}

#[cfg(test)]
mod tests;
