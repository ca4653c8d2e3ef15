//! Hints in proportion to each zone's share of the CPU of all Nodes.

use std::collections::BTreeMap;

use common::intern::Text;

use super::pack::Sorted;
use crate::{
    objects::{Endpoint, Hints},
    zones::{Counts, Ratios, needed},
};

/// The reason why no hints by zone capacity are set. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A Node lacks its zone or CPU, or there is only one zone.
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    NodeInformation,
    /// More zones than endpoints. The fields are the numbers of endpoints and zones.
    #[error("Insufficient number of endpoints ({0} endpoints, {1} zones)")]
    TooFew(usize, usize),
    /// A zone cannot get its minimal number of endpoints. The fields are the numbers of endpoints and zones.
    #[error(
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({0} endpoints, {1} zones)"
    )]
    Unbalanced(usize, usize),
    /// The zone of some ready endpoint is unknown.
    #[error("One or more endpoints do not have a zone specified")]
    NoZone,
    /// No endpoint is ready.
    #[error("No hints allocated for zones")]
    Nothing,
}

/// The wanted number of endpoints for one zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// The minimal number that does not overload the zone's endpoints.
    pub least: usize,
    /// The maximal number that leaves every other zone its minimal number.
    pub most: usize,
    /// The zone's proportional share of all endpoints, but at least `least`.
    pub desired: f64,
}

/// Returns the allocation of each zone for this number of endpoints.
pub fn allocations(ratios: Option<&Ratios>, endpoints: usize) -> Result<BTreeMap<Text, Allocation>, Refused> {
    let ratios = ratios.ok_or(Refused::NodeInformation)?;
    let zones = ratios.0.len();
    if zones > endpoints {
        return Err(Refused::TooFew(endpoints, zones));
    }
    let mut out: BTreeMap<Text, Allocation> = BTreeMap::new();
    for (zone, share) in &ratios.0 {
        let desired = share * endpoints as f64;
        let least = needed(desired);
        out.insert(zone.clone(), Allocation { least, most: 0, desired: desired.max(least as f64) });
    }
    let least: usize = out.values().map(|allocation| allocation.least).sum();
    let Some(free) = endpoints.checked_sub(least) else { return Err(Refused::Unbalanced(endpoints, zones)) };
    for allocation in out.values_mut() {
        allocation.most = allocation.least + free;
    }
    Ok(out)
}

/// Sets hints so that each zone gets its share, and rewrites as few slices as possible. Returns the number of endpoints hinted to
/// each zone.
pub fn by_capacity(sorted: &mut Sorted, ratios: Option<&Ratios>) -> Result<Counts, Refused> {
    let ready = sorted.endpoints().filter(|endpoint| endpoint.is_ready()).count();
    let allocations = allocations(ratios, ready)?;
    let mut counts = Counts::new();
    sorted.rewrite(|slice| match given(&slice.endpoints, &allocations, &counts) {
        Some(with) => {
            counts = with;
            false
        }
        None => true,
    });
    for endpoint in sorted.written() {
        endpoint.hints = None;
        if endpoint.is_ready() {
            let zone = endpoint.zone.clone().ok_or(Refused::NoZone)?;
            endpoint.hints = Hints::new(Some(&zone), None);
            *counts.entry(zone).or_default() += 1;
        }
    }
    let (mut giving, mut receiving) = moves(&allocations, &counts);
    for endpoint in sorted.written().filter(|endpoint| endpoint.is_ready()) {
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
    if counts.is_empty() { Err(Refused::Nothing) } else { Ok(counts) }
}

/// Returns the counts with the hints of one more slice; `None` if the hints of the slice must change.
fn given(endpoints: &[Endpoint], allocations: &BTreeMap<Text, Allocation>, before: &Counts) -> Option<Counts> {
    let mut counts = before.clone();
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
            if *count > allocation.most {
                return None;
            }
        }
    }
    Some(counts)
}

/// Returns the numbers of endpoints that each zone gives to other zones, and that each zone receives.
fn moves(allocations: &BTreeMap<Text, Allocation>, counts: &Counts) -> (Counts, Counts) {
    let (mut surplus, mut deficit) = (Amounts::new(), Amounts::new());
    for (zone, allocation) in allocations {
        let more = counts.get(zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if more > 0.0 {
            surplus.insert(zone.clone(), more);
        } else if more < 0.0 {
            deficit.insert(zone.clone(), -more);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
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
