//! Properties of whole syncs: each endpoint's slice, the number of writes, and the endpoints visible between writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::controller::SyncPlan as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    decide::write_order::{SliceCreationPermission, order_writes},
    objects::{AddressType, Endpoint, Pod, Slice},
    plan::{DeferredWriteCounts, SliceDraft, SliceWrites},
    slices::decide::{Plan, Snapshot, decide, distribution::HintPolicy},
    world::{NODE_NAME, pod, service, slice, snapshot},
    zones::ZonesByNode,
};

/// Slices by name.
type Slices = BTreeMap<String, Slice>;

/// Returns the addresses of ready endpoints in all slices. Consumers use these addresses.
fn ready(slices: &Slices) -> BTreeSet<Box<str>> {
    let endpoints = slices.values().flat_map(|slice| &slice.endpoints).filter(|endpoint| endpoint.is_ready());
    endpoints.flat_map(|endpoint| endpoint.addresses.iter().cloned()).collect()
}

/// Returns the slices before the first write and after each write of a plan, in the order of sending.
fn prefixes(start: &[Arc<Slice>], writes: &[SliceWrites], round: usize) -> Vec<Slices> {
    let mut now: Slices = start.iter().map(|slice| (slice.metadata.name.to_string(), Slice::clone(slice))).collect();
    let mut all = vec![now.clone()];
    let filled = |base: &Slice, draft: &SliceDraft| {
        let mut slice = base.clone();
        (slice.endpoints, slice.ports) = (draft.endpoints.clone(), draft.ports.clone());
        slice
    };
    for writes in writes {
        for (at, draft) in writes.slices_to_create.iter().enumerate() {
            let name = format!("n{round:03}-{}-{at}", writes.address_type);
            let mut base = Slice::clone(&slice(&name, []));
            base.address_type = writes.address_type.as_str().into();
            now.insert(name, filled(&base, draft));
            all.push(now.clone());
        }
        for draft in &writes.slices_to_update {
            let base = draft.existing_slice.as_ref().unwrap();
            now.insert(base.metadata.name.to_string(), filled(base, draft));
            all.push(now.clone());
        }
        for slice in &writes.slices_to_delete {
            now.remove(&*slice.metadata.name).unwrap();
            all.push(now.clone());
        }
    }
    all
}

/// Fails if an address that is ready before the first write and after the last write is missing in between.
fn never_missing(prefixes: &[Slices]) -> Result<(), TestCaseError> {
    let (first, last) = (ready(&prefixes[0]), ready(prefixes.last().unwrap()));
    for (at, slices) in prefixes.iter().enumerate() {
        let missing: Vec<_> = first.intersection(&last).filter(|address| !ready(slices).contains(*address)).collect();
        prop_assert!(missing.is_empty(), "after {at} of {} writes: {missing:?}", prefixes.len() - 1);
    }
    Ok(())
}

fn number_of_writes(plan: &Plan) -> usize {
    plan.slice_writes.iter().map(SliceWrites::len).sum()
}

/// The generated state of a Pod in one sync.
#[derive(Clone, Debug)]
struct Look {
    exists: bool,
    ready: bool,
    port: i32,
    families: u8,
}

fn look() -> impl Strategy<Value = Look> {
    (0u8..6, 0u8..5, 0i32..12, 0u8..8).prop_map(|(exists, ready, port, families)| Look {
        exists: exists > 0,
        ready: ready > 0,
        port: if port < 10 { 8080 } else { 9000 + port },
        families,
    })
}

