//! The canonical form of the subsets of an Endpoints object.

use std::collections::BTreeMap;

use common::meta::Uid;

use crate::objects::{EndpointAddress, Subset, SubsetPort};

/// The maximum number of processed addresses in one Endpoints object. An address counts once for each distinct list of ports
/// with which it is published.
pub const MAX_PROCESSED_ADDRESSES: usize = 100_000;
/// The text of an address and the UID in its `targetRef`, or `None` without a `targetRef`.
type Identity<'a> = (&'a str, Option<&'a Uid>);

/// Converts subsets into canonical form: each port is in one subset, ports with the same addresses are in the same subset, and
/// everything is sorted.
/// An address that is both ready and not ready counts as not ready. Upstream: `pkg/api/v1/endpoints`, `RepackSubsets`.
pub fn canonical_subsets(subsets: &[Subset]) -> Vec<Subset> {
    canonical_subsets_and_omitted_address_count(subsets, usize::MAX).0
}

/// Like [`canonical_subsets`], but reads at most `limit` addresses. Also returns the number of omitted addresses.
///
/// Ports that are in the same subsets form a group, and a group is processed as if it were one port. An address counts once for
/// each group of ports. Therefore the cost grows with `limit` and the input, not with the product of ports and addresses.
pub fn canonical_subsets_and_omitted_address_count(subsets: &[Subset], limit: usize) -> (Vec<Subset>, usize) {
    let mut subsets_of: BTreeMap<Option<&SubsetPort>, Vec<usize>> = BTreeMap::new();
    for (at, subset) in subsets.iter().enumerate() {
        let portless = subset.ports.is_empty().then_some(None);
        for port in subset.ports.iter().map(Some).chain(portless) {
            let with_port = subsets_of.entry(port).or_default();
            if with_port.last() != Some(&at) {
                with_port.push(at);
            }
        }
    }
    // Ports that are in the same subsets have the same addresses. Subsets without ports form a separate group.
    let mut ports_of: BTreeMap<(bool, Vec<usize>), Vec<&SubsetPort>> = BTreeMap::new();
    for (port, with_port) in subsets_of {
        ports_of.entry((port.is_some(), with_port)).or_default().extend(port);
    }
    let (mut seen, mut left_out) = (0_usize, 0_usize);
    let mut by_addresses: BTreeMap<(bool, Vec<(Identity<'_>, bool)>), Subset> = BTreeMap::new();
    for ((has_ports, with_port), ports) in ports_of {
        let size = |at: &usize| subsets[*at].addresses.len() + subsets[*at].not_ready_addresses.len();
        let size: usize = with_port.iter().map(size).sum();
        if size > limit.saturating_sub(seen) {
            left_out = left_out.saturating_add(size);
            continue;
        }
        seen += size;
        let addresses = addresses_of(with_port.iter().map(|at| &subsets[*at]));
        let same = addresses.iter().map(|(identity, (_, ready))| (*identity, *ready)).collect();
        let subset = by_addresses.entry((has_ports, same)).or_insert_with(|| {
            let only = |wanted: bool| {
                let some = addresses.values().filter(|(_, ready)| *ready == wanted);
                some.map(|(address, _)| (*address).clone()).collect()
            };
            Subset { addresses: only(true), not_ready_addresses: only(false), ports: Vec::new() }
        });
        subset.ports.extend(ports.into_iter().cloned());
    }
    let mut out: Vec<Subset> = by_addresses.into_values().collect();
    for subset in &mut out {
        subset.ports.sort();
    }
    out.sort_by(|a, b| a.ports.cmp(&b.ports));
    (out, left_out)
}

/// Returns the addresses of several subsets with their readiness. An address is ready if no subset lists it as not ready.
fn addresses_of<'a>(subsets: impl Iterator<Item = &'a Subset>) -> BTreeMap<Identity<'a>, (&'a EndpointAddress, bool)> {
    let mut all: BTreeMap<Identity<'a>, (&EndpointAddress, bool)> = BTreeMap::new();
    for (address, ready) in subsets.flat_map(Subset::addresses_with_readiness) {
        let identity = (&*address.ip, address.target_ref.as_ref().map(|target| &target.uid));
        all.entry(identity).or_insert((address, ready)).1 &= ready;
    }
    all
}

/// Divides a total of `most` addresses among subsets; ready addresses have precedence over not-ready addresses.
///
/// Input and result are a pair for each subset: the number of ready and of not-ready addresses. Upstream:
/// `pkg/controller/endpoint`, `truncateEndpoints`.
pub fn truncated_address_counts(subsets: &[(usize, usize)], most: usize) -> Vec<(usize, usize)> {
    let (ready, not_ready): (Vec<usize>, Vec<usize>) = subsets.iter().copied().unzip();
    let for_ready = most.min(ready.iter().sum());
    let not_ready = proportional_shares(&not_ready, most - for_ready);
    proportional_shares(&ready, for_ready).into_iter().zip(not_ready).collect()
}

/// Divides `most` among the subsets in proportion to their sizes. Shares are rounded up, so the last subsets may get less.
fn proportional_shares(sizes: &[usize], most: usize) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let budget = most.min(total);
    let mut left = budget;
    let share = |size: &usize| {
        let share = (size * budget).div_ceil(total.max(1)).min(left);
        left -= share;
        share
    };
    sizes.iter().map(share).collect()
}
