use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::world::{pod, service};

fn wanted(service: &Arc<Service>, pods: impl IntoIterator<Item = Pod>) -> WantedEndpoints {
    let pods = pods.into_iter().map(Arc::new).collect();
    let members =
        Some(ServiceWithPods { service: Arc::clone(service), pods, synced_state: None, in_sync_versions: None });
    match decide(&Snapshot { key: service.metadata.key(), service_with_pods: members, endpoints: None }) {
        Plan::WriteIfNeeded(wanted) => *wanted,
        other => panic!("{other:?}"),
    }
}

/// Builds a Pod with the ports `a`, `b` and `c`, which get these numbers; `None` omits the port.
fn pod_with(index: usize, ready: bool, numbers: &[Option<i32>]) -> Pod {
    let names = ["a", "b", "c"].iter().zip(numbers);
    let ports = names.filter_map(|(name, n)| Some(json!({"name": name, "containerPort": (*n)?, "protocol": "TCP"})));
    let read: Pod =
        serde_json::from_value(json!({"spec": {"containers": [{"ports": ports.collect::<Vec<_>>()}]}})).unwrap();
    Pod { named_ports: read.named_ports, is_ready: ready, ..pod(index) }
}

/// Builds one subset for each pair of a Pod and a port, without merging subsets that have equal ports or addresses.
fn multiplied_out(targets: &[Value], pods: &[(bool, Vec<Option<i32>>)]) -> Vec<Subset> {
    let mut all = Vec::new();
    for (index, (ready, numbers)) in pods.iter().enumerate() {
        let pod = pod(index);
        let address = json!([{"ip": pod.pod_ips[0].to_string(), "nodeName": pod.node_name,
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": pod.metadata.name, "uid": pod.metadata.uid}}]);
        for (at, target) in targets.iter().enumerate() {
            let of_pod = |name: &str| numbers["abc".find(name).unwrap()].map(i64::from);
            let Some(number) = target.as_i64().or_else(|| of_pod(target.as_str()?)) else { continue };
            let list = if *ready { "addresses" } else { "notReadyAddresses" };
            let port = json!([{"name": format!("p{at}"), "port": number, "protocol": "TCP"}]);
            all.push(serde_json::from_value(json!({list: address, "ports": port})).unwrap());
        }
    }
    all
}

proptest! {
    /// ENDPOINTSLICE-57.
    #[test]
    fn addresses_are_in_the_order_of_their_texts(
        ips in prop::collection::vec(prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            prop::array::uniform4(0..12u8).prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from),
            (0..0x300u128).prop_map(|low| IpAddr::from((0xfd00_u128 << 112 | low << 64 | low).to_be_bytes())),
        ], 0..40),
    ) {
        let (mut by_order, mut by_text) = (ips.clone(), ips);
        by_order.sort_by_key(|ip| AddressText::new(*ip));
        by_text.sort_by_key(ToString::to_string);
        prop_assert_eq!(by_order, by_text);
    }

    /// ENDPOINTSLICE-56, ENDPOINTSLICE-57.
    #[test]
    fn subsets_equal_the_canonical_form_of_every_port_of_every_pod(
        targets in prop::collection::vec(prop::sample::select(vec![json!(80), json!(81), json!("a"), json!("b"), json!("c")]), 0..6),
        pods in prop::collection::vec((any::<bool>(), prop::collection::vec(prop::option::of(80..83i32), 3)), 0..12),
    ) {
        let port = |(at, target): (usize, &Value)| json!({"name": format!("p{at}"), "port": 1, "targetPort": target, "protocol": "TCP"});
        let service = service(&json!({"ports": targets.iter().enumerate().map(port).collect::<Vec<_>>()}));
        let made = pods.iter().enumerate().map(|(index, (ready, numbers))| pod_with(index, *ready, numbers));
        let wanted = wanted(&service, made);
        prop_assert_eq!(wanted.subsets, subsets::canonical_subsets(&multiplied_out(&targets, &pods)));
        prop_assert_eq!(wanted.over_capacity_annotation, None);
    }
}

/// ENDPOINTSLICE-58.
#[test]
fn the_first_thousand_addresses_in_canonical_order_are_kept() {
    let wanted = wanted(&service(&json!({})), (0..1_500).map(|index| pod_with(index, index % 100 != 0, &[])));
    let mut ready: Vec<String> = (0..1_500).filter(|n| n % 100 != 0).map(|n| pod(n).pod_ips[0].to_string()).collect();
    ready.sort();
    let kept: Vec<String> = wanted.subsets[0].addresses.iter().map(|address| address.ip.to_string()).collect();
    assert_eq!((wanted.subsets.len(), wanted.over_capacity_annotation), (1, Some("truncated")));
    assert_eq!(kept, ready[..1_000]);
    assert!(wanted.subsets[0].not_ready_addresses.is_empty());
}

/// ENDPOINTSLICE-58.
#[test]
fn ports_beyond_the_limit_of_an_object_are_omitted() {
    let port = |n: usize| json!({"name": format!("p{n}"), "port": 1 + n, "targetPort": "a", "protocol": "TCP"});
    let service = service(&json!({"ports": (0..10_000).map(port).collect::<Vec<_>>()}));
    let wanted = wanted(&service, (0..20).map(|index| pod_with(index, true, &[Some(8_000 + index as i32)])));
    assert_eq!((wanted.subsets.len(), wanted.over_capacity_annotation), (10, Some("truncated")));
    let numbers: BTreeSet<usize> = wanted.subsets.iter().map(|subset| subset.ports.len()).collect();
    assert_eq!(numbers, [10_000].into());
}
