//! Resource requirements of containers and Pods: sums, and the class of quality they give.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    quantity::Quantity,
    value::{entries, list, text},
};

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
