//! Projections of ResourceQuotas and of the kinds whose objects use more than their number.

mod claim;
mod device;
mod pod;
mod quota;
mod service;

use common::{partial_object::PartialObject, prelude::*};

pub use claim::{CLAIMS, Claim};
pub use device::{DEVICE_CLASSES, DEVICES_SUFFIX, DeviceClass, OwnedClaim, RESOURCE_CLAIMS, ResourceClaim};
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

/// The usage of an object, with what other objects' usage depends on.
#[derive(Debug, Default)]
pub struct CountedUsage {
    /// The part that follows from the object alone.
    pub usage: Usage,
    /// What connects the object with a ResourceClaim for extended resources.
    pub link: Option<Box<ClaimLink>>,
}

/// The connection between a ResourceClaim for extended resources and its Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimLink {
    /// Of a Pod: the name of its claim in the status.
    Pod(Text),
    /// Of a claim: its name and creation, and its controlling Pod.
    Claim(OwnedClaim),
}

/// An object of which only the number matters.
impl CountedObject for PartialObject {
    fn usage(&self, _: Gates) -> CountedUsage {
        CountedUsage::default()
    }
}

#[cfg(test)]
mod tests;
