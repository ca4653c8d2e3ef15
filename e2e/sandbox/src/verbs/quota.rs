//! Admission of `ResourceQuota`s of object counts: `pods`, `services` and the other kinds with a name of their own, and
//! `count/<resource>.<group>` for any. Quotas of CPU, memory and storage, and scopes, are not enforced.
//!
//! As in the real server the status of a quota is what counts: a creation is refused if `status.hard` leaves no room for it, and
//! otherwise adds to `status.used`.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    api::{
        kinds::quantity::Quantity,
        resource::{Key, Registry, Resource},
    },
    store::{Store, audit::Author},
    value::object::{as_map, child, meta, text},
    verbs::{
        core::Core,
        status::{ApiError, ApiResult},
    },
};

pub(crate) const QUOTAS: &str = "resourcequotas";

/// Kinds that may be limited by their bare name.
const BARE: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", QUOTAS, "secrets", "services"];

/// The quotas of a namespace as they are after a creation.
pub(crate) struct Charges(Vec<(Key, Value)>);

impl Charges {
    /// Counts a new object in the quotas of its namespace, or refuses it.
    pub(crate) fn of(store: &Store, resource: &Resource, name: &str, namespace: &str) -> ApiResult<Self> {
        let mut charged = Vec::new();
        for (key, version) in store.list(QUOTAS, Some(namespace), None, None).unwrap_or_default() {
            let mut quota = Value::clone(&version.value());
            let amount = |part: &str, name: &str| Quantity::parse(text(&quota, &["status", part, name])).ok();
            // The limit and the use of each name that the quota limits.
            let limits: BTreeMap<String, (Quantity, Quantity)> = names_of(resource)
                .into_iter()
                .filter_map(|name| Some((amount("hard", &name)?, amount("used", &name)?, name)))
                .map(|(hard, used, name)| (name, (hard, used)))
                .collect();
            let exceeded: Vec<_> = limits.iter().filter(|(_, (hard, used))| used >= hard).collect();
            if !exceeded.is_empty() {
                let all = |value: &dyn Fn(&(Quantity, Quantity)) -> Quantity| {
                    let texts: Vec<_> =
                        exceeded.iter().map(|(name, amounts)| format!("{name}={}", value(amounts))).collect();
                    texts.join(",")
                };
                let message = format!(
                    "{} \"{name}\" is forbidden: exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    resource.qualified(),
                    meta(&quota, "name"),
                    all(&|_| Quantity::ONE),
                    all(&|(_, used)| *used),
                    all(&|(hard, _)| *hard),
                );
                return Err(ApiError::forbidden(resource.details(name), message));
            }
            let used = as_map(child(&mut quota, "status").entry("used").or_insert(Value::Null));
            used.extend(
                limits.iter().map(|(name, (_, used))| (name.clone(), used.plus(Quantity::ONE).to_string().into())),
            );
            if !limits.is_empty() {
                charged.push((key, quota));
            }
        }
        Ok(Self(charged))
    }

    /// Stores the quotas.
    pub(crate) fn store(self, core: &Core, store: &mut Store) {
        let registry = core.registry();
        let Some(resource) = registry.get("", "v1", QUOTAS) else { return };
        for (key, quota) in self.0 {
            core.put(store, &Author::sandbox("system:apiserver", "update"), resource, &key, quota);
        }
    }
}

/// The names by which a quota may limit a resource.
fn names_of(resource: &Resource) -> Vec<String> {
    let mut names = vec![format!("count/{}", resource.qualified())];
    if resource.group.is_empty() && BARE.contains(&&*resource.plural) {
        names.push(resource.plural.clone());
    }
    names
}

/// The resource that a quota limits by a name.
pub(crate) fn limited_resource<'a>(registry: &'a Registry, name: &str) -> Option<&'a Arc<Resource>> {
    let qualified = name.strip_prefix("count/").or_else(|| BARE.contains(&name).then_some(name))?;
    let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
    registry.any_version(group, plural)
}

/// Whether an object uses any of the quota: a Pod that has ended does not.
pub(crate) fn is_counted(resource: &Resource, object: &Value) -> bool {
    !resource.is("", "pods") || !matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed")
}
