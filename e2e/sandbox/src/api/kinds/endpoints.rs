//! `EndpointSlices` and Endpoints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Env,
    behaviour::Behaviour,
    errors::{Errors, Path},
    selectors, service_validation, strategy, syntax,
    value::{for_each_object_in_list, int, list, object, size, text},
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn slice() -> Behaviour {
    Behaviour {
        prepare_create: Some(|slice, _| {
            strategy::set_generation(slice, 1);
            drop_topology(slice, &Value::Null);
        }),
        prepare_update: Some(prepare_update),
        validate: Some(validate),
        cell: Some(|slice, _, column| slice_cell(slice, column).map(Value::from)),
        ..Behaviour::default()
    }
}

pub(super) fn endpoints() -> Behaviour {
    Behaviour {
        prepare_create: Some(|_, _| {}),
        prepare_update: Some(|_, _, _| {}),
        validate: Some(validate_endpoints),
        cell: Some(|endpoints, _, column| (column == "Endpoints").then(|| endpoints_cell(endpoints).into())),
        ..Behaviour::default()
    }
}

fn prepare_update(new: &mut Value, old: &Value, _: &Env<'_>) {
    let fields = ["addressType", "endpoints", "ports"];
    let changed =
        fields.iter().any(|field| new[*field] != old[*field]) || new["metadata"]["labels"] != old["metadata"]["labels"];
    strategy::bump_generation(new, old, changed);
    drop_topology(new, old);
}

/// `deprecatedTopology` cannot be written any more; what is stored stays as long as the endpoints do.
fn drop_topology(new: &mut Value, old: &Value) {
    if new["endpoints"] != old["endpoints"] {
        for_each_object_in_list(object(new), "endpoints", |endpoint| {
            endpoint.remove("deprecatedTopology");
        });
    }
}

fn validate(errors: &mut Errors, slice: &Value, old: &Value) {
    let kind = text(&slice["addressType"]);
    errors.one_of(&"addressType", kind, &["FQDN", "IPv4", "IPv6"]);
    validate_ports(errors, list(&slice["ports"]), &Path::new("ports"));
    if slice["endpoints"] == old["endpoints"] && !old.is_null() {
        return;
    }
    let at = Path::new("endpoints");
    let endpoints = list(&slice["endpoints"]);
    if endpoints.len() > 1000 {
        return errors.too_many(&at, endpoints.len(), 1000);
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(errors, endpoint, kind, &at.index(i));
    }
}

fn validate_endpoint(errors: &mut Errors, endpoint: &Value, kind: &str, at: &Path<'_>) {
    let addresses = list(&endpoint["addresses"]);
    let addresses_at = at.child("addresses");
    if addresses.is_empty() {
        errors.required(&addresses_at, "must contain at least 1 address");
    } else if addresses.len() > 100 {
        errors.too_many(&addresses_at, addresses.len(), 100);
    }
    for (i, address) in addresses.iter().map(text).enumerate() {
        let at = addresses_at.index(i);
        match kind {
            "IPv4" | "IPv6" => {
                if let Some(wrong) = syntax::ip_error(address) {
                    errors.invalid(&at, address, wrong);
                    continue;
                }
                if address.contains(':') != (kind == "IPv6") {
                    errors.invalid(&addresses_at, address, &format!("must be an {kind} address"));
                }
                service_validation::validate_endpoint_ip(errors, address, &at);
            }
            "FQDN" => errors.syntax(&at, address, syntax::subdomain(address)),
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        errors.syntax(&at.child("nodeName"), node, syntax::subdomain(node));
    }
    let topology = at.child("deprecatedTopology");
    if size(&endpoint["deprecatedTopology"]) > 16 {
        errors.too_many(&topology, size(&endpoint["deprecatedTopology"]), 16);
    }
    selectors::validate_labels(errors, &endpoint["deprecatedTopology"], &topology);
    if let Some(host) = endpoint["hostname"].as_str() {
        errors.syntax(&at.child("hostname"), host, syntax::label(host));
    }
    let hints = at.child("hints");
    for (field, check) in
        [("forZones", syntax::label_value as fn(&str) -> Vec<String>), ("forNodes", syntax::subdomain)]
    {
        let given = list(&endpoint["hints"][field]);
        let at = hints.child(field);
        if given.len() > 8 {
            return errors.too_many(&at, given.len(), 8);
        }
        let mut seen = BTreeSet::new();
        for (i, hint) in given.iter().map(|hint| text(&hint["name"])).enumerate() {
            let at = at.index(i);
            if !seen.insert(hint) {
                errors.duplicate(&at.child("name"), hint);
            }
            errors.syntax(&at.child("name"), hint, check(hint));
        }
    }
}

fn validate_ports(errors: &mut Errors, ports: &[Value], at: &Path<'_>) {
    if ports.len() > 20_000 {
        return errors.too_many(at, ports.len(), 20_000);
    }
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let name = text(&port["name"]);
        if !name.is_empty() {
            errors.syntax(&at.child("name"), name, syntax::label(name));
        }
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        let protocol = text(&port["protocol"]);
        if !PROTOCOLS.contains(&protocol) {
            errors.not_supported(&at.child("protocol"), protocol, &PROTOCOLS);
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.syntax(&at.child("appProtocol"), protocol, syntax::qualified_name(protocol));
        }
    }
}

