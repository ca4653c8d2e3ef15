//! What always holds of the accounts and ConfigMaps of namespaces, and what holds in the end.

use serde_json::Value;

use crate::{
    json::{annotation, is_deleting, name, text},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "serviceaccount-controller";
pub(super) const ACCOUNTS: &str = "serviceaccounts";
pub(super) const CONFIG_MAPS: &str = "configmaps";
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "accounts-are-only-created",
        claims: "SERVICEACCOUNT-1, SERVICEACCOUNT-20",
        check: accounts_are_only_created,
    },
    Invariant {
        name: "config-maps-get-the-bundle-alone",
        claims: "SERVICEACCOUNT-8, SERVICEACCOUNT-11, SERVICEACCOUNT-27, SERVICEACCOUNT-32",
        check: config_maps_get_the_bundle_alone,
    },
    Invariant { name: "repairs-only-what-is-wrong", claims: "SERVICEACCOUNT-10", check: repairs_only_what_is_wrong },
];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "active-namespaces-are-complete",
    claims: "SERVICEACCOUNT-1, SERVICEACCOUNT-2, SERVICEACCOUNT-4, SERVICEACCOUNT-8, SERVICEACCOUNT-9, SERVICEACCOUNT-12",
    check: active_namespaces_are_complete,
}];

fn is_right(config_map: &Value) -> bool {
    let is_alone = config_map["data"].as_object().is_some_and(|data| data.len() == 1);
    let is_bundle =
        config_map["data"]["ca.crt"].as_str().is_some_and(|text| text.starts_with("-----BEGIN CERTIFICATE-----"));
    is_alone && is_bundle && !annotation(config_map, "kubernetes.io/description").is_empty()
}

fn accounts_are_only_created(_: &World, logged: &Logged) -> Option<String> {
    if !logged.by(CONTROLLER) || logged.resource() == CONFIG_MAPS {
        return None;
    }
    let what = format!("{} {}", logged.resource(), logged.write.name);
    let is_new_account = logged.creates() && logged.resource() == ACCOUNTS && logged.write.name == "default";
    (!is_new_account).then(|| format!("{what} is written, and is no new account"))
}

fn config_maps_get_the_bundle_alone(_: &World, logged: &Logged) -> Option<String> {
    if !logged.is_of(CONTROLLER, CONFIG_MAPS) {
        return None;
    }
    let Some(after) = logged.after().filter(|after| name(after) == ROOT_CA && is_right(after)) else {
        return Some(format!("ConfigMap {} is deleted, or is wrong after a write", logged.write.name));
    };
    let kept = |config_map: &Value| {
        let mut config_map = config_map.clone();
        config_map["metadata"] = serde_json::json!({"labels": config_map["metadata"]["labels"]});
        config_map["data"] = Value::Null;
        if let Some(binary) = config_map["binaryData"].as_object_mut() {
            binary.remove("ca.crt");
        }
        config_map
    };
    let is_kept = logged.before().is_none_or(|before| kept(&before) == kept(&after));
    (!is_kept).then(|| "a repair changes what others have added".to_owned())
}

fn repairs_only_what_is_wrong(_: &World, logged: &Logged) -> Option<String> {
    let (before, _) = logged.changed(CONTROLLER, CONFIG_MAPS)?;
    is_right(&before).then(|| format!("ConfigMap {} was right", name(&before)))
}

fn active_namespaces_are_complete(world: &World) -> Option<String> {
    let active = world.list("namespaces").filter(|namespace| !is_deleting(namespace));
    active.filter(|namespace| text(namespace, "/status/phase") == "Active").find_map(|namespace| {
        let namespace = name(namespace);
        if world.get(ACCOUNTS, namespace, "default").is_none() {
            return Some(format!("namespace {namespace} has no account"));
        }
        let is_right = world.get(CONFIG_MAPS, namespace, ROOT_CA).is_some_and(|config_map| is_right(config_map));
        (!is_right).then(|| format!("namespace {namespace} has no ConfigMap, or a wrong one"))
    })
}