fn looking(index: usize, look: &Look) -> Pod {
    let mut object = json!({"metadata": {"name": format!("p{index:04}"), "namespace": "ns", "uid": format!("p{index}")},
        "spec": {"nodeName": format!("n{}", index % 2),
            "containers": [{"ports": [{"name": "web", "containerPort": look.port, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIP": "::", "conditions":
            [{"type": "Ready", "status": if look.ready { "True" } else { "False" }}]}});
    let (four, six) = (json!({"ip": format!("10.0.0.{index}")}), json!({"ip": format!("fd00::{index:x}")}));
    object["status"]["podIPs"] = match look.families {
        0 => json!([four]),
        1 => json!([six]),
        _ => json!([four, six]),
    };
    serde_json::from_value(object).unwrap()
}

fn world(pods: &[Look], spec: &Value, slices: Vec<Arc<Slice>>, max_endpoints: usize) -> Snapshot {
    let pods = pods.iter().enumerate().filter(|(_, look)| look.exists).map(|(at, look)| looking(at, look));
    let mut zones = ZonesByNode::default();
    zones.insert("n0".into(), "a".into());
    zones.insert("n1".into(), "b".into());
    Snapshot { service: service(spec), zones_by_node: Arc::new(zones), slices, ..snapshot(pods, max_endpoints) }
}

/// Returns the maximum number of writes: one for each slice that must change, and one for each new slice.
fn bound(world: &Snapshot, kind: AddressType) -> usize {
    let port_of = |pod: &Pod| pod.named_port_number("web", "TCP").unwrap();
    let has = |pod: &Pod| pod.pod_ips.iter().any(|ip| ip.is_ipv4() == (kind == AddressType::Ipv4));
    let mut left: BTreeMap<&str, &Pod> = BTreeMap::new();
    left.extend(world.pods.iter().filter(|pod| has(pod)).map(|pod| (&*pod.metadata.name, &**pod)));
    let (mut must, mut room) = (0, BTreeMap::<i32, usize>::new());
    let mut doomed_or_moved = 0;
    let mut kept_slices = 0;
    for slice in world.slices.iter().filter(|slice| slice.has_address_type(kind)) {
        let port = slice.ports.first().and_then(|port| port.port);
        let name = |endpoint: &Endpoint| endpoint.target_ref.as_ref().unwrap().name.to_string();
        let own = |endpoint: &&Endpoint| left.get(&*name(endpoint)).is_some_and(|pod| Some(port_of(pod)) == port);
        let moved = slice.endpoints.iter().any(|e| left.get(&*name(e)).is_some_and(|pod| Some(port_of(pod)) != port));
        let kept: Vec<&Endpoint> = slice.endpoints.iter().filter(own).collect();
        let same = kept.iter().all(|e| left[&*name(e)].is_ready == (e.conditions.serving == Some(true)));
        let changes = kept.len() < slice.endpoints.len() || !same || kept.is_empty();
        must += usize::from(changes);
        doomed_or_moved += usize::from(moved && !kept.is_empty());
        kept_slices += usize::from(!kept.is_empty());
        if changes && !kept.is_empty() {
            *room.entry(port.unwrap_or_default()).or_default() +=
                world.max_endpoints_per_slice.saturating_sub(kept.len());
        }
        for name in kept.iter().map(|endpoint| name(endpoint)).collect::<Vec<_>>() {
            left.remove(&*name);
        }
    }
    let mut more: BTreeMap<i32, usize> = BTreeMap::new();
    for pod in left.values() {
        *more.entry(port_of(pod)).or_default() += 1;
    }
    let new: usize = more
        .iter()
        .map(|(port, count)| {
            count.saturating_sub(*room.get(port).unwrap_or(&0)).div_ceil(world.max_endpoints_per_slice)
        })
        .sum();
    let place_holder = usize::from(kept_slices == 0 && left.is_empty());
    must + new + doomed_or_moved + place_holder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// ENDPOINTSLICE-19, ENDPOINTSLICE-23, ENDPOINTSLICE-29, ENDPOINTSLICE-33, ENDPOINTSLICE-39, ENDPOINTSLICE-78.
    #[test]
    fn ports_and_families_are_packed_with_few_writes_and_no_endpoint_is_missing_in_between(
        rounds in proptest::collection::vec((proptest::collection::vec(look(), 24), any::<bool>()), 1..6),
        max_endpoints in 1usize..9,
        same_zone in any::<bool>(),
        max_new_ports in proptest::sample::select(vec![1usize, 3, usize::MAX]),
    ) {
        let mut slices: Vec<Arc<Slice>> = Vec::new();
        let mut numbered_before = None;
        for (round, (pods, numbered)) in rounds.iter().enumerate() {
            let target = if *numbered { json!(7070) } else { json!("web") };
            let mut spec = json!({"ipFamilies": ["IPv4", "IPv6"],
                "ports": [{"name": "http", "port": 80, "targetPort": target, "protocol": "TCP"}]});
            if same_zone {
                spec["trafficDistribution"] = json!("PreferSameZone");
            }
            let mut world = Snapshot { max_new_slice_ports: max_new_ports, ..world(pods, &spec, slices.clone(), max_endpoints) };
            let mut plan = decide(&world);
            let mut states = prefixes(&slices, &plan.slice_writes, round * 100);
            let mut syncs = 0;
            while plan.slice_writes.iter().any(|writes| writes.deferred_write_counts != DeferredWriteCounts::default()) {
                syncs += 1;
                prop_assert!(number_of_writes(&plan) > 0 && syncs < 99, "no progress: {:?}", plan.slice_writes);
                world.slices = states.last().unwrap().values().cloned().map(Arc::new).collect();
                plan = decide(&world);
                states.extend(prefixes(&world.slices, &plan.slice_writes, round * 100 + syncs));
            }
            let prefixes = states;
            never_missing(&prefixes)?;
            world.slices = slices.clone();
            prop_assert!(syncs == 0 || max_new_ports < usize::MAX);
            if !numbered && numbered_before == Some(false) && max_new_ports == usize::MAX {
                let most = bound(&world, AddressType::Ipv4) + bound(&world, AddressType::Ipv6);
                prop_assert!(number_of_writes(&plan) <= most, "{} > {most}: {:?}", number_of_writes(&plan), plan.slice_writes);
            }
            numbered_before = Some(*numbered);
            slices = prefixes.into_iter().next_back().unwrap().into_values().map(Arc::new).collect();
            for kind in ["IPv4", "IPv6"] {
                let of_kind: Vec<&Arc<Slice>> = slices.iter().filter(|slice| slice.address_type == kind).collect();
                let mut found: Vec<String> = Vec::new();
                for slice in &of_kind {
                    prop_assert!(slice.endpoints.len() <= max_endpoints);
                    for endpoint in &slice.endpoints {
                        let name = endpoint.target_ref.as_ref().unwrap().name.to_string();
                        let pod = world.pods.iter().find(|pod| *pod.metadata.name == *name).unwrap();
                        let port = if *numbered { Some(7070) } else { pod.named_port_number("web", "TCP") };
                        prop_assert_eq!(slice.ports[0].port, port);
                        prop_assert_eq!(endpoint.is_ready(), pod.is_ready);
                        let hint = (same_zone && pod.is_ready).then_some(&**endpoint.zone.as_ref().unwrap());
                        prop_assert_eq!(endpoint.zone_hints().first().map(|hint| &*hint.name), hint);
                        found.push(name);
                    }
                }
                found.sort();
                let has = |pod: &&Arc<Pod>| pod.pod_ips.iter().any(|ip| ip.is_ipv4() == (kind == "IPv4"));
                let wanted: Vec<String> = world.pods.iter().filter(has).map(|pod| pod.metadata.name.to_string()).collect();
                prop_assert_eq!(found, wanted);
                prop_assert!(!of_kind.is_empty());
            }
            let again = Snapshot { slices: slices.clone(), memory: plan.memory.clone(), ..world };
            prop_assert!(decide(&again).slice_writes.iter().all(SliceWrites::is_empty), "a second sync writes nothing");
        }
    }
}

/// Builds a slice with these Pods and port 8080.
fn with(name: &str, pods: impl IntoIterator<Item = usize>) -> Arc<Slice> {
    slice(name, pods)
}

/// ENDPOINTSLICE-26, ENDPOINTSLICE-33.
#[test]
fn a_change_of_the_port_moves_no_endpoint_to_another_slice() {
    let mut world = snapshot((0..150).map(pod), 100);
    world.service = service(&json!({"ports": [{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP"}]}));
    for (a, b) in [
        ((0..100).collect::<Vec<_>>(), (100..150).collect::<Vec<_>>()),
        ((0..150).step_by(2).collect(), (1..150).step_by(2).collect()),
        ((100..150).collect(), (0..100).collect()),
    ] {
        world.slices = vec![with("a", a.clone()), with("b", b.clone())];
        let plan = decide(&world);
        let writes = &plan.slice_writes[0];
        assert_eq!(
            (writes.slices_to_create.len(), writes.slices_to_update.len(), writes.slices_to_delete.len()),
            (0, 2, 0)
        );
        never_missing(&prefixes(&world.slices, &plan.slice_writes, 0)).unwrap();
        assert_eq!(writes.slices_to_update.iter().map(|draft| draft.endpoints.len()).sum::<usize>(), 150);
    }
}

fn draft(base: &Arc<Slice>, pods: impl IntoIterator<Item = usize>) -> SliceDraft {
    SliceDraft { existing_slice: Some(Arc::clone(base)), ..SliceDraft::from_slice(&slice("x", pods)) }
}

/// ENDPOINTSLICE-33, ENDPOINTSLICE-78.
#[test]
fn a_moved_endpoint_is_added_before_it_is_removed() {
    // The endpoints of slice a move to slice b, and the endpoints of slice b to slice c.
    let (a, b, c) = (with("a", 0..2), with("b", 2..4), with("c", 4..6));
    let update = vec![draft(&a, 6..8), draft(&b, 0..2), draft(&c, 2..6)];
    let out = order_writes(Vec::new(), update, Vec::new(), SliceCreationPermission::Allowed, |_| true);
    let names: Vec<&str> =
        out.slices_to_update.iter().map(|draft| &*draft.existing_slice.as_ref().unwrap().metadata.name).collect();
    assert_eq!((names, out.slices_to_create.len(), out.slices_to_delete.len()), (vec!["c", "b", "a"], 0, 0));
}

/// ENDPOINTSLICE-33.
#[test]
fn slices_that_exchange_endpoints_take_one_more_write() {
    let (a, b, c) = (with("a", 0..2), with("b", 2..4), with("c", 4..6));
    let update = vec![draft(&a, 2..4), draft(&b, 4..6), draft(&c, 0..2)];
    let out = order_writes(Vec::new(), update.clone(), Vec::new(), SliceCreationPermission::Allowed, |_| true);
    assert_eq!((out.slices_to_create.len(), out.slices_to_update.len(), out.slices_to_delete.len()), (1, 2, 1));
    let world = [a, b, c];
    let (left_out, put_off, events, counts) = Default::default();
    let writes = SliceWrites {
        address_type: AddressType::Ipv4,
        slices_to_create: out.slices_to_create,
        slices_to_update: out.slices_to_update,
        slices_to_delete: out.slices_to_delete,
        omitted_pod_messages: left_out,
        deferred_write_counts: put_off,
        events,
        sync_counts: counts,
    };
    never_missing(&prefixes(&world, &[writes], 0)).unwrap();
    // For a terminating Service, no slice can be created, so only the updates are sent.
    let out = order_writes(Vec::new(), update, Vec::new(), SliceCreationPermission::Forbidden, |_| true);
    assert_eq!((out.slices_to_create.len(), out.slices_to_update.len(), out.slices_to_delete.len()), (0, 3, 0));
}

/// ENDPOINTSLICE-31.
#[test]
fn a_new_slice_replaces_the_slice_with_the_most_endpoints_in_common() {
    let (a, b) = (with("a", 0..3), with("b", 3..6));
    let create = vec![SliceDraft::from_slice(&slice("x", [3, 4, 5, 0])), SliceDraft::from_slice(&slice("y", [1, 2]))];
    let create = create.into_iter().map(|draft| SliceDraft { existing_slice: None, ..draft }).collect();
    let out = order_writes(create, Vec::new(), vec![a, b], SliceCreationPermission::Allowed, |_| true);
    let shown: Vec<(&str, usize)> = out
        .slices_to_update
        .iter()
        .map(|d| (&*d.existing_slice.as_ref().unwrap().metadata.name, d.endpoints.len()))
        .collect();
    // Endpoint 0 moves from slice a to slice b.
    assert_eq!(shown, [("b", 4), ("a", 2)]);
}

/// ENDPOINTSLICE-32.
#[test]
fn a_slice_of_another_owner_is_not_reused() {
    let create = vec![SliceDraft { existing_slice: None, ..SliceDraft::from_slice(&slice("x", 0..2)) }];
    let out = order_writes(create, Vec::new(), vec![with("a", 0..2)], SliceCreationPermission::Allowed, |_| false);
    assert_eq!((out.slices_to_create.len(), out.slices_to_update.len(), out.slices_to_delete.len()), (1, 0, 1));
}

/// ENDPOINTSLICE-39, ENDPOINTSLICE-40.
#[test]
fn ready_endpoints_are_hinted_to_their_zone_or_node() {
    let one = [Look { exists: true, ready: true, port: 8080, families: 0 }];
    let hints = |spec: Value, slices: Vec<Arc<Slice>>| -> Option<(Vec<String>, Vec<String>)> {
        let plan = decide(&world(&one, &spec, slices, 100));
        let draft = plan.slice_writes[0].slices_to_create.first().or(plan.slice_writes[0].slices_to_update.first())?;
        let names = |hints: &[crate::objects::Hint]| hints.iter().map(|hint| hint.name.to_string()).collect();
        Some((names(draft.endpoints[0].zone_hints()), names(draft.endpoints[0].node_hints())))
    };
    let some = |zones: &[&str], nodes: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Some((owned(zones), owned(nodes)))
    };
    let spec = |name: &str| json!({"trafficDistribution": name});
    assert_eq!(hints(spec("PreferSameZone"), vec![]), some(&["a"], &[]));
    assert_eq!(hints(spec("PreferClose"), vec![]), some(&["a"], &[]));
    assert_eq!(hints(spec("PreferSameNode"), vec![]), some(&["a"], &["n0"]));
    assert_eq!(hints(json!({}), vec![]), some(&[], &[]));
    // A slice is written again only if its hints are wrong.
    let written = |spec: Value| {
        let plan = decide(&world(&one, &spec, vec![], 100));
        prefixes(&[], &plan.slice_writes, 0).pop().unwrap().into_values().map(Arc::new).collect::<Vec<_>>()
    };
    for (from, to, changes) in [
        ("PreferSameZone", "PreferSameNode", some(&["a"], &["n0"])),
        ("PreferSameNode", "PreferSameZone", some(&["a"], &[])),
        ("PreferSameNode", "PreferSameNode", None),
        ("PreferClose", "PreferSameZone", None),
        ("PreferSameNode", "none", some(&[], &[])),
        ("none", "PreferSameZone", some(&["a"], &[])),
    ] {
        assert_eq!(hints(spec(to), written(spec(from))), changes, "{from} to {to}");
    }
}

/// ENDPOINTSLICE-41.
#[test]
fn a_distribution_keeps_its_name_from_the_service() {
    let name = |spec: Value| {
        let service = service(&spec);
        HintPolicy::from_service(&service).effective_traffic_distribution(&service)
    };
    for known in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        assert_eq!(name(json!({ "trafficDistribution": known })), Some(known));
    }
    assert_eq!((name(json!({"trafficDistribution": "Else"})), name(json!({}))), (None, None));
    let mut hinted = (*service(&json!({"trafficDistribution": "PreferClose"}))).clone();
    hinted.metadata.annotations =
        common::meta::Annotations::from_pairs([("service.kubernetes.io/topology-mode", "Auto")]);
    assert_eq!(HintPolicy::from_service(&hinted).effective_traffic_distribution(&hinted), None);
}

/// ENDPOINTSLICE-23.
#[test]
fn many_ports_on_many_different_pods_are_resolved_by_search() {
    let ports: Vec<Value> = (0..100)
        .map(|n| json!({"name": format!("s{n}"), "port": n + 1, "targetPort": format!("p{n}"), "protocol": "TCP"}))
        .collect();
    let pods = (0..100).map(|index| {
        let own: Vec<Value> = (0..1_000)
            .map(|n| json!({"name": format!("p{n}"), "containerPort": n + index, "protocol": "TCP"}))
            .collect();
        let mut object = json!({"metadata": {"name": format!("p{index:03}"), "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": NODE_NAME, "containers": [{"ports": own}]}});
        object["status"] = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": format!("10.0.0.{index}")}]});
        serde_json::from_value(object).unwrap()
    });
    let mut world = snapshot(pods, 100);
    world.service = service(&json!({ "ports": ports }));
    let plan = decide(&world);
    assert_eq!(plan.slice_writes[0].slices_to_create.len(), 100, "each Pod has different port numbers");
    let last = &plan.slice_writes[0].slices_to_create[99];
    assert_eq!((last.ports.len(), last.ports[7].port), (100, Some(106)));
}

/// ENDPOINTSLICE-20.
#[test]
fn a_recreated_service_with_another_family_has_slices_of_that_family_only() {
    let old = [slice("a", 0..2), slice("b", 2..3)];
    let mut world = snapshot((0..3).map(pod), 100);
    world.slices = old.to_vec();
    let mut again = (*service(&json!({"ipFamilies": ["IPv6"], "clusterIP": "fd00::99"}))).clone();
    again.metadata.uid = common::meta::Uid::new("another");
    world.service = Arc::new(again);
    let plan = decide(&world);
    assert_eq!(plan.slice_writes.len(), 1);
    let writes = &plan.slice_writes[0];
    assert_eq!(
        (
            writes.address_type,
            writes.slices_to_create.len(),
            writes.slices_to_update.len(),
            writes.slices_to_delete.len()
        ),
        (AddressType::Ipv6, 1, 0, 0)
    );
    let addresses: Vec<&str> =
        writes.slices_to_create[0].endpoints.iter().map(|endpoint| &*endpoint.addresses[0]).collect();
    assert_eq!(addresses, ["fd00::", "fd00::1", "fd00::2"]);
    let gone: Vec<&str> = plan.slices_of_unused_address_types.iter().map(|slice| &*slice.metadata.name).collect();
    assert_eq!(gone, ["a", "b"], "deleted after the other writes");
}

/// ENDPOINTSLICE-19.
#[test]
fn a_pod_of_another_family_is_neither_an_endpoint_nor_a_failure() {
    let four = Look { exists: true, ready: true, port: 8080, families: 0 };
    let six = Look { families: 1, ..four.clone() };
    let spec = json!({"ipFamilies": ["IPv6"], "clusterIP": "fd00::99"});
    let plan = decide(&world(&[four.clone(), six], &spec, Vec::new(), 100));
    let names: Vec<&str> = plan.slice_writes[0].slices_to_create[0]
        .endpoints
        .iter()
        .map(|e| &*e.target_ref.as_ref().unwrap().name)
        .collect();
    assert_eq!((names, plan.slice_writes[0].omitted_pod_messages.len()), (vec!["p0001"], 0));
    let plan = decide(&world(&[four], &spec, Vec::new(), 100));
    let place_holder = &plan.slice_writes[0].slices_to_create[0];
    assert_eq!((place_holder.endpoints.len(), place_holder.ports.len()), (0, 0), "the placeholder");
    assert_eq!(plan.slice_writes[0].omitted_pod_messages, Vec::<String>::new());
}

/// ENDPOINTSLICE-24.
#[test]
fn new_slices_beyond_the_limit_of_ports_are_deferred_to_the_next_sync() {
    let look = |port| Look { exists: true, ready: true, port, families: 0 };
    let pods: Vec<Look> = (0..6).map(|n| look(9000 + n)).collect();
    let named = json!({"ports": [{"name": "a", "port": 80, "targetPort": "web", "protocol": "TCP"},
        {"name": "b", "port": 81, "targetPort": "web", "protocol": "TCP"}]});
    let mut world = Snapshot { max_new_slice_ports: 4, ..world(&pods, &named, vec![slice("old", 0..6)], 100) };
    let plan = decide(&world);
    let writes = &plan.slice_writes[0];
    assert_eq!(
        (writes.slices_to_create.len(), writes.slices_to_update.len(), writes.slices_to_delete.len()),
        (2, 0, 0),
        "the old slice stays"
    );
    assert_eq!(writes.deferred_write_counts, DeferredWriteCounts { endpoint_count: 4, slice_count: 1 });
    assert_eq!(plan.wait_reasons().len(), 1);
    world.slices = prefixes(&world.slices, &plan.slice_writes, 0).pop().unwrap().into_values().map(Arc::new).collect();
    let plan = decide(&world);
    assert_eq!(plan.slice_writes[0].deferred_write_counts, DeferredWriteCounts { endpoint_count: 2, slice_count: 1 });
    world.slices = prefixes(&world.slices, &plan.slice_writes, 1).pop().unwrap().into_values().map(Arc::new).collect();
    let plan = decide(&world);
    let writes = &plan.slice_writes[0];
    assert_eq!(
        (writes.slices_to_create.len(), writes.slices_to_update.len(), writes.slices_to_delete.len()),
        (1, 1, 0),
        "the old slice is reused"
    );
    assert_eq!(writes.deferred_write_counts, DeferredWriteCounts::default());
}
