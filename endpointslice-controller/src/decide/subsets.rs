//! Subsets of Endpoints in one form, however they were written.

use std::{collections::BTreeMap, sync::Arc};

use common::meta::Uid;

use crate::objects::{Address, Subset, SubsetPort};

/// What makes two addresses of a port the same one: text, whether something is behind it, and what.
type Identity = (Arc<str>, Option<Uid>);
/// The addresses of one port, each with whether it can be used.
type Addresses = BTreeMap<Identity, (Address, bool)>;

/// The same subsets in one form: each port once, ports with the same addresses together, everything sorted. Of an address
/// that can be used and cannot, the latter is true.
///
/// Upstream: `pkg/api/v1/endpoints`, `RepackSubsets`.
pub fn canonical(subsets: &[Subset]) -> Vec<Subset> {
    let mut by_port: BTreeMap<Option<&SubsetPort>, Addresses> = BTreeMap::new();
    for subset in subsets {
        let mut ports: Vec<Option<&SubsetPort>> = subset.ports.iter().map(Some).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            let addresses = by_port.entry(port).or_default();
            let ready = subset.addresses.iter().map(|address| (address, true));
            for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false))) {
                let identity = (Arc::clone(&address.ip), address.target_ref.as_ref().map(|target| target.uid.clone()));
                let known = addresses.entry(identity).or_insert_with(|| (address.clone(), ready));
                known.1 &= ready;
            }
        }
    }
    // Ports with the same addresses, those without a port apart.
    let mut by_addresses: BTreeMap<(bool, Vec<(Identity, bool)>), Subset> = BTreeMap::new();
    for (port, addresses) in by_port {
        let same = addresses.iter().map(|(identity, (_, ready))| (identity.clone(), *ready)).collect();
        let subset = by_addresses.entry((port.is_some(), same)).or_insert_with(|| {
            let (ready, not_ready): (Vec<_>, Vec<_>) = addresses.into_values().partition(|(_, ready)| *ready);
            let only = |all: Vec<(Address, bool)>| all.into_iter().map(|(address, _)| address).collect();
            Subset { addresses: only(ready), not_ready_addresses: only(not_ready), ports: Vec::new() }
        });
        subset.ports.extend(port.cloned());
    }
    let mut out: Vec<Subset> = by_addresses.into_values().collect();
    out.sort_by(|a, b| a.ports.cmp(&b.ports));
    out
}

/// How many addresses there are: those that can be used, and those that cannot.
pub fn count(subsets: &[Subset]) -> (usize, usize) {
    let ready = subsets.iter().map(|subset| subset.addresses.len()).sum();
    (ready, subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum())
}

/// Leaves out what is more than `most`: first those that cannot be used. Says whether anything was left out.
///
/// Upstream: `pkg/controller/endpoint`, `truncateEndpoints`.
pub fn truncate(subsets: &mut Vec<Subset>, most: usize) -> bool {
    let (ready, not_ready) = count(subsets);
    if ready + not_ready <= most {
        return false;
    }
    let for_not_ready = most.saturating_sub(ready);
    cut(subsets, ready, most.min(ready), |subset| &mut subset.addresses);
    cut(subsets, not_ready, for_not_ready, |subset| &mut subset.not_ready_addresses);
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    true
}

/// Gives each list its share of `budget`, rounded up, as long as some is left.
fn cut(subsets: &mut [Subset], total: usize, budget: usize, list: impl Fn(&mut Subset) -> &mut Vec<Address>) {
    let mut left = budget;
    for subset in subsets {
        let addresses = list(subset);
        let share = if total == 0 { 0 } else { (addresses.len() * budget).div_ceil(total) };
        addresses.truncate(share.min(left));
        left -= addresses.len();
    }
}
