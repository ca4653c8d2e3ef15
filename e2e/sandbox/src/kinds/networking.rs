//! Ingresses, `NetworkPolicies` and the other kinds of `networking.k8s.io`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    selectors,
    table::{age, name},
    value::{for_each_object_in_list, insert_default, list, object, text, with_object_in_field},
};

/// `ingresses`.
pub(super) const INGRESS: Behaviour = behaviour!("networking.Ingress", counted, row: ingress_row);

/// `ingressclasses`.
pub(super) const INGRESS_CLASS: Behaviour = behaviour!("networking.IngressClass", counted,
    default: |class| {
        canonicalize("networking.IngressClass", class);
        with_object_in_field(object(class), "spec", |spec| {
            with_object_in_field(spec, "parameters", |parameters| insert_default(parameters, "scope", "Cluster"));
        });
    },
    row: class_row,
);

/// `networkpolicies`.
pub(super) const NETWORK_POLICY: Behaviour = behaviour!("networking.NetworkPolicy", counted,
    default: default_policy,
    row: |policy, now| vec![name(policy), selectors::cell(&policy["spec"]["podSelector"]).into(), age(policy, now)],
);

/// `ipaddresses`.
pub(super) const IP_ADDRESS: Behaviour = behaviour!("networking.IPAddress", plain,
    row: |address, _| vec![name(address), parent_cell(&address["spec"]["parentRef"]).into()],
);

/// `servicecidrs`.
pub(super) const SERVICE_CIDR: Behaviour = behaviour!("networking.ServiceCIDR", plain,
    row: |range, now| {
        let cidrs: Vec<&str> = list(&range["spec"]["cidrs"]).iter().map(text).collect();
        vec![name(range), cidrs.join(",").into(), age(range, now)]
    },
);

fn default_policy(policy: &mut Value) {
    canonicalize("networking.NetworkPolicy", policy);
    with_object_in_field(object(policy), "spec", |spec| {
        for direction in ["ingress", "egress"] {
            for_each_object_in_list(spec, direction, |rule| {
                for_each_object_in_list(rule, "ports", |port| insert_default(port, "protocol", "TCP"));
            });
        }
        let both = spec.get("egress").is_some_and(|rules| !list(rules).is_empty());
        insert_default(spec, "policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    });
}

fn ingress_row(ingress: &Value, now: Timestamp) -> Vec<Value> {
    const MOST: usize = 3;
    let spec = &ingress["spec"];
    let rules = list(&spec["rules"]);
    let mut hosts: Vec<&str> = vec![];
    let mut more = false;
    for host in rules.iter().map(|rule| text(&rule["host"])) {
        more |= hosts.len() == MOST;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let hosts = match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - MOST),
        (false, false) => hosts.join(","),
    };
    let addresses: BTreeSet<&str> = list(&ingress["status"]["loadBalancer"]["ingress"])
        .iter()
        .map(|point| if text(&point["ip"]).is_empty() { text(&point["hostname"]) } else { text(&point["ip"]) })
        .filter(|address| !address.is_empty())
        .collect();
    let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
    vec![
        name(ingress),
        spec["ingressClassName"].as_str().unwrap_or("<none>").into(),
        hosts.into(),
        addresses.into_iter().collect::<Vec<_>>().join(",").into(),
        ports.into(),
        age(ingress, now),
    ]
}

fn class_row(class: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = text(&class["metadata"]["name"]).to_owned();
    if text(&class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"]) == "true" {
        shown.push_str(" (default)");
    }
    let parameters = &class["spec"]["parameters"];
    let parameters = if parameters.is_object() {
        let group = parameters["apiGroup"].as_str().map_or(String::new(), |group| format!(".{group}"));
        format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
    } else {
        "<none>".to_owned()
    };
    vec![shown.into(), text(&class["spec"]["controller"]).into(), parameters.into(), age(class, now)]
}

fn parent_cell(parent: &Value) -> String {
    if !parent.is_object() {
        return "<none>".to_owned();
    }
    let (group, resource) = (text(&parent["group"]), text(&parent["resource"]));
    let mut shown =
        if group.is_empty() { resource.to_lowercase() } else { format!("{resource}.{group}").to_lowercase() };
    for part in [text(&parent["namespace"]), text(&parent["name"])] {
        if !part.is_empty() {
            shown = format!("{shown}/{part}");
        }
    }
    shown
}
