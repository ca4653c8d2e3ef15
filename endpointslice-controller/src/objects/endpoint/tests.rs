use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(value: &Value) -> Endpoint {
    serde_json::from_value(value.clone()).unwrap()
}

/// Generates an address. The order of two such addresses as texts sometimes differs from their numeric order.
fn any_address() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["10.0.0.10", "10.0.0.9", "9.0.0.1", "fd00::a", "fd00::1:0", "example.com", ""])
            .prop_map(str::to_owned),
        any::<u32>().prop_map(|bits| std::net::Ipv4Addr::from(bits).to_string()),
        any::<u128>().prop_map(|bits| std::net::Ipv6Addr::from(bits).to_string()),
    ]
}

prop_compose! {
    fn addresses_in_two_orders()(list in prop::collection::vec(any_address(), 0..6))
        (shuffled in Just(list.clone()).prop_shuffle(), list in Just(list)) -> (Vec<String>, Vec<String>) {
        (list, shuffled)
    }
}

proptest! {
    /// The API documents that the addresses of an endpoint are alternatives without an order.
    /// ENDPOINTSLICE-18.
    #[test]
    fn the_order_of_addresses_has_no_meaning((list, shuffled) in addresses_in_two_orders()) {
        let with = |addresses: &[String]| read(&json!({"addresses": addresses, "hostname": "h",
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p"}, "conditions": {"ready": true}}));
        let (one, other) = (with(&list), with(&shuffled));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(one.identity(), other.identity());
        prop_assert!(one.has_same_content(&other));
        // Sorting neither adds nor removes an address, not even a duplicate.
        let (mut sorted, read): (_, Vec<&str>) = (list, one.addresses.iter().map(|text| &**text).collect());
        sorted.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        prop_assert_eq!(read, sorted);
    }

    #[test]
    fn different_addresses_make_a_different_endpoint(
        list in prop::collection::vec(any_address(), 0..4), other in prop::collection::vec(any_address(), 0..4),
    ) {
        let with = |addresses: &[String]| read(&json!({ "addresses": addresses }));
        let sorted = |list: &[String]| { let mut list = list.to_vec(); list.sort(); list };
        let is_same = sorted(&list) == sorted(&other);
        prop_assert_eq!(with(&list).identity() == with(&other).identity(), is_same);
        prop_assert_eq!(with(&list) == with(&other), is_same);
    }

    /// If encoding and decoding changed an endpoint, every sync would write the endpoint again.
    #[test]
    fn an_endpoint_survives_the_round_trip((list, _) in addresses_in_two_orders(), ready in any::<Option<bool>>()) {
        let conditions = ready.map_or_else(|| json!({}), |ready| json!({ "ready": ready }));
        let endpoint = read(&json!({"addresses": list, "conditions": conditions, "zone": "a",
            "hints": {"forZones": [{"name": "b"}, {"name": "a"}], "forNodes": [{"name": "n"}]}}));
        let written = serde_json::to_value(&endpoint).unwrap();
        prop_assert_eq!(&read(&written), &endpoint);
        prop_assert_eq!(serde_json::to_value(read(&written)).unwrap(), written);
    }
}

#[test]
fn an_endpoint_without_addresses_is_read() {
    for value in [json!({}), json!({"addresses": null, "conditions": null}), json!({"addresses": []})] {
        assert_eq!(read(&value), Endpoint::default(), "{value}");
    }
}

/// ENDPOINTSLICE-40.
#[test]
fn hints_to_several_zones_are_not_a_hint_to_one_of_them() {
    let with = |zones: &[&str]| {
        let zones: Vec<Value> = zones.iter().map(|name| json!({ "name": name })).collect();
        read(&json!({"hints": {"forZones": zones}}))
    };
    let (a, both) = (Text::new("a"), Text::new("b"));
    assert!(with(&["a"]).is_hinted_only_to(Some(&a), None));
    for endpoint in [with(&["a", "b"]), with(&["b", "a"]), with(&["b"]), with(&[])] {
        assert!(!endpoint.is_hinted_only_to(Some(&a), None), "{endpoint:?}");
    }
    assert!(!with(&["a"]).is_hinted_only_to(None, Some(&both)) && with(&[]).is_hinted_only_to(None, None));
}
