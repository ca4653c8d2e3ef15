//! `ResourceQuota`s of object counts: `pods`, `services` and the other kinds with a name of their own, and
//! `count/<resource>.<group>` for any. Quotas of CPU, memory and storage, and scopes, are not enforced.
//!
//! Usage is counted from the store at each creation, as if the quota controller were never late.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    object::{at, meta, text},
    resource::Resource,
    status::{ApiError, ApiResult},
    store::Store,
};

/// Kinds that may be limited by their bare name.
const BARE: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// Refuses an object that a quota of its namespace leaves no room for.
pub(super) fn check(store: &Store, resource: &Resource, name: &str, namespace: &str) -> ApiResult<()> {
    let quotas = store.list("resourcequotas", Some(namespace), None, None).unwrap_or_default();
    if quotas.is_empty() {
        return Ok(());
    }
    let names = limited_as(resource);
    for (_, version) in quotas {
        let quota = version.value();
        let Some(hard) = at(&quota, &["spec", "hard"]).as_object() else { continue };
        let limits: BTreeMap<&str, u64> =
            names.iter().filter_map(|n| Some((n.as_str(), hard.get(n)?.as_str()?.parse().ok()?))).collect();
        let Some(least) = limits.values().min() else { continue };
        let used = store.list(&resource.table, Some(namespace), None, None).unwrap_or_default();
        let used = used.iter().filter(|(_, v)| counts(resource, &v.value())).count() as u64;
        if used < *least {
            continue;
        }
        let exceeded: Vec<_> = limits.iter().filter(|(_, limit)| used >= **limit).collect();
        let all = |value: &dyn Fn(u64) -> u64| {
            let texts: Vec<_> = exceeded.iter().map(|(name, limit)| format!("{name}={}", value(**limit))).collect();
            texts.join(",")
        };
        let message = format!(
            "{} \"{name}\" is forbidden: exceeded quota: {}, requested: {}, used: {}, limited: {}",
            resource.qualified(),
            meta(&quota, "name"),
            all(&|_| 1),
            all(&|_| used),
            all(&|limit| limit),
        );
        return Err(ApiError::forbidden(resource.details(name), message));
    }
    Ok(())
}

/// The names by which a quota may limit a resource.
fn limited_as(resource: &Resource) -> Vec<String> {
    let mut names = vec![match &*resource.group {
        "" => format!("count/{}", resource.plural),
        group => format!("count/{}.{group}", resource.plural),
    }];
    if resource.group.is_empty() && BARE.contains(&&*resource.plural) {
        names.push(resource.plural.clone());
    }
    names
}

/// Whether an object uses any of the quota: a Pod that has ended does not.
fn counts(resource: &Resource, object: &Value) -> bool {
    !resource.is("", "pods") || !matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed")
}
