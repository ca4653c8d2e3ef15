//! The resource quota controller: keeps the status of `ResourceQuota`s, which admission enforces.
//!
//! As upstream it counts again when a quota's spec has changed and when an object no longer uses a quota; what is created is
//! charged by admission. Upstream: `pkg/controller/resourcequota`.

use serde_json::{Map, Value};

use crate::{
    api::{
        kinds::quantity::Quantity,
        resource::{Key, Resource},
    },
    store::{Change, Event, Store, audit::Author},
    value::object::{as_map, at},
    verbs::{
        core::{Actor, Core},
        quota::{QUOTAS, is_in_scopes, is_limited_by, usage},
    },
};

/// Without it no quota is in force until its status is written.
pub(crate) struct QuotaController;

impl Actor for QuotaController {
    fn changed(&self, core: &Core, store: &mut Store, resource: &Resource, event: &Event) {
        let Some(namespace) = event.key.namespace() else { return };
        if resource.is("", QUOTAS) {
            let before = event.before.as_ref().map(|version| version.value());
            let is_same = before.is_some_and(|before| before.get("spec") == event.version.value().get("spec"));
            if event.change != Change::Deleted && !is_same {
                recount(core, store, resource, &event.key);
            }
            return;
        }
        let registry = core.registry();
        let quotas = store.list(QUOTAS, Some(namespace), None, None).unwrap_or_default();
        let Some(resource_of_quotas) = registry.get("", "v1", QUOTAS).filter(|_| !quotas.is_empty()) else { return };
        if is_freed(resource, event) {
            for (key, _) in quotas {
                recount(core, store, resource_of_quotas, &key);
            }
        }
    }
}

/// Whether the object used more before the change than it does now.
fn is_freed(resource: &Resource, event: &Event) -> bool {
    let Some(before) = &event.before else { return false };
    event.change == Change::Deleted
        || usage(resource, &before.value()).len() > usage(resource, &event.version.value()).len()
}

/// Writes the status of a quota from what is in the store.
fn recount(core: &Core, store: &mut Store, resource: &Resource, key: &Key) {
    let (Some(quota), Some(namespace)) = (store.get(QUOTAS, key).map(|version| version.value()), key.namespace())
    else {
        return;
    };
    let hard = at(&quota, &["spec", "hard"]).as_object().cloned().unwrap_or_default();
    let registry = core.registry();
    let used: Map<String, Value> = hard
        .keys()
        .filter_map(|name| {
            let limited = registry.all().find(|resource| is_limited_by(resource, name))?;
            let mut sum = Quantity::ZERO;
            for (_, version) in store.list(&limited.table, Some(namespace), None, None).unwrap_or_default() {
                let object = version.value();
                let used = usage(limited, &object).get(name).copied();
                sum = used.filter(|_| is_in_scopes(limited, &object, &quota)).map_or(sum, |used| sum.plus(used));
            }
            Some((name.clone(), sum.to_string().into()))
        })
        .collect();
    let parts = [("hard", hard), ("used", used)].into_iter().filter(|(_, amounts)| !amounts.is_empty());
    let status: Map<String, Value> = parts.map(|(name, amounts)| (name.to_owned(), amounts.into())).collect();
    if at(&quota, &["status"]).as_object().is_some_and(|current| *current == status) {
        return;
    }
    let mut counted = Value::clone(&quota);
    as_map(&mut counted).insert("status".into(), status.into());
    let author = Author::sandbox("system:serviceaccount:kube-system:resourcequota-controller", "update");
    core.put(store, &author, resource, key, counted);
}
