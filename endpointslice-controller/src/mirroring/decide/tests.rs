use serde_json::{Value, json};

use super::*;
use crate::world::{mirrored_slice as slice, mirroring_snapshot, port_80};

fn removed(plan: &Plan) -> usize {
    plan.slice_writes.iter().map(|writes| writes.sync_counts.removed_endpoint_count).sum()
}

/// ENDPOINTSLICE-51.
#[test]
fn two_spellings_of_an_address_are_one_endpoint() {
    let ips = json!([{"ip": "10.2.0.1"}, {"ip": "010.2.0.1"}, {"ip": "::ffff:10.2.0.1"}, {"ip": "10.2.0.2"}]);
    let plan = decide(&mirroring_snapshot(&json!([{"addresses": ips, "ports": port_80()}]), &[]));
    let addresses: Vec<&str> =
        plan.slice_writes[0].slices_to_create[0].endpoints.iter().map(|e| &*e.addresses[0]).collect();
    assert_eq!(addresses, ["10.2.0.1", "10.2.0.2"]);
    // A different hostname makes a different endpoint.
    let ips = json!([{"ip": "10.2.0.1"}, {"ip": "010.2.0.1", "hostname": "b"}]);
    let plan = decide(&mirroring_snapshot(&json!([{"addresses": ips, "ports": port_80()}]), &[]));
    assert_eq!(plan.slice_writes[0].slices_to_create[0].endpoints.len(), 2);
}

#[test]
fn endpoints_of_a_family_that_lost_all_addresses_count_as_removed() {
    let there = [slice("a", "IPv4", &["10.2.0.1"]), slice("b", "IPv6", &["fd00::1", "fd00::2"])];
    let plan = decide(&mirroring_snapshot(&json!([{"addresses": [{"ip": "10.2.0.1"}], "ports": port_80()}]), &there));
    assert_eq!(removed(&plan), 2);
    assert_eq!(plan.slice_writes[1].slices_to_delete.len(), 1);
    let there = [slice("a", "IPv4", &["10.2.0.1", "10.2.0.2"])];
    let plan = decide(&mirroring_snapshot(&json!([{"addresses": [{"ip": "10.2.0.1"}], "ports": port_80()}]), &there));
    assert_eq!((removed(&plan), plan.slice_writes[0].slices_to_update.len()), (1, 1));
}

/// ENDPOINTSLICE-50, ENDPOINTSLICE-52.
#[test]
fn many_ports_times_many_addresses_are_not_multiplied_out() {
    let ports: Vec<Value> = (1..5_001).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    let ips = |from: usize, count: usize| -> Vec<Value> {
        (from..from + count)
            .map(|n| json!({"ip": format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250)}))
            .collect()
    };
    let one: Vec<Subset> = serde_json::from_value(json!([{"addresses": ips(0, 5_000), "ports": ports}])).unwrap();
    let (canonical, left_out) = subsets::canonical_subsets_and_omitted_address_count(&one, MAX_PROCESSED_ADDRESSES);
    assert_eq!(
        (canonical.len(), canonical[0].ports.len(), canonical[0].addresses.len(), left_out),
        (1, 5_000, 5_000, 0)
    );
    let plan = decide(&mirroring_snapshot(&json!([{"addresses": ips(0, 5_000), "ports": ports}]), &[]));
    assert_eq!(
        (plan.slice_writes[0].slices_to_create.len(), plan.slice_writes[0].slices_to_create[0].endpoints.len()),
        (1, 1000)
    );
    assert_eq!((plan.skipped_address_count, plan.events[0].reason), (4_000, "TooManyAddressesToMirror"));
    // No two ports are in the same combination of subsets.
    let subsets: Vec<Value> = (0..16)
        .map(|at| {
            let own: Vec<&Value> = ports.iter().enumerate().filter(|(n, _)| n >> at & 1 == 1).map(|(_, p)| p).collect();
            json!({"addresses": ips(at * 500, 500), "ports": own})
        })
        .collect();
    let plan = decide(&mirroring_snapshot(&json!(subsets), &[]));
    let endpoints: usize =
        plan.slice_writes.iter().flat_map(|w| &w.slices_to_create).map(|draft| draft.endpoints.len()).sum();
    assert!(
        endpoints <= MAX_PROCESSED_ADDRESSES && plan.skipped_address_count > MAX_PROCESSED_ADDRESSES,
        "{endpoints}, {}",
        plan.skipped_address_count
    );
}
