//! ResourceClaims with the devices that they may get, and DeviceClasses.

use common::{json::null_as_default, prelude::*, quantity::Amount};
use serde::Deserialize;

use super::{CountedObject, CountedUsage, DeviceLink, Gates};
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
    metadata: Meta,
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
        let Meta { annotations, creation_timestamp, .. } = &self.metadata;
        let is_generated = gates.extended_resources && annotations.get(EXTENDED_RESOURCE_CLAIM) == Some("true");
        let pod = self.metadata.controller().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        let link = pod.filter(|_| is_generated).map(|pod| {
            Box::new(DeviceLink::Claim { created: *creation_timestamp, pod: pod.name.clone(), uid: pod.uid.clone() })
        });
        CountedUsage { usage: Usage { amounts, ..Usage::default() }, link }
    }
}

/// A DeviceClass, with the name of its extended resource.
#[derive(Debug, Deserialize)]
pub struct DeviceClass {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    spec: ClassSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClassSpec {
    #[serde(deserialize_with = "null_as_default")]
    extended_resource_name: Text,
}

impl Object for DeviceClass {
    const RESOURCE: Resource = DEVICE_CLASSES;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl CountedObject for DeviceClass {
    fn usage(&self, _: Gates) -> CountedUsage {
        let name = Some(&self.spec.extended_resource_name).filter(|name| !name.is_empty());
        let link = name.map(|name| Box::new(DeviceLink::Class { extended_resource: name.clone() }));
        CountedUsage { link, ..CountedUsage::default() }
    }
}
