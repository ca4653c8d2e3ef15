//! Resource requirements of containers and Pods: validation, sums, and the class of quality they give.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    quantity::Quantity,
    syntax,
    value::{entries, list, text},
};

const HUGE_PAGES: &str = "hugepages-";

/// Names that need no prefix, besides those a container may ask for.
const STANDARD: [&str; 17] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whose resources they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    Pod,
    Quota,
}

/// Validates the resources of a container. `claims` are the names of the Pod's resource claims.
pub(super) fn validate(errors: &mut Errors, resources: &Value, claims: &BTreeSet<&str>, at: &Path<'_>) {
    validate_requirements(errors, resources, Owner::Container, at);
    validate_claims(errors, list(&resources["claims"]), claims, &at.child("claims"));
}

/// Validates the resources of a Pod as a whole.
pub(super) fn validate_pod(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let resources = &spec["resources"];
    if !resources.is_object() {
        return;
    }
    if spec["os"]["name"] == "windows" {
        return errors.forbidden(at, "may not be set for a windows pod");
    }
    if resources["claims"].is_array() {
        errors.forbidden(&at.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(errors, resources, Owner::Pod, at);
    validate_sums(errors, spec, at);
}

/// Validates amounts that a Pod needs besides its containers.
pub(super) fn validate_amounts(errors: &mut Errors, amounts: &Value, at: &Path<'_>) {
    for (name, amount) in entries(amounts) {
        validate_amount(errors, name, amount, Owner::Container, &at.key(name));
    }
}

/// Validates one amount of a quota.
pub(super) fn validate_quota(errors: &mut Errors, name: &str, amount: &Value, at: &Path<'_>) {
    validate_name(errors, name, Owner::Quota, at);
    validate_quantity(errors, name, amount, at);
}

fn validate_requirements(errors: &mut Errors, resources: &Value, owner: Owner, at: &Path<'_>) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    let limits_at = at.child("limits");
    for (name, amount) in entries(limits) {
        validate_amount(errors, name, amount, owner, &limits_at.key(name));
    }
    let requests_at = at.child("requests");
    for (name, amount) in entries(requests) {
        validate_name(errors, name, owner, &requests_at.key(name));
        validate_quantity(errors, name, amount, &requests_at.key(name));
        validate_limit(errors, name, amount, limits, at);
        validate_pages(errors, name, amount, &requests_at.key(name));
    }
    let has = |test: &dyn Fn(&str) -> bool| entries(limits).chain(entries(requests)).any(|(name, _)| test(name));
    if has(&|name| name.starts_with(HUGE_PAGES)) && !has(&|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
}

fn validate_amount(errors: &mut Errors, name: &str, amount: &Value, owner: Owner, at: &Path<'_>) {
    validate_name(errors, name, owner, at);
    validate_quantity(errors, name, amount, at);
    validate_pages(errors, name, amount, at);
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && syntax::qualified_name(&format!("requests.{name}")).is_empty()
}

fn overcommits(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn validate_name(errors: &mut Errors, name: &str, owner: Owner, at: &Path<'_>) {
    if matches!(name, "cpu" | "memory") {
        return;
    }
    let wrong = syntax::qualified_name(name);
    let mut right = wrong.is_empty();
    errors.syntax(at, name, wrong);
    let plain = !name.contains('/');
    let for_container = name == "ephemeral-storage" || name.starts_with(HUGE_PAGES);
    if right && plain && !for_container && !STANDARD.contains(&name) && !name.starts_with("requests.hugepages-") {
        right = false;
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
    }
    match owner {
        Owner::Container if plain && !for_container => {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
        Owner::Container if !is_native(name) && !is_extended(name) => {
            errors.invalid(at, name, "doesn't follow extended resource name standard");
        }
        Owner::Pod if right && !name.starts_with(HUGE_PAGES) => {
            errors.not_supported(at, name, &["cpu", HUGE_PAGES, "memory"]);
        }
        Owner::Quota if plain && (name == "storage" || !(for_container || STANDARD.contains(&name))) => {
            errors.invalid(at, name, "must be a standard resource for quota");
        }
        Owner::Container | Owner::Pod | Owner::Quota => {}
    }
}

/// Validates one quantity of a resource.
pub(super) fn validate_quantity(errors: &mut Errors, name: &str, amount: &Value, at: &Path<'_>) {
    let Ok(quantity) = Quantity::parse(text(amount)) else { return };
    if quantity.is_negative() {
        errors.invalid(at, text(amount), "must be greater than or equal to 0");
    }
    let counted = STANDARD.contains(&name) && !name.contains("requests.") && !name.contains("limits.");
    if !quantity.is_whole() && (is_extended(name) || (counted && name != "storage")) {
        errors.invalid(at, amount, "must be an integer");
    }
}

/// Huge pages come in whole pages.
fn validate_pages(errors: &mut Errors, name: &str, amount: &Value, at: &Path<'_>) {
    let (Some(page), Ok(quantity)) = (name.strip_prefix(HUGE_PAGES), Quantity::parse(text(amount))) else { return };
    let size = Quantity::parse(page).ok().filter(|size| size.is_whole() && size.value() > 0);
    if size.is_none_or(|size| quantity.value() % size.value() != 0) {
        let message = format!("{} is not positive integer multiple of {name}", text(amount));
        errors.invalid(at, amount, &message);
    }
}

fn validate_limit(errors: &mut Errors, name: &str, amount: &Value, limits: &Value, at: &Path<'_>) {
    let Some(limit) = limits.get(name) else {
        if !overcommits(name) {
            errors.required(&at.child("limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let (Ok(wanted), Ok(most)) = (Quantity::parse(text(amount)), Quantity::parse(text(limit))) else { return };
    let at = at.child("requests");
    if wanted != most && !overcommits(name) {
        errors.invalid(&at, text(amount), &format!("must be equal to {name} limit of {}", text(limit)));
    } else if wanted > most {
        errors.invalid(&at, text(amount), &format!("must be less than or equal to {name} limit of {}", text(limit)));
    }
}

fn validate_claims(errors: &mut Errors, claims: &[Value], known: &BTreeSet<&str>, at: &Path<'_>) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let at = at.index(i);
        let (name, request) = (text(&claim["name"]), text(&claim["request"]));
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.duplicate(&at, name);
        } else {
            if !request.is_empty() {
                errors.syntax(&at.child("request"), request, syntax::label(request));
            }
            if !request.is_empty() && seen.contains(&(name, request)) {
                errors.duplicate(&at, format!("{name}/{request}").as_str());
            } else if request.is_empty() {
                seen.iter().filter(|(held, _)| *held == name).for_each(|_| errors.duplicate(&at, name));
            }
            seen.insert((name, request));
        }
        if !known.contains(name) {
            let known: Vec<&str> = known.iter().copied().collect();
            let known = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            errors.not_found_because(&at, name, &format!("must be one of the names in pod.spec.resourceClaims{known}"));
        }
    }
}

/// What containers ask for together must fit into what the Pod asks for.
fn validate_sums(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let too_little = |errors: &mut Errors, field: &str, what: &str, test: &dyn Fn(&str) -> bool| {
        let own = &spec["resources"][field];
        for (name, sum) in sum_of_containers(spec, field).into_iter().filter(|(name, _)| test(name)) {
            let Some(held) = own.get(name) else { continue };
            if Quantity::parse(text(held)).is_ok_and(|held| sum > held) {
                let message = format!("must be greater than or equal to aggregate container {what} of {sum}");
                errors.invalid(&at.child(field).key(name), held, &message);
            }
        }
    };
    too_little(errors, "requests", "requests", &|_| true);
    too_little(errors, "limits", "limits", &|name| name.starts_with(HUGE_PAGES));
    let containers_at = at.child("containers");
    for (i, container) in list(&spec["containers"]).iter().enumerate() {
        for (name, limit) in entries(&container["resources"]["limits"]) {
            let Some(most) = spec["resources"]["limits"].get(name) else { continue };
            let over = |limit: Quantity| Quantity::parse(text(most)).is_ok_and(|most| limit > most);
            if Quantity::parse(text(limit)).is_ok_and(over) {
                let message = format!("must be less than or equal to pod limits of {}", text(most));
                errors.invalid(&containers_at.index(i).key(name).child("limits"), limit, &message);
            }
        }
    }
}

/// The sum over the containers that run at the same time, at its largest.
pub(super) fn sum_of_containers<'a>(spec: &'a Value, field: &str) -> BTreeMap<&'a str, Quantity> {
    let mut sums = BTreeMap::new();
    for container in list(&spec["containers"]) {
        add(&mut sums, &container["resources"][field]);
    }
    let mut restarting = BTreeMap::new();
    let mut largest: BTreeMap<&str, Quantity> = BTreeMap::new();
    for container in list(&spec["initContainers"]) {
        let resources = &container["resources"][field];
        let mut here = restarting.clone();
        add(&mut here, resources);
        if container["restartPolicy"] == "Always" {
            add(&mut sums, resources);
            restarting.clone_from(&here);
        }
        raise(&mut largest, here);
    }
    raise(&mut sums, largest);
    sums
}

fn add<'a>(sums: &mut BTreeMap<&'a str, Quantity>, amounts: &'a Value) {
    for (name, amount) in entries(amounts) {
        if let Ok(amount) = Quantity::parse(text(amount)) {
            let sum = sums.entry(name).or_insert(Quantity::ZERO);
            *sum = sum.plus(amount);
        }
    }
}

fn raise<'a>(sums: &mut BTreeMap<&'a str, Quantity>, others: BTreeMap<&'a str, Quantity>) {
    for (name, other) in others {
        let sum = sums.entry(name).or_insert(other);
        if other > *sum {
            *sum = other;
        }
    }
}

/// Quality-of-service class of a Pod.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let mut requests: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut guaranteed = true;
    let own = [&spec["resources"]];
    let of_containers: Vec<&Value> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| list(&spec[field]))
        .map(|container| &container["resources"])
        .collect();
    let counted: &[&Value] = if spec["resources"].is_object() { &own } else { &of_containers };
    for resources in counted {
        let mut found = 0;
        for (field, sums) in [("requests", &mut requests), ("limits", &mut limits)] {
            for (name, amount) in entries(&resources[field]).filter(|(name, _)| matches!(*name, "cpu" | "memory")) {
                let Ok(amount) = Quantity::parse(text(amount)) else { continue };
                if amount > Quantity::ZERO {
                    found += usize::from(field == "limits");
                    let sum = sums.entry(name).or_insert(Quantity::ZERO);
                    *sum = sum.plus(amount);
                }
            }
        }
        guaranteed &= found == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests.len() == limits.len() && requests.iter().all(|(name, sum)| limits.get(name) == Some(sum))
    {
        return "Guaranteed";
    }
    "Burstable"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_pods_by_their_resources() {
        let class = |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(class(json!({"requests": both, "limits": both})), "Guaranteed");
        assert_eq!(class(json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": both})), "Burstable");
    }

    #[test]
    fn sums_what_runs_together() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let restarting = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let sum = |spec: Value| sum_of_containers(&spec, "requests")["cpu"].to_string();
        assert_eq!(sum(json!({"containers": [asks("1"), asks("500m")]})), "1500m");
        assert_eq!(sum(json!({"containers": [asks("1")], "initContainers": [asks("3"), asks("2")]})), "3");
        assert_eq!(sum(json!({"containers": [asks("1")], "initContainers": [restarting("1"), asks("2")]})), "3");
        assert_eq!(sum(json!({"containers": [asks("5")], "initContainers": [restarting("1"), asks("2")]})), "6");
    }
}
