mod changes;
mod endpoints;
mod packing;

use std::{collections::BTreeSet, sync::Arc};

use common::{controller::Decision, intern::Text};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::{
    decide,
    zones::{self, NoHintsReason},
};
use crate::{
    decide::{subsets, trigger},
    memory::SyncedServiceState,
    objects::{AddressType, Slice, Subset},
    plan::{SliceWrites, slice_name_prefix},
    slices::{
        SliceController,
        decide::{Plan, Snapshot},
    },
    world::{NODE_NAME, node, pod, service, slice, snapshot},
    zones::{ZoneCapacity, ZoneCpuShares, has_overloaded_zone},
};

/// Returns the sizes of created slices, the names and sizes of updated slices, and the names of deleted slices.
fn sizes(writes: &SliceWrites) -> (Vec<usize>, Vec<(String, usize)>, Vec<String>) {
    let create = writes.slices_to_create.iter().map(|draft| draft.endpoints.len()).collect();
    let name = |slice: &Arc<Slice>| slice.metadata.name.to_string();
    let update = writes
        .slices_to_update
        .iter()
        .map(|draft| (draft.existing_slice.as_ref().map(name).unwrap(), draft.endpoints.len()));
    (create, update.collect(), writes.slices_to_delete.iter().map(|slice| slice.metadata.name.to_string()).collect())
}

fn is_settled(world: &Snapshot) -> bool {
    !Decision::<SliceController>::with_forecast(world, Timestamp::UNIX_EPOCH).has_actions()
}

/// Returns the sizes of the slices that a sync writes if slices of these sizes exist and `more` Pods have no endpoint yet.
fn packed(there: &[usize], more: usize) -> (Vec<usize>, Vec<(String, usize)>, Vec<String>) {
    let total: usize = there.iter().sum();
    let mut world = snapshot((0..total + more).map(pod), 100);
    let mut first = 0;
    for (at, size) in there.iter().enumerate() {
        world.slices.push(slice(&format!("s{at}"), first..first + size));
        first += size;
    }
    sizes(&decide(&world).slice_writes[0])
}

fn unready(world: &mut Snapshot, at: usize) {
    let mut pod = world.pods.iter().nth(at).unwrap().clone();
    Arc::make_mut(&mut pod).is_ready = false;
    world.pods.insert_or_replace(pod);
}

fn update(pairs: &[(&str, usize)]) -> Vec<(String, usize)> {
    pairs.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
}

/// ENDPOINTSLICE-25, ENDPOINTSLICE-26, ENDPOINTSLICE-28.
#[test]
fn endpoints_are_packed_with_few_writes() {
    assert_eq!(packed(&[], 250), (vec![100, 100, 50], vec![], vec![]));
    assert_eq!(packed(&[100, 50], 1), (vec![], update(&[("s1", 51)]), vec![]));
    assert_eq!(packed(&[100, 90, 50], 10), (vec![], update(&[("s1", 100)]), vec![]), "the closest to full");
    assert_eq!(packed(&[100, 90, 50], 20), (vec![], update(&[("s2", 70)]), vec![]));
    assert_eq!(packed(&[95, 95], 20), (vec![20], vec![], vec![]));
    assert_eq!(packed(&[60], 100), (vec![100], vec![], vec![]), "enough endpoints to fill a slice get a new one");
    assert_eq!(packed(&[150], 1), (vec![1], vec![], vec![]), "a slice beyond the limit stays");
    assert_eq!(packed(&[50, 50], 0), (vec![], vec![], vec![]), "half-full slices stay");
    let mut world = snapshot((1..26).map(pod), 10);
    world.slices = vec![slice("a", 0..10), slice("b", 10..20), slice("c", 20..26)];
    assert_eq!(sizes(&decide(&world).slice_writes[0]), (vec![], update(&[("a", 9)]), vec![]), "no endpoint moves");
}

/// ENDPOINTSLICE-27.
#[test]
fn changed_slices_are_filled_first_starting_with_the_fullest() {
    let mut world = snapshot((0..230).map(pod), 100);
    world.slices = vec![slice("a", 0..80), slice("b", 80..110), slice("c", 110..200)];
    for at in [0, 80] {
        unready(&mut world, at);
    }
    assert_eq!(sizes(&decide(&world).slice_writes[0]), (vec![], update(&[("a", 100), ("b", 40)]), vec![]));
    let mut world = snapshot((0..229).map(pod), 100);
    world.slices = vec![slice("a", 0..99), slice("b", 99..109)];
    unready(&mut world, 0);
    assert_eq!(sizes(&decide(&world).slice_writes[0]), (vec![100], update(&[("a", 100), ("b", 29)]), vec![]));
}

