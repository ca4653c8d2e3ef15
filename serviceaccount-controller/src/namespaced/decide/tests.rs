use serde_json::json;

use super::*;
use crate::{
    objects::{ConfigMap, Namespace, ServiceAccount},
    world::{CA, NEXT_CA, bundle, object},
};

fn config_map(data: Value, description: &str) -> Arc<ConfigMap> {
    let metadata = json!({"namespace": "shop", "name": "kube-root-ca.crt", "uid": "u",
        "annotations": {"kubernetes.io/description": description}});
    object(&json!({"metadata": metadata, "data": data}))
}

fn plan(config_map: Option<Arc<ConfigMap>>) -> Plan {
    let key = NamespacedName::new("shop", "kube-root-ca.crt");
    decide(&Snapshot { key, is_namespace_active: true, object: config_map, bundle: Some(bundle(CA)) })
}

/// What the plan repairs.
fn fault(config_map: Arc<ConfigMap>) -> Option<&'static str> {
    if let Plan::Repair(fault, _) = plan(Some(config_map)) { Some(fault) } else { None }
}

/// SERVICEACCOUNT-8, SERVICEACCOUNT-25.
#[test]
fn a_missing_config_map_is_created_in_an_active_namespace_once_there_is_a_bundle() {
    assert_eq!((plan(None), &*plan(None).situation()), (Plan::Create, "the object is missing"));
    let key = NamespacedName::new("shop", "kube-root-ca.crt");
    let snapshot = Snapshot { key, is_namespace_active: false, object: None, bundle: Some(bundle(CA)) };
    assert_eq!(decide(&snapshot), Plan::Keep("the namespace is not active"));
    let wrong = Snapshot { object: Some(config_map(json!({}), "")), ..snapshot.clone() };
    assert_eq!(decide(&wrong), Plan::Keep("the namespace is not active"));
    let snapshot = Snapshot { is_namespace_active: true, bundle: None, ..snapshot };
    assert_eq!(decide(&snapshot), Plan::Keep(AWAITS_BUNDLE));
    assert_eq!(decide(&Snapshot { object: wrong.object, ..snapshot }), Plan::Keep(AWAITS_BUNDLE));
}

/// SERVICEACCOUNT-10.
#[test]
fn a_config_map_is_right_if_its_data_is_the_bundle_alone_and_it_is_described() {
    for description in ["Contains a CA bundle", "any"] {
        assert_eq!(plan(Some(config_map(json!({"ca.crt": CA}), description))), Plan::Keep("the object is right"));
    }
    for data in [
        Value::Null,
        json!({}),
        json!({"ca.crt": ""}),
        json!({"ca.crt": NEXT_CA}),
        json!({"ca.crt": format!("{CA}\n")}),
        json!({"ca.crt": CA, "other": ""}),
        json!({"other": CA}),
    ] {
        assert_eq!(fault(config_map(data.clone(), "any")), Some("its data is not the bundle alone"), "{data}");
    }
    assert_eq!(fault(config_map(json!({"ca.crt": CA}), "")), Some("its description is missing"));
    let bare = json!({"metadata": {"namespace": "shop", "name": "kube-root-ca.crt"}, "data": {"ca.crt": CA}});
    assert_eq!(fault(object(&bare)), Some("its description is missing"));
}

/// SERVICEACCOUNT-1.
#[test]
fn an_active_namespace_without_an_account_gets_one() {
    let account: Arc<ServiceAccount> = object(&json!({"metadata": {"namespace": "shop", "name": "default"}}));
    for (is_namespace_active, object, plan) in [
        (true, None, Plan::Create),
        (true, Some(Arc::clone(&account)), Plan::Keep("the object is right")),
        (false, None, Plan::Keep("the namespace is not active")),
        (false, Some(account), Plan::Keep("the namespace is not active")),
    ] {
        let key = NamespacedName::new("shop", "default");
        assert_eq!(decide(&Snapshot { key, is_namespace_active, object, bundle: Some(Arc::default()) }), plan);
    }
}

/// SERVICEACCOUNT-1, SERVICEACCOUNT-25.
#[test]
fn a_namespace_without_the_phase_is_not_active() {
    for (status, is_active) in [(json!({"phase": "Active"}), true), (json!({}), false), (Value::Null, false)] {
        let namespace: Arc<Namespace> = object(&json!({"metadata": {"name": "shop"}, "status": status}));
        assert_eq!(namespace.is_active, is_active, "{status}");
    }
}

/// SERVICEACCOUNT-11, SERVICEACCOUNT-27, SERVICEACCOUNT-32.
#[test]
fn a_repair_replaces_data_only_where_there_is_some() {
    let repair = |fields: &str| {
        let config_map: Arc<ConfigMap> = object(
            &serde_json::from_str(&format!("{{\"metadata\": {{\"name\": \"kube-root-ca.crt\"}} {fields}}}")).unwrap(),
        );
        if let Plan::Repair(_, patch) = plan(Some(config_map)) { patch } else { Value::Null }
    };
    assert_eq!(repair(r#", "data": {"a": "b"}"#)["data"], json!({"$patch": "replace", "ca.crt": CA}));
    for fields in ["", r#", "data": null"#, r#", "data": {}, "binaryData": {"b": "AAAA"}"#] {
        assert_eq!(repair(fields)["data"], json!({"ca.crt": CA}), "{fields}");
        assert_eq!(repair(fields)["binaryData"], Value::Null, "{fields}");
    }
    assert_eq!(repair(r#", "binaryData": {"ca.crt": "AAAA"}"#)["binaryData"], json!({"ca.crt": null}));
}
