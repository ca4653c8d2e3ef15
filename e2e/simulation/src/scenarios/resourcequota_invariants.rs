//! What always holds of quotas, and what holds in the end, read off the API server's true state.
//!
//! The true sums are computed here from the stored objects, without the code of the controller.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    json::{at, has_finished, is_deleting, items, name, text},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "resourcequota-controller";
pub(super) const QUOTAS: &str = "resourcequotas";

pub(super) const INVARIANTS: &[Invariant] =
    &[Invariant { name: "quotas-keep-their-specs", claims: "RESOURCEQUOTA-92", check: quotas_keep_their_specs }];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "used-is-the-true-sum",
    claims: "RESOURCEQUOTA-16, RESOURCEQUOTA-22, RESOURCEQUOTA-29, RESOURCEQUOTA-48, RESOURCEQUOTA-56, RESOURCEQUOTA-57",
    check: used_is_the_true_sum,
}];

fn quotas_keep_their_specs(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, QUOTAS)?;
    let kept = ["/spec", "/metadata/labels", "/metadata/annotations", "/metadata/finalizers"];
    let lost = kept.into_iter().find(|pointer| before.pointer(pointer) != after.pointer(pointer))?;
    Some(format!("{lost} of quota {} is changed", name(&before)))
}

/// Thousandths in a quantity such as `1500m` or `2`.
fn milli(quantity: &str) -> i64 {
    let (digits, factor) = quantity.strip_suffix('m').map_or((quantity, 1000), |digits| (digits, 1));
    digits.parse::<i64>().map_or(i64::MIN, |number| number * factor)
}

fn requested_cpu(pod: &Value) -> i64 {
    let requests = items(pod, "/spec/containers").iter().map(|each| text(each, "/resources/requests/cpu"));
    requests.filter(|request| !request.is_empty()).map(milli).sum()
}

fn is_in_scopes(quota: &Value, pod: &Value) -> bool {
    items(quota, "/spec/scopes").iter().all(|scope| match scope.as_str() {
        Some("Terminating") => at(pod, "/spec/activeDeadlineSeconds").is_some_and(Value::is_number),
        _ => false,
    })
}

/// The true usage under a name, in thousandths; `None` if the kind is not served, so that the name keeps what it had.
fn true_sum(world: &World, quota: &Value, hard: &str) -> Option<i64> {
    let namespace = text(quota, "/metadata/namespace");
    let pods = || {
        let all = world.list("pods").filter(move |pod| text(pod, "/metadata/namespace") == namespace);
        all.filter(|pod| is_in_scopes(quota, pod))
    };
    let counts = |pod: &&std::sync::Arc<Value>| !has_finished(pod);
    Some(match hard {
        "pods" => pods().filter(counts).count() as i64 * 1000,
        "count/pods" => pods().count() as i64 * 1000,
        "requests.cpu" => pods().filter(counts).map(|pod| requested_cpu(pod)).sum(),
        _ => {
            let resource = hard.strip_prefix("count/")?;
            let is_served = !resource.ends_with(".sim.example.com")
                || world
                    .present()
                    .any(|(id, _)| id.0 == "customresourcedefinitions.apiextensions.k8s.io" && id.2 == resource);
            let all = world.list(resource).filter(|object| text(object, "/metadata/namespace") == namespace);
            if is_served { all.count() as i64 * 1000 } else { return None }
        }
    })
}

fn used_is_the_true_sum(world: &World) -> Option<String> {
    world.list(QUOTAS).filter(|quota| !is_deleting(quota)).find_map(|quota| {
        let map = |pointer| at(quota, pointer).and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
        let (hard, limits, used) = (map("/spec/hard"), map("/status/hard"), map("/status/used"));
        let wrong = |name: &str| {
            let sum = true_sum(world, quota, name)?;
            let written = used.get(name).and_then(Value::as_str).map(milli);
            (written != Some(sum)).then(|| format!("{name}: {written:?} is used, and {sum} is true"))
        };
        let wrong: BTreeMap<&String, String> = hard.keys().filter_map(|name| Some((name, wrong(name)?))).collect();
        let is_right = wrong.is_empty() && hard == limits && used.keys().all(|name| hard.contains_key(name));
        (!is_right).then(|| format!("quota {}: {wrong:?}, limits {limits:?} of {hard:?}", name(quota)))
    })
}
