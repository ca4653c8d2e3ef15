//! ResourceClaims that count for extended resources, and what their Pods already use.
//!
//! The scheduler creates a claim for a Pod with extended resources that a driver of dynamic resource allocation serves. The Pod
//! is charged under the name of the extended resource, so its claim counts only with the devices beyond that.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    prelude::*,
    quantity::{Amount, AmountSum},
};
use jiff::Timestamp;

use crate::{
    names::{IMPLICIT_EXTENDED_RESOURCE, REQUESTS},
    objects::{DEVICES_SUFFIX, DeviceLink},
    tally::{NamespaceTally, Record},
    usage::Usage,
};

/// What the ResourceClaims of a namespace use of extended resources.
#[derive(Debug, Default)]
pub struct ExtendedUsage {
    /// The extended resource of each DeviceClass; `None` for a class without one.
    pub resources: BTreeMap<Text, Option<Text>>,
    /// The usage of each claim, with that of the Pod that is subtracted, for which the scheduler created the claim.
    pub claims: Vec<(Arc<Usage>, Option<Arc<Usage>>)>,
}

impl ExtendedUsage {
    /// Reads the tallies of all DeviceClasses, and of the ResourceClaims and Pods of a namespace.
    pub fn new(class_tally: &NamespaceTally, claim_tally: &NamespaceTally, pod_tally: &NamespaceTally) -> Self {
        let mut first_claims = HashMap::default();
        for (name, record) in claim_tally.objects() {
            let Some(DeviceLink::Claim { created, uid, .. }) = record.link.as_deref() else { continue };
            let first = first_claims.entry(uid).or_insert((created, name));
            *first = (*first).min((created, name));
        }
        let pod_of = |claim: &Arc<str>, record: &Record| {
            let Some(DeviceLink::Claim { pod, uid, .. }) = record.link.as_deref() else { return None };
            let pod = pod_tally.object(pod).filter(|pod| pod.uid == *uid)?;
            let claim_of_pod = match pod.link.as_deref() {
                Some(DeviceLink::Pod { claim }) => &**claim,
                _ => &**first_claims.get(uid)?.1,
            };
            (*claim_of_pod == **claim).then(|| Arc::clone(&pod.usage))
        };
        let resource_of = |(name, record): (&Arc<str>, &Record)| match record.link.as_deref() {
            Some(DeviceLink::Class { extended_resource }) => (Text::new(name), Some(extended_resource.clone())),
            _ => (Text::new(name), None),
        };
        Self {
            resources: class_tally.objects().map(resource_of).collect(),
            claims: claim_tally
                .objects()
                .map(|(name, record)| (Arc::clone(&record.usage), pod_of(name, record)))
                .collect(),
        }
    }

    /// Whether ResourceClaims have usage under this extended resource.
    pub fn has_resource(&self, resource: &str) -> bool {
        let with_resource = self.resources.iter().filter(|(_, extended)| extended.is_some());
        with_resource.map(|(class, _)| class).any(|class| self.is_resource_of(class, resource))
    }

    /// Whether the devices of a class count for an extended resource. The implicit one also belongs to a class that is gone.
    fn is_resource_of(&self, class: &str, resource: &str) -> bool {
        resource.strip_prefix(IMPLICIT_EXTENDED_RESOURCE) == Some(class)
            || self.resources.get(class).and_then(Option::as_ref).is_some_and(|extended| extended == resource)
    }

    /// Adds the usage of all claims under the name of an extended resource, such as `requests.example.com/gpu`, to `sum`.
    pub fn add_to(&self, sum: &mut AmountSum, name: &str, now: Timestamp) {
        let Some(resource) = name.strip_prefix(REQUESTS) else { return };
        for (claim, pod) in &self.claims {
            let devices = |(name, amount): (&Text, &Amount)| {
                let class = name.strip_suffix(DEVICES_SUFFIX)?;
                self.is_resource_of(class, resource).then_some(*amount)
            };
            let Some(devices) = claim.amounts.iter().filter_map(devices).reduce(Amount::max) else { continue };
            let pod = pod.as_ref().filter(|pod| pod.class.amounts_end.is_none_or(|end| now <= end));
            let in_pod = pod.and_then(|pod| pod.amounts.get(name).copied()).unwrap_or(Amount::ZERO);
            let rest = devices.minus(in_pod);
            if rest.compare(Amount::ZERO).is_gt() {
                sum.add(rest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