/// ENDPOINTSLICE-30, ENDPOINTSLICE-32, ENDPOINTSLICE-81.
#[test]
fn a_slice_without_endpoints_is_deleted_or_kept_as_placeholder() {
    let mut world = snapshot((10..35).map(pod), 100);
    world.slices = vec![slice("a", 0..10), slice("b", 10..30)];
    assert_eq!(sizes(&decide(&world).slice_writes[0]), (vec![], update(&[("b", 25)]), vec!["a".to_owned()]));
    let mut world = snapshot([], 100);
    world.slices = vec![slice("a", 0..10)];
    let plan = decide(&world);
    assert_eq!(sizes(&plan.slice_writes[0]), (vec![], update(&[("a", 0)]), vec![]));
    assert!(plan.slice_writes[0].slices_to_update[0].ports.is_empty(), "its name is reused");
    let mut empty = Slice::clone(&slice("a", []));
    empty.ports = Arc::default();
    world.slices = vec![Arc::new(empty.clone())];
    assert!(decide(&world).slice_writes[0].is_empty());
    // A slice that the Service does not own is no placeholder: it is deleted, and a new slice is created.
    empty.metadata.owners = vec![].into();
    world.slices = vec![Arc::new(empty)];
    assert_eq!(sizes(&decide(&world).slice_writes[0]), (vec![0], vec![], vec!["a".to_owned()]));
}

/// ENDPOINTSLICE-18.
#[test]
fn the_order_of_addresses_in_an_endpoint_has_no_meaning() {
    let two = json!([{"ip": "10.0.0.9"}, {"ip": "10.0.0.10"}]);
    let pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": {"nodeName": NODE_NAME},
        "status": {"podIP": "10.0.0.9", "podIPs": two, "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let mut world = snapshot([pod.unwrap()], 100);
    for order in [["10.0.0.10", "10.0.0.9"], ["10.0.0.9", "10.0.0.10"]] {
        let endpoint = json!({"addresses": order, "nodeName": NODE_NAME, "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "p"},
            "conditions": {"ready": true, "serving": true, "terminating": false}});
        let mut there = Slice::clone(&slice("a", []));
        there.endpoints = vec![serde_json::from_value(endpoint).unwrap()];
        world.slices = vec![Arc::new(there)];
        assert!(is_settled(&world), "{order:?}");
    }
}

/// ENDPOINTSLICE-19, ENDPOINTSLICE-20.
#[test]
fn families_are_decided_independently() {
    let mut world = snapshot((0..2).map(pod), 100);
    world.service = service(&json!({"ipFamilies": ["IPv6", "IPv4"]}));
    world.slices = vec![slice("a", 0..2)];
    let plan = decide(&world);
    let kinds: Vec<AddressType> = plan.slice_writes.iter().map(|writes| writes.address_type).collect();
    assert_eq!(kinds, [AddressType::Ipv6, AddressType::Ipv4]);
    assert_eq!((plan.slice_writes[0].slices_to_create[0].endpoints.len(), plan.slice_writes[1].is_empty()), (2, true));
    assert_eq!(&*plan.slice_writes[0].slices_to_create[0].endpoints[1].addresses[0], "fd00::1");
    world.service = service(&json!({"ipFamilies": ["IPv6"]}));
    let gone: Vec<_> =
        decide(&world).slices_of_unused_address_types.into_iter().map(|slice| slice.metadata.name.clone()).collect();
    assert_eq!(gone, [Arc::from("a")]);
    for (ip, families) in [("fd00::9", 1), ("None", 2), ("", 2), ("10.0.0.1", 1)] {
        let service = service(&json!({"ipFamilies": [], "clusterIP": ip}));
        assert_eq!(super::address_types(&service).len(), families, "{ip}");
    }
}

/// ENDPOINTSLICE-66.
#[test]
fn nothing_is_created_for_a_terminating_service() {
    let mut world = snapshot((0..2).map(pod), 100);
    Arc::make_mut(&mut world.service).metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert!(decide(&world).slice_writes[0].is_empty());
}

/// ENDPOINTSLICE-4.
#[test]
fn services_without_a_selector_are_ignored() {
    for spec in [json!({"selector": null}), json!({"selector": {}}), json!({"type": "ExternalName"})] {
        let mut world = snapshot((0..2).map(pod), 100);
        world.service = service(&spec);
        let plan = decide(&world);
        assert!(!plan.is_managed_service && is_settled(&world), "{spec}");
    }
}

/// ENDPOINTSLICE-35.
#[test]
fn slice_names_begin_with_the_name_of_the_service() {
    assert_eq!((slice_name_prefix("web"), slice_name_prefix(&"a".repeat(63))), ("web-".into(), "a".repeat(63) + "-"));
    assert_eq!(slice_name_prefix(&"a".repeat(253)), "a".repeat(253));
}

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text:0>5}:00Z").parse().unwrap()
}

