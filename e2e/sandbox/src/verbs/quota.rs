//! Admission of `ResourceQuota`s: a creation is charged to the quotas that count the object, or refused.
//!
//! As in the real server the status of a quota is what counts: a creation is refused if `status.hard` leaves no room for it, and
//! otherwise adds to `status.used`. Counted are objects of any kind, requests and limits of Pods without sidecars and resizes,
//! ports of Services, and storage. Updates are not charged, and no request has to be set.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::Value;

use crate::{
    api::{
        kinds::quantity::Quantity,
        resource::{Key, Resource},
    },
    store::{Store, audit::Author},
    value::object::{as_map, at, child, meta, text},
    verbs::{
        core::Core,
        status::{ApiError, ApiResult},
    },
};

pub(crate) const QUOTAS: &str = "resourcequotas";

/// Kinds that may be limited by their bare name.
const BARE: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", QUOTAS, "secrets", "services"];

/// What stands between the name of a storage class and what is limited.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Amounts by the name that a quota may limit.
type Amounts = BTreeMap<String, Quantity>;

/// The quotas of a namespace as they are after a creation.
pub(crate) struct Charges(Vec<(Key, Value)>);

impl Charges {
    /// Counts a new object in the quotas of its namespace, or refuses it.
    pub(crate) fn of(store: &Store, resource: &Resource, object: &Value, namespace: &str) -> ApiResult<Self> {
        let (mut charged, name) = (Vec::new(), meta(object, "name"));
        for (key, version) in store.list(QUOTAS, Some(namespace), None, None).unwrap_or_default() {
            let mut quota = Value::clone(&version.value());
            let refused = |quota: &Value, why: &str| {
                let message = format!(
                    "{} \"{name}\" is forbidden: {}",
                    resource.qualified(),
                    why.replace("{}", meta(quota, "name"))
                );
                Err(ApiError::forbidden(resource.details(name), message))
            };
            let amounts = |part: &str| {
                let all = at(&quota, &["status", part]).as_object().into_iter().flatten();
                all.filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?))).collect()
            };
            let (hard, used): (Amounts, Amounts) = (amounts("hard"), amounts("used"));
            let matching: Vec<&String> = hard.keys().filter(|name| is_limited_by(resource, name)).collect();
            if matching.is_empty() || !is_in_scopes(resource, object, &quota) {
                continue;
            }
            if matching.iter().any(|name| !used.contains_key(*name)) {
                let names: Vec<&str> = matching.iter().map(|name| name.as_str()).collect();
                return refused(&quota, &format!("status unknown for quota: {{}}, resources: {}", names.join(",")));
            }
            let mut requested = usage(resource, object);
            requested.retain(|name, _| hard.contains_key(name));
            let sum = |name: &str, amount: Quantity| used.get(name).map_or(amount, |used| used.plus(amount));
            let exceeds = |(name, amount): &(&String, &Quantity)| {
                sum(name, **amount).partial_cmp(&hard[*name]) == Some(Ordering::Greater)
            };
            let exceeded: Vec<&String> = requested.iter().filter(exceeds).map(|(name, _)| name).collect();
            if !exceeded.is_empty() {
                let all = |amounts: &Amounts| {
                    let amount =
                        |name: &&String| amounts.get(*name).map_or_else(|| "0".to_owned(), ToString::to_string);
                    let texts: Vec<_> = exceeded.iter().map(|name| format!("{name}={}", amount(name))).collect();
                    texts.join(",")
                };
                let (requested, used, hard) = (all(&requested), all(&used), all(&hard));
                let why = format!("exceeded quota: {{}}, requested: {requested}, used: {used}, limited: {hard}");
                return refused(&quota, &why);
            }
            let new = requested.iter().map(|(name, amount)| (name.clone(), sum(name, *amount).to_string().into()));
            as_map(child(&mut quota, "status").entry("used").or_insert(Value::Null)).extend(new);
            charged.push((key, quota));
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

