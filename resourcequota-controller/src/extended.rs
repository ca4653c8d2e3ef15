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
    objects::{ClaimLink, DEVICES_SUFFIX, DeviceClass, OwnedClaim},
    tally::{NamespaceTally, Record},
    usage::{Amounts, Usage},
};

/// The extended resource of each DeviceClass; `None` for a class without one.
pub type ExtendedResources = BTreeMap<Text, Option<Text>>;

/// A ResourceClaim, and its Pod if the usage of the Pod is subtracted.
#[derive(Clone, Debug)]
pub struct ClaimUsage {
    /// The usage of the claim.
    pub claim: Arc<Usage>,
    /// The usage of the Pod for which the scheduler created the claim.
    pub pod: Option<Arc<Usage>>,
}

/// Returns the extended resources of all classes.
pub fn extended_resources(classes: &[Arc<DeviceClass>]) -> ExtendedResources {
    let named = |class: &Arc<DeviceClass>| {
        let name = class.spec.extended_resource_name.clone().filter(|name| !name.is_empty());
        (Text::new(&class.metadata.name), name)
    };
    classes.iter().map(named).collect()
}

/// Whether ResourceClaims have usage under this extended resource.
pub fn is_resource_of_class(resources: &ExtendedResources, resource: &str) -> bool {
    let has_class =
        resource.strip_prefix(IMPLICIT_EXTENDED_RESOURCE).is_some_and(|class| resources.contains_key(class));
    has_class || resources.values().flatten().any(|name| name == resource)
}

/// Returns the claims of a namespace with their Pods.
pub fn claims_with_pods(claims_tally: &NamespaceTally, pods_tally: &NamespaceTally) -> Vec<ClaimUsage> {
    let mut first_claims: HashMap<&Uid, &OwnedClaim> = HashMap::default();
    for claim in claims_tally.objects().filter_map(owned_claim) {
        let Some((_, uid)) = &claim.pod else { continue };
        let first = first_claims.entry(uid).or_insert(claim);
        if (claim.created, &claim.name) < (first.created, &first.name) {
            *first = claim;
        }
    }
    let pod_of = |record: &Record| {
        let claim = owned_claim(record)?;
        let (pod_name, uid) = claim.pod.as_ref()?;
        let pod = pods_tally.object(pod_name).filter(|pod| pod.uid == *uid)?;
        let is_of_pod = match pod.link.as_deref() {
            Some(ClaimLink::Pod(claim_name)) => *claim_name == claim.name,
            _ => first_claims.get(uid).is_some_and(|first| first.name == claim.name),
        };
        is_of_pod.then(|| Arc::clone(&pod.usage))
    };
    let with_pod = |record: &Record| ClaimUsage { claim: Arc::clone(&record.usage), pod: pod_of(record) };
    claims_tally.objects().map(with_pod).collect()
}

fn owned_claim(record: &Record) -> Option<&OwnedClaim> {
    if let Some(ClaimLink::Claim(claim)) = record.link.as_deref() { Some(claim) } else { None }
}

/// Adds the usage of claims under the name of an extended resource, such as `requests.example.com/gpu`, to `sum`.
pub fn add_usage_of_claims(
    sum: &mut AmountSum,
    name: &str,
    claims: &[ClaimUsage],
    resources: &ExtendedResources,
    now: Timestamp,
) {
    let Some(resource) = name.strip_prefix(REQUESTS) else { return };
    let is_of_class = |class: &str| {
        resource.strip_prefix(IMPLICIT_EXTENDED_RESOURCE) == Some(class)
            || resources.get(class).and_then(Option::as_ref).is_some_and(|extended| extended == resource)
    };
    for ClaimUsage { claim, pod } in claims {
        let devices = |(name, amount): (&Text, &Amount)| {
            name.strip_suffix(DEVICES_SUFFIX).filter(|class| is_of_class(class)).map(|_| *amount)
        };
        let Some(devices) = claim.amounts.iter().filter_map(devices).reduce(Amount::max) else { continue };
        let pod = pod.as_ref().filter(|pod| pod.class.amounts_end.is_none_or(|end| now <= end));
        let in_pod = |amounts: &Amounts| amounts.get(name).copied();
        let rest = devices.minus(pod.and_then(|pod| in_pod(&pod.amounts)).unwrap_or(Amount::ZERO));
        if rest.compare(Amount::ZERO).is_gt() {
            sum.add(rest);
        }
    }
}