fn seen(pods: &[(&str, &str)]) -> SyncedServiceState {
    let pod = |(name, time): &(&str, &str)| {
        let mut pod = pod(0);
        pod.metadata.name = Arc::from(*name);
        pod.readiness_changed_at = (!time.is_empty()).then(|| at(time));
        Arc::new(pod)
    };
    SyncedServiceState { service_creation_time: at("10:00"), pods: pods.iter().map(pod).collect() }
}

/// ENDPOINTSLICE-38.
#[test]
fn the_earliest_unseen_change_is_the_trigger_time() {
    let before = seen(&[("p1", "12:00")]);
    for (known, now, change) in [
        (None, seen(&[("p1", "12:00"), ("p2", "12:05")]), Some("10:00")),
        (Some(&before), seen(&[("p1", "12:00"), ("p2", "12:07")]), Some("12:07")),
        (Some(&before), seen(&[("p1", "12:10"), ("p2", "12:09")]), Some("12:09")),
        (Some(&before), seen(&[]), None),
        (Some(&before), seen(&[("p0", ""), ("p1", "12:00")]), None),
        (
            Some(&seen(&[("p0", "11:00"), ("p1", ""), ("p3", "13:00")])),
            seen(&[("p1", "9:30"), ("p3", "13:00")]),
            Some("9:30"),
        ),
        (Some(&seen(&[("p0", "11:00"), ("p9", "11:00")])), seen(&[("p5", "14:00"), ("p9", "13:00")]), Some("13:00")),
        (Some(&before), before.clone(), None),
    ] {
        assert_eq!(trigger::earliest_change_time(known, &now), change.map(at), "{now:?}");
    }
}

fn shares(of: &[(&str, &str)]) -> Option<ZoneCpuShares> {
    let mut capacity = ZoneCapacity::default();
    for (zone, cpu) in of {
        capacity.add_node(&node(zone, cpu));
    }
    capacity.zone_cpu_shares()
}

/// Returns the minimum and maximum number of endpoints for each zone.
fn allotted(of: &[(&str, &str)], endpoints: usize) -> Result<Vec<(usize, usize)>, NoHintsReason> {
    let allocations = zones::allocate_endpoints_to_zones(shares(of).as_ref(), endpoints)?;
    Ok(allocations.values().map(|allocation| (allocation.min_endpoint_count, allocation.max_endpoint_count)).collect())
}

/// ENDPOINTSLICE-42, ENDPOINTSLICE-43.
#[test]
fn endpoints_are_allocated_in_proportion_to_zone_capacity() {
    let half = &[("a", "2"), ("b", "1"), ("c", "1")][..];
    let thirds = &[("a", "1"), ("b", "1"), ("c", "1")][..];
    let two = &[("a", "1"), ("b", "1")][..];
    let n = |pairs: &[(usize, usize)]| Ok(pairs.to_vec());
    assert_eq!(allotted(half, 4), n(&[(2, 2), (1, 1), (1, 1)]));
    assert_eq!(allotted(half, 3), Err(NoHintsReason::CannotAvoidOverload(3, 3)));
    assert_eq!(allotted(thirds, 3), n(&[(1, 1), (1, 1), (1, 1)]));
    for endpoints in [4, 5, 8] {
        assert_eq!(allotted(thirds, endpoints), Err(NoHintsReason::CannotAvoidOverload(endpoints, 3)));
    }
    assert_eq!(allotted(thirds, 7), n(&[(2, 3), (2, 3), (2, 3)]));
    assert_eq!(allotted(two, 3), Err(NoHintsReason::CannotAvoidOverload(3, 2)));
    assert_eq!(allotted(two, 7), n(&[(3, 4), (3, 4)]));
    assert_eq!(allotted(&[("a", "9"), ("b", "1")], 10), n(&[(8, 9), (1, 2)]));
    assert_eq!(allotted(&[("a", "6"), ("b", "4")], 10), n(&[(5, 6), (4, 5)]));
    assert_eq!(allotted(two, 1), Err(NoHintsReason::TooFewEndpoints(1, 2)));
    assert_eq!(allotted(&[("a", "1")], 1), Err(NoHintsReason::InsufficientNodeInformation), "one zone");
    assert_eq!(allotted(&[("a", "1"), ("b", "0")], 4), Err(NoHintsReason::InsufficientNodeInformation));
    assert_eq!(allotted(&[("a", "1"), ("", "1")], 4), Err(NoHintsReason::InsufficientNodeInformation));
}