/// Whether a name in a quota limits a resource, whatever its objects use.
pub(crate) fn is_limited_by(resource: &Resource, name: &str) -> bool {
    if name.strip_prefix("count/").is_some_and(|counted| counted == resource.qualified()) {
        return true;
    }
    if !resource.group.is_empty() {
        return false;
    }
    let (plural, bare) = (&*resource.plural, name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")));
    match plural {
        _ if BARE.contains(&name) => plural == name,
        "pods" => {
            matches!(bare.unwrap_or(name), "cpu" | "memory" | "ephemeral-storage")
                || name
                    .strip_prefix("requests.")
                    .is_some_and(|name| name.contains('/') && !name.contains("kubernetes.io/"))
        }
        "services" => matches!(name, "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => name == "requests.storage" || name.contains(OF_CLASS),
        _ => false,
    }
}

/// What an object uses, by name.
pub(crate) fn usage(resource: &Resource, object: &Value) -> Amounts {
    let mut amounts = Amounts::from([(format!("count/{}", resource.qualified()), Quantity::ONE)]);
    if !resource.group.is_empty() {
        return amounts;
    }
    let plural = &*resource.plural;
    let ports = || at(object, &["spec", "ports"]).as_array().map_or(0, Vec::len).to_string();
    match (plural, text(object, &["spec", "type"])) {
        ("pods", _) if matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") => return amounts,
        ("pods", _) => add_requests_and_limits(object, &mut amounts),
        ("services", "NodePort" | "LoadBalancer") => {
            amounts.extend(Quantity::parse(&ports()).ok().map(|ports| ("services.nodeports".to_owned(), ports)));
            if text(object, &["spec", "type"]) == "LoadBalancer" {
                amounts.insert("services.loadbalancers".to_owned(), Quantity::ONE);
            }
        }
        ("persistentvolumeclaims", _) => {
            let storage = Quantity::parse(text(object, &["spec", "resources", "requests", "storage"]));
            let class = text(object, &["spec", "storageClassName"]);
            amounts.insert(format!("{class}{OF_CLASS}{plural}"), Quantity::ONE);
            if let Ok(storage) = storage {
                amounts.insert(format!("{class}{OF_CLASS}requests.storage"), storage);
                amounts.insert("requests.storage".to_owned(), storage);
            }
        }
        _ => {}
    }
    if BARE.contains(&plural) {
        amounts.insert(plural.to_owned(), Quantity::ONE);
    }
    amounts
}

/// Adds the larger of the sum over the containers and the largest init container.
fn add_requests_and_limits(pod: &Value, amounts: &mut Amounts) {
    let containers = |list: &str| at(pod, &["spec", list]).as_array().cloned().unwrap_or_default();
    for part in ["requests", "limits"] {
        let resources =
            |container: &Value| at(container, &["resources", part]).as_object().cloned().unwrap_or_default();
        let mut total = Amounts::new();
        for (name, amount) in containers("containers").iter().flat_map(resources) {
            let amount = Quantity::parse(amount.as_str().unwrap_or_default()).unwrap_or(Quantity::ZERO);
            let known = total.get(&name).map_or(amount, |known| known.plus(amount));
            total.insert(name, known);
        }
        for (name, amount) in containers("initContainers").iter().flat_map(resources) {
            let amount = Quantity::parse(amount.as_str().unwrap_or_default()).unwrap_or(Quantity::ZERO);
            let known = total.entry(name).or_insert(amount);
            *known = if amount > *known { amount } else { *known };
        }
        for (name, amount) in total {
            amounts.insert(format!("{part}.{name}"), amount);
            if part == "requests" && matches!(&*name, "cpu" | "memory" | "ephemeral-storage") {
                amounts.insert(name, amount);
            }
        }
    }
}

/// Whether the object satisfies all scopes of a quota. Only Pods satisfy any.
pub(crate) fn is_in_scopes(resource: &Resource, object: &Value, quota: &Value) -> bool {
    let plain = at(quota, &["spec", "scopes"]).as_array().into_iter().flatten();
    let selected = at(quota, &["spec", "scopeSelector", "matchExpressions"]).as_array().into_iter().flatten();
    let has_deadline = at(object, &["spec", "activeDeadlineSeconds"]).as_i64().is_some_and(|seconds| seconds >= 0);
    let is_best_effort = text(object, &["status", "qosClass"]) == "BestEffort";
    let class = text(object, &["spec", "priorityClassName"]);
    let is_satisfied = |scope: &str, operator: &str, values: &[Value]| match (scope, operator) {
        ("Terminating", _) => has_deadline,
        ("NotTerminating", _) => !has_deadline,
        ("BestEffort", _) => is_best_effort,
        ("NotBestEffort", _) => !is_best_effort,
        ("PriorityClass", "Exists") => !class.is_empty(),
        ("PriorityClass", "In") => values.iter().any(|value| value == class),
        ("PriorityClass", "NotIn") => values.iter().all(|value| value != class),
        ("PriorityClass", "DoesNotExist") => class.is_empty(),
        _ => false,
    };
    let is_pod = resource.is("", "pods");
    plain
        .map(|scope| (scope.as_str().unwrap_or_default(), "Exists", &[][..]))
        .all(|(scope, operator, values)| is_pod && is_satisfied(scope, operator, values))
        && selected.into_iter().all(|each| {
            let values = at(each, &["values"]).as_array().map(Vec::as_slice).unwrap_or_default();
            is_pod && is_satisfied(text(each, &["scopeName"]), text(each, &["operator"]), values)
        })
}
