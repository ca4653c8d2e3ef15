//! Defaults of Pod specs and Pod templates: those every server writes, and quantities as they are kept.

use common::template::defaults;
use serde_json::{Map, Value, json};

use super::{
    quantity::Quantity,
    resources::sum_of_containers,
    value::{for_each_object_in_list, insert_default, int, object, text, with_object_in_field},
};

pub(super) use common::template::defaults::apply_volume_source_defaults;

type Object = Map<String, Value>;

/// Defaults the Pod template in the spec of an object that makes Pods.
pub(super) fn in_spec(object_with_template: &mut Value) {
    with_object_in_field(object(object_with_template), "spec", template);
}

/// Defaults the Pod template in field `template`.
pub(super) fn template(parent: &mut Object) {
    with_object_in_field(parent, "template", |template| with_object_in_field(template, "spec", spec));
}

/// Defaults the parts of a Pod spec that templates have too.
pub(super) fn spec(spec: &mut Object) {
    defaults::apply_pod_spec_defaults(spec);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for_each_object_in_list(spec, containers, |container| with_object_in_field(container, "resources", resources));
    }
    for_each_object_in_list(spec, "volumes", |volume| {
        with_object_in_field(volume, "ephemeral", |ephemeral| {
            with_object_in_field(ephemeral, "volumeClaimTemplate", |claim| {
                with_object_in_field(claim, "spec", claim_spec);
            });
        });
    });
    with_object_in_field(spec, "overhead", round_up);
    with_object_in_field(spec, "resources", resources);
}

fn resources(resources: &mut Object) {
    with_object_in_field(resources, "limits", round_up);
    with_object_in_field(resources, "requests", round_up);
}

/// Resources are kept in thousandths.
fn round_up(list: &mut Object) {
    for amount in list.values_mut() {
        let fine = matches!(amount, Value::String(s) if s.ends_with(['n', 'u']) || s.contains("e-"));
        if fine && let Ok(quantity) = Quantity::parse(text(amount)) {
            *amount = quantity.round_up_to_milli().to_string().into();
        }
    }
}

pub(super) fn claim_spec(spec: &mut Object) {
    defaults::apply_volume_claim_spec_defaults(spec);
    with_object_in_field(spec, "resources", resources);
}

/// Defaults of a Pod itself, after those of its spec: what templates do not get.
pub(super) fn pod(spec: &mut Object) {
    for containers in ["containers", "initContainers"] {
        for_each_object_in_list(spec, containers, |container| {
            with_object_in_field(container, "resources", requests_from_limits);
        });
    }
    pod_requests(spec);
    insert_default(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for containers in ["containers", "initContainers"] {
            for_each_object_in_list(spec, containers, |container| {
                for_each_object_in_list(container, "ports", host_port);
            });
        }
    }
}

fn requests_from_limits(resources: &mut Object) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn host_port(port: &mut Object) {
    if let Some(number) = port.get("containerPort").map(int) {
        insert_default(port, "hostPort", number);
    }
}

/// A Pod with limits of its own requests what its containers request together, or else its limits.
fn pod_requests(spec: &mut Object) {
    let Some(Value::Object(limits)) = spec.get("resources").and_then(|resources| resources.get("limits")).cloned()
    else {
        return;
    };
    let whole = Value::Object(spec.clone());
    let sums = sum_of_containers(&whole, "requests").into_iter();
    let wanted = sums.filter(|(name, _)| matches!(*name, "cpu" | "memory"));
    let mut wanted: Object = wanted.map(|(name, sum)| (name.to_owned(), sum.to_string().into())).collect();
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            wanted.entry(name).or_insert(amount);
        }
    }
    with_object_in_field(spec, "resources", |resources| {
        if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
            for (name, amount) in wanted {
                requests.entry(name).or_insert(amount);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(mut value: Value, default: fn(&mut Object)) -> Value {
        default(value.as_object_mut().unwrap());
        value
    }

    #[test]
    fn requests_what_is_limited() {
        let spec = json!({
            "hostNetwork": true,
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                "ports": [{"containerPort": 80}]}],
        });
        let spec = defaulted(spec, pod);
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(spec["enableServiceLinks"], true);
        let spec = json!({
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "3"}}}],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        });
        assert_eq!(defaulted(spec, pod)["resources"]["requests"], json!({"cpu": "4", "memory": "1Gi"}));
    }
}