/// ENDPOINTSLICE-44.
#[test]
fn outdated_hints_are_detected() {
    let two = shares(&[("a", "1"), ("b", "1")]);
    let counts = |a: usize, b: usize| [(Text::new("a"), a), (Text::new("b"), b)].into();
    assert!(!has_overloaded_zone(two.as_ref(), &counts(3, 3)));
    assert!(!has_overloaded_zone(two.as_ref(), &counts(5, 5)));
    assert!(has_overloaded_zone(two.as_ref(), &counts(5, 1)));
    assert!(has_overloaded_zone(two.as_ref(), &[(Text::new("a"), 2)].into()), "a zone without endpoints");
    assert!(has_overloaded_zone(None, &counts(3, 3)));
}

/// ENDPOINTSLICE-57.
#[test]
fn equivalent_subsets_have_one_canonical_form() {
    let read = |value: serde_json::Value| serde_json::from_value::<Vec<Subset>>(value).unwrap();
    let written = read(json!([
        {"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": [{"name": "b", "port": 2, "protocol": "TCP"}]},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "a", "port": 1, "protocol": "TCP"}]},
        {"notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"name": "a", "port": 1, "protocol": "TCP"}]},
        {"notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"name": "b", "port": 2, "protocol": "TCP"}]}]));
    let one = json!([{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}],
        "ports": [{"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "protocol": "TCP"}]}]);
    assert_eq!(serde_json::to_value(subsets::canonical_subsets(&written)).unwrap(), one);
    assert_eq!(subsets::canonical_subsets(&read(one.clone())), read(one));
}

/// ENDPOINTSLICE-58.
#[test]
fn not_ready_addresses_are_truncated_first() {
    // Each pair has the numbers of ready and of not-ready addresses of a subset.
    assert_eq!(subsets::truncated_address_counts(&[(5, 5)], 10), [(5, 5)]);
    assert_eq!(subsets::truncated_address_counts(&[(8, 5)], 10), [(8, 2)]);
    assert_eq!(subsets::truncated_address_counts(&[(12, 5)], 10), [(10, 0)]);
    assert_eq!(
        subsets::truncated_address_counts(&[(7, 1), (0, 0), (5, 4)], 10),
        [(6, 0), (0, 0), (4, 0)],
        "shares are rounded up"
    );
    assert_eq!(subsets::truncated_address_counts(&[(1, 4), (1, 6)], 10), [(1, 4), (1, 4)]);
}

/// Applies the writes of a plan to the snapshot. The names of new slices start with `n<round>`.
fn act(world: &mut Snapshot, plan: &Plan, round: usize) {
    for writes in &plan.slice_writes {
        let gone: BTreeSet<&str> = writes.slices_to_delete.iter().map(|slice| &*slice.metadata.name).collect();
        world.slices.retain(|slice| !gone.contains(&*slice.metadata.name));
        for draft in &writes.slices_to_update {
            let base = draft.existing_slice.as_ref().unwrap();
            let mut changed = Slice::clone(base);
            (changed.endpoints, changed.ports) = (draft.endpoints.clone(), draft.ports.clone());
            world.slices.retain(|slice| slice.metadata.name != base.metadata.name);
            world.slices.push(Arc::new(changed));
        }
        for (at, draft) in writes.slices_to_create.iter().enumerate() {
            let mut made = Slice::clone(&slice(&format!("n{round}-{at}"), []));
            (made.endpoints, made.ports) = (draft.endpoints.clone(), draft.ports.clone());
            world.slices.push(Arc::new(made));
        }
    }
    world.slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
}

proptest! {
    /// ENDPOINTSLICE-25, ENDPOINTSLICE-30.
    #[test]
    fn every_pod_is_in_one_slice_and_a_second_sync_writes_nothing(
        rounds in proptest::collection::vec(proptest::collection::btree_set(0usize..40, 0..40), 1..6),
        unready in proptest::collection::btree_set(0usize..40, 0..10),
        most in 1usize..12,
    ) {
        let mut world = snapshot([], most);
        for (round, pods) in rounds.iter().enumerate() {
            let wanted = |index: usize| {
                let mut pod = pod(index);
                pod.is_ready = round % 2 == 0 || !unready.contains(&index);
                pod
            };
            let slices = world.slices.clone();
            world = Snapshot { slices, ..snapshot(pods.iter().map(|index| wanted(*index)), most) };
            let plan = decide(&world);
            act(&mut world, &plan, round);
            let mut names: Vec<String> = world.slices.iter().flat_map(|slice| &slice.endpoints)
                .map(|endpoint| endpoint.target_ref.as_ref().unwrap().name.to_string()).collect();
            names.sort();
            let expected: Vec<String> = pods.iter().map(|index| format!("p{index:04}")).collect();
            prop_assert_eq!(names, expected);
            prop_assert!(!world.slices.is_empty() && world.slices.iter().all(|slice| slice.endpoints.len() <= most));
            prop_assert!(is_settled(&world), "a second sync writes nothing");
        }
    }
}