fn validate_endpoints(errors: &mut Errors, endpoints: &Value, old: &Value) {
    if endpoints["subsets"] == old["subsets"] && !old.is_null() {
        return;
    }
    let at = Path::new("subsets");
    for (i, subset) in list(&endpoints["subsets"]).iter().enumerate() {
        let at = at.index(i);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|field| list(&subset[*field]).is_empty()) {
            errors.required(&at, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in lists {
            let at = at.child(field);
            for (j, address) in list(&subset[field]).iter().enumerate() {
                let at = at.index(j);
                let (ip, host) = (text(&address["ip"]), text(&address["hostname"]));
                if let Some(wrong) = syntax::ip_error(ip) {
                    errors.invalid(&at.child("ip"), ip, wrong);
                }
                if !host.is_empty() {
                    errors.syntax(&at.child("hostname"), host, syntax::label(host));
                }
                if let Some(node) = address["nodeName"].as_str() {
                    errors.syntax(&at.child("nodeName"), node, syntax::subdomain(node));
                }
                service_validation::validate_endpoint_ip(errors, ip, &at.child("ip"));
            }
        }
        let ports = list(&subset["ports"]);
        let at = at.child("ports");
        for (j, port) in ports.iter().enumerate() {
            let at = at.index(j);
            match text(&port["name"]) {
                "" if ports.len() > 1 => errors.required(&at.child("name"), ""),
                "" => {}
                name => errors.syntax(&at.child("name"), name, syntax::label(name)),
            }
            if let Some(message) = syntax::port_number(int(&port["port"])) {
                errors.invalid(&at.child("port"), int(&port["port"]), &message);
            }
            errors.one_of(&at.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
        }
    }
}

/// The first three, and how many more there are.
fn first_three(all: &[String], nothing: &str) -> String {
    const MOST: usize = 3;
    if all.is_empty() {
        return nothing.to_owned();
    }
    let shown = all[..all.len().min(MOST)].join(",");
    if all.len() > MOST { format!("{shown} + {} more...", all.len() - MOST) } else { shown }
}

fn endpoints_cell(endpoints: &Value) -> String {
    let mut all = vec![];
    for subset in list(&endpoints["subsets"]) {
        let addresses: Vec<&str> = list(&subset["addresses"]).iter().map(|address| text(&address["ip"])).collect();
        if list(&subset["ports"]).is_empty() {
            all.extend(addresses.iter().map(|&address| address.to_owned()));
        }
        for port in list(&subset["ports"]) {
            let number = int(&port["port"]);
            all.extend(addresses.iter().map(|address| {
                if address.contains(':') { format!("[{address}]:{number}") } else { format!("{address}:{number}") }
            }));
        }
    }
    first_three(&all, "<none>")
}

fn slice_cell(slice: &Value, column: &str) -> Option<String> {
    let all: Vec<String> = match column {
        "Ports" => list(&slice["ports"])
            .iter()
            .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
                (Some(number), _) => number.to_string(),
                (None, name) => name.unwrap_or("*").to_owned(),
            })
            .collect(),
        "Endpoints" => {
            let addresses = list(&slice["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"]));
            addresses.map(|address| text(address).to_owned()).collect()
        }
        _ => return None,
    };
    Some(first_three(&all, "<unset>"))
}
