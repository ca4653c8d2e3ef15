//! Hints in proportion to each zone's share of the CPU of all Nodes.

use std::collections::BTreeMap;

use common::prelude::Text;

use super::pack::SlicesByNeededWrite;
use crate::{
    objects::{Endpoint, Hints},
    zones::{EndpointCountsByZone, ZoneCpuShares, min_endpoint_count_for_share},
};

/// The reason why no hints by zone capacity are set. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHintsReason {
    /// A Node lacks its zone or CPU, or there is only one zone.
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    InsufficientNodeInformation,
    /// There are more zones than endpoints. The fields are the counts of endpoints and zones.
    #[error("Insufficient number of endpoints ({0} endpoints, {1} zones)")]
    TooFewEndpoints(usize, usize),
    /// A zone cannot get its minimum count of endpoints. The fields are the counts of endpoints and zones.
    #[error(
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({0} endpoints, {1} zones)"
    )]
    CannotAvoidOverload(usize, usize),
    /// The zone of some ready endpoint is unknown.
    #[error("One or more endpoints do not have a zone specified")]
    EndpointWithoutZone,
    /// No hint was set, because no endpoint is ready.
    #[error("No hints allocated for zones")]
    NoReadyEndpoint,
}

/// The allowed and the wanted count of endpoints that are hinted to one zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneAllocation {
    /// The minimum count: fewer endpoints in the zone would be overloaded.
    pub min_endpoint_count: usize,
    /// The maximum count: with more endpoints in the zone, other zones would not get their minimum count.
    pub max_endpoint_count: usize,
    /// The zone's share of all endpoints in proportion to its CPU, but at least the minimum count.
    pub desired_endpoint_share: f64,
}

/// Returns the allocation of each zone for this number of endpoints.
pub fn allocate_endpoints_to_zones(
    shares: Option<&ZoneCpuShares>,
    endpoints: usize,
) -> Result<BTreeMap<Text, ZoneAllocation>, NoHintsReason> {
    let shares = shares.ok_or(NoHintsReason::InsufficientNodeInformation)?;
    let zones = shares.0.len();
    if zones > endpoints {
        return Err(NoHintsReason::TooFewEndpoints(endpoints, zones));
    }
    let least: usize = shares.0.values().map(|share| min_endpoint_count_for_share(share * endpoints as f64)).sum();
    let free = endpoints.checked_sub(least).ok_or(NoHintsReason::CannotAvoidOverload(endpoints, zones))?;
    let allocation = |(zone, share): (&Text, &f64)| {
        let min_endpoint_count = min_endpoint_count_for_share(share * endpoints as f64);
        let max_endpoint_count = min_endpoint_count + free;
        let desired_endpoint_share = (share * endpoints as f64).max(min_endpoint_count as f64);
        (zone.clone(), ZoneAllocation { min_endpoint_count, max_endpoint_count, desired_endpoint_share })
    };
    Ok(shares.0.iter().map(allocation).collect())
}

/// Sets hints so that each zone gets its share, and rewrites as few slices as possible. Returns the number of endpoints hinted to
/// each zone.
pub fn set_hints_by_zone_capacity(
    slices: &mut SlicesByNeededWrite,
    shares: Option<&ZoneCpuShares>,
) -> Result<EndpointCountsByZone, NoHintsReason> {
    let ready = slices.endpoints().filter(|endpoint| endpoint.is_ready()).count();
    let allocations = allocate_endpoints_to_zones(shares, ready)?;
    let mut counts = EndpointCountsByZone::new();
    slices.rewrite_unchanged_slices_where(|slice| {
        match counts_with_kept_hints(&slice.endpoints, &allocations, &counts) {
            Some(with) => {
                counts = with;
                false
            }
            None => true,
        }
    });
    for endpoint in slices.endpoints_to_write() {
        endpoint.hints = None;
        if endpoint.is_ready() {
            let zone = endpoint.zone.clone().ok_or(NoHintsReason::EndpointWithoutZone)?;
            endpoint.hints = Hints::new(Some(&zone), None);
            *counts.entry(zone).or_default() += 1;
        }
    }
    let (mut giving, mut receiving) = endpoints_to_move(&allocations, &counts);
    for endpoint in slices.endpoints_to_write().filter(|endpoint| endpoint.is_ready()) {
        let Some(give) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)).filter(|give| **give > 0) else {
            continue;
        };
        let Some((zone, receive)) = receiving.iter_mut().find(|(_, receive)| **receive > 0) else { break };
        *give -= 1;
        *receive -= 1;
        endpoint.hints = Hints::new(Some(zone), None);
        *counts.entry(zone.clone()).or_default() += 1;
        if let Some(own) = endpoint.zone.as_ref().and_then(|own| counts.get_mut(own)) {
            *own -= 1;
        }
    }
    if counts.is_empty() { Err(NoHintsReason::NoReadyEndpoint) } else { Ok(counts) }
}

/// Returns `counts_before` plus the hints of one more slice; `None` if the hints of the slice must change.
fn counts_with_kept_hints(
    endpoints: &[Endpoint],
    allocations: &BTreeMap<Text, ZoneAllocation>,
    counts_before: &EndpointCountsByZone,
) -> Option<EndpointCountsByZone> {
    let mut counts = counts_before.clone();
    for endpoint in endpoints {
        if !endpoint.node_hints().is_empty() {
            return None;
        }
        if !endpoint.is_ready() {
            continue;
        }
        if endpoint.zone_hints().is_empty() {
            return None;
        }
        for hint in endpoint.zone_hints() {
            let allocation = allocations.get(&hint.name)?;
            let count = counts.entry(hint.name.clone()).or_default();
            *count += 1;
            if *count > allocation.max_endpoint_count {
                return None;
            }
        }
    }
    Some(counts)
}

/// Returns the number of endpoints that each zone gives to other zones, and the count that each zone receives.
fn endpoints_to_move(
    allocations: &BTreeMap<Text, ZoneAllocation>,
    counts: &EndpointCountsByZone,
) -> (EndpointCountsByZone, EndpointCountsByZone) {
    let (mut surplus, mut deficit) = (Amounts::new(), Amounts::new());
    for (zone, allocation) in allocations {
        let more = counts.get(zone).copied().unwrap_or(0) as f64 - allocation.desired_endpoint_share;
        if more > 0.0 {
            surplus.insert(zone.clone(), more);
        } else if more < 0.0 {
            deficit.insert(zone.clone(), -more);
        }
    }
    let (mut giving, mut receiving) = (EndpointCountsByZone::new(), EndpointCountsByZone::new());
    while let (Some((from, much)), Some((to, little))) = (largest(&mut surplus), largest(&mut deficit)) {
        if *much < 0.5 || *little < 0.5 || (*much < 1.0 && *little < 1.0) {
            break;
        }
        *giving.entry(from).or_default() += 1;
        *receiving.entry(to).or_default() += 1;
        *much -= 1.0;
        *little -= 1.0;
    }
    (giving, receiving)
}

/// Fractional numbers of endpoints, by zone.
type Amounts = BTreeMap<Text, f64>;

/// Returns the zone with the largest amount, and the amount. Of zones with equal amounts, the first one is returned.
fn largest(amounts: &mut Amounts) -> Option<(Text, &mut f64)> {
    let largest = amounts.iter_mut().rev().max_by(|a, b| a.1.total_cmp(b.1))?;
    Some((largest.0.clone(), largest.1))
}
