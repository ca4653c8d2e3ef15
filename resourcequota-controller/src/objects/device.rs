//! ResourceClaims with the devices that they may get, and DeviceClasses.

use common::{json::null_as_default, prelude::*, quantity::Amount};
use jiff::Timestamp;
use serde::Deserialize;

use super::{ClaimLink, CountedObject, CountedUsage, Gates};
use crate::usage::{Amounts, Usage};

/// API resource of ResourceClaims.
pub const RESOURCE_CLAIMS: Resource = Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
/// API resource of DeviceClasses.
pub const DEVICE_CLASSES: Resource = Resource::cluster_scoped("resource.k8s.io", "v1", "deviceclasses", "DeviceClass");
/// Suffix of the names under which the devices of a class are counted.
pub const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
/// Annotation of the claims that the scheduler creates for extended resources.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// Number of devices of a request in the mode `All`. Upstream: `AllocationResultsMaxSize`.
const MAX_DEVICES: i64 = 32;

/// The fields of a ResourceClaim that decide what it uses.
#[derive(Debug, Deserialize)]
pub struct ResourceClaim {
    /// Metadata, which is dropped after the object was counted.
    pub metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_as_default")]
    devices: Devices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "null_as_default")]
    requests: Vec<DeviceRequest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeviceRequest {
    exactly: Option<DeviceCount>,
    #[serde(deserialize_with = "null_as_default")]
    first_available: Vec<DeviceCount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeviceCount {
    device_class_name: Text,
    #[serde(deserialize_with = "null_as_default")]
    allocation_mode: Text,
    #[serde(deserialize_with = "null_as_default")]
    count: i64,
}

/// A ResourceClaim that counts for extended resources.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedClaim {
    /// `metadata.name`.
    pub name: Text,
    /// Its creation, by which the first claim of a Pod is found.
    pub created: Option<Timestamp>,
    /// The controlling Pod of a claim that the scheduler created for extended resources.
    pub pod: Option<(Text, Uid)>,
}

impl DeviceCount {
    fn usage(&self) -> (Text, Amount) {
        let devices = match &*self.allocation_mode {
            "ExactCount" => self.count,
            "All" => MAX_DEVICES,
            _ => 0,
        };
        (Text::new(&format!("{}{DEVICES_SUFFIX}", self.device_class_name)), Amount::whole(devices.into()))
    }
}

impl Object for ResourceClaim {
    const RESOURCE: Resource = RESOURCE_CLAIMS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl CountedObject for ResourceClaim {
    fn usage(&self, gates: Gates) -> CountedUsage {
        let mut amounts = Amounts::new();
        for DeviceRequest { exactly, first_available } in &self.spec.devices.requests {
            // Any of the alternatives may be allocated, so each class counts with its largest number.
            let mut largest = Amounts::new();
            let alternatives = if first_available.is_empty() { exactly.as_slice() } else { first_available.as_slice() };
            for (name, amount) in alternatives.iter().map(DeviceCount::usage) {
                let known = largest.entry(name).or_insert(Amount::ZERO);
                *known = known.max(amount);
            }
            for (name, amount) in largest {
                let known = amounts.entry(name).or_insert(Amount::ZERO);
                *known = known.plus(amount);
            }
        }
        let link = gates.extended_resources.then(|| {
            let Meta { name, annotations, creation_timestamp, .. } = &self.metadata;
            let is_generated = annotations.get(EXTENDED_RESOURCE_CLAIM) == Some("true");
            let pod = self.metadata.controller().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
            let pod = pod.filter(|_| is_generated).map(|owner| (owner.name.clone(), owner.uid.clone()));
            Box::new(ClaimLink::Claim(OwnedClaim { name: Text::new(name), created: *creation_timestamp, pod }))
        });
        CountedUsage { usage: Usage { amounts, ..Usage::default() }, link }
    }
}

/// A DeviceClass, with the name of its extended resource.
#[derive(Debug, Deserialize)]
pub struct DeviceClass {
    /// Metadata, of which only the name is kept.
    pub metadata: Meta,
    /// `spec`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: DeviceClassSpec,
}

/// `spec` of a [`DeviceClass`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// `extendedResourceName`; `None` for a class without one.
    pub extended_resource_name: Option<Text>,
}

impl Object for DeviceClass {
    const RESOURCE: Resource = DEVICE_CLASSES;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
    }
}
