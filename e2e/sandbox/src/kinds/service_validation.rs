//! Validation of Services.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use super::{
    FieldError,
    containers::PROTOCOLS,
    errors::{Bad, Errors, Path},
    probes, selectors,
    services::{is_headless, needs_health_check},
    syntax,
    value::{int, list, size, text},
};

/// Validates a Service; what was there before may stay.
pub(super) fn validate(service: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = &service["spec"];
    let at = Path::new("spec");
    let (kind, headless) = (text(&spec["type"]), is_headless(service));
    let unserved = validate_families(spec, headless, &at);
    if !unserved.is_empty() {
        return unserved;
    }
    let ports = list(&spec["ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(&at.child("ports"), "");
    }
    validate_by_type(&mut errors, spec, headless, &at);
    validate_ports(&mut errors, ports, &at.child("ports"));
    selectors::validate_labels(&mut errors, &spec["selector"], &at.child("selector"));
    let affinity = text(&spec["sessionAffinity"]);
    errors.one_of(&at.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    validate_affinity(&mut errors, spec, affinity, &at.child("sessionAffinityConfig"));
    if kind != "ExternalName" {
        validate_addresses(&mut errors, spec, old, headless, &at);
    }
    let external = at.child("externalIPs");
    let held = list(&old["spec"]["externalIPs"]);
    for (i, ip) in list(&spec["externalIPs"]).iter().enumerate() {
        let at = external.index(i);
        match syntax::ip_error(text(ip)) {
            Some(wrong) if !held.contains(ip) => errors.invalid(&at, ip, wrong),
            _ => validate_endpoint_ip(&mut errors, text(ip), &at),
        }
    }
    errors.one_of(&at.child("type"), kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    validate_unique_ports(&mut errors, ports, kind, &at.child("ports"));
    validate_balancer(&mut errors, spec, kind, &at);
    validate_policies(&mut errors, spec, kind, &at);
    errors
}

/// The gate of clusters in which Pods have an address of each family. Upstream it was locked in 1.23; here it is off if nothing
/// else is said.
const DUAL_STACK: &str = "IPv6DualStack";

/// What the cluster, which speaks IPv4 only, cannot give. This is found out before anything else is looked at, and with the
/// gate on, nothing else of such a Service is.
fn validate_families(spec: &Value, headless: bool, at: &Path<'_>) -> Errors {
    let mut errors = Errors::new();
    if text(&spec["type"]) == "ExternalName" || (headless && size(&spec["selector"]) == 0) {
        return errors;
    }
    let families = at.child("ipFamilies");
    for (i, family) in list(&spec["ipFamilies"]).iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        errors.invalid(&families.index(i), family, "not configured on this cluster");
        errors.unless(DUAL_STACK);
    }
    if errors.is_empty() && spec["ipFamilyPolicy"] == "RequireDualStack" {
        let message = "this cluster is not configured for dual-stack services";
        errors.invalid(&at.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], message);
        errors.unless(DUAL_STACK);
    }
    errors
}

fn validate_by_type(errors: &mut Errors, spec: &Value, headless: bool, at: &Path<'_>) {
    let kind = text(&spec["type"]);
    let addresses = at.child("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let message = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&addresses.index(0), "None", &message);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec[field].is_null() {
                    errors.forbidden(&at.child(field), "may not be set for ExternalName services");
                }
            }
            let name = text(&spec["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.required(&at.child("externalName"), "");
            } else {
                errors.syntax(&at.child("externalName"), name, syntax::subdomain(name));
            }
        }
        _ => {}
    }
}

fn validate_ports(errors: &mut Errors, ports: &[Value], at: &Path<'_>) {
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let name = text(&port["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&at.child("name"), "");
            }
        } else {
            errors.syntax(&at.child("name"), name, syntax::label(name));
            if !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
        }
        let number = int(&port["port"]);
        if let Some(message) = syntax::port_number(number) {
            errors.invalid(&at.child("port"), number, &message);
        }
        errors.one_of(&at.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
        probes::validate_port(errors, &port["targetPort"], &at.child("targetPort"));
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.syntax(&at.child("appProtocol"), protocol, syntax::qualified_name(protocol));
        }
    }
}

fn validate_affinity(errors: &mut Errors, spec: &Value, affinity: &str, at: &Path<'_>) {
    let config = &spec["sessionAffinityConfig"];
    match affinity {
        "ClientIP" => {
            let client = at.child("clientIP");
            let when = "when session affinity type is ClientIP";
            if !config.is_object() {
                errors.required(at, when);
            } else if !config["clientIP"].is_object() {
                errors.required(&client, when);
            } else {
                match config["clientIP"]["timeoutSeconds"].as_i64() {
                    None => errors.required(&client.child("timeoutSeconds"), when),
                    Some(seconds) if !(1..=86_400).contains(&seconds) => {
                        let message = "must be greater than 0 and less than 86400";
                        errors.invalid(&client.child("timeoutSeconds"), seconds, message);
                    }
                    Some(_) => {}
                }
            }
        }
        "None" if config.is_object() => errors.forbidden(at, "must not be set when session affinity is None"),
        _ => {}
    }
}

fn validate_addresses(errors: &mut Errors, spec: &Value, old: &Value, headless: bool, at: &Path<'_>) {
    let addresses_at = at.child("clusterIPs");
    let addresses = list(&spec["clusterIPs"]);
    let first = text(&spec["clusterIP"]);
    let shown = || Bad::json(&spec["clusterIPs"]);
    if first.is_empty() {
        if !addresses.is_empty() {
            errors.invalid(&addresses_at, shown(), "must be empty when `clusterIP` is not specified");
        }
    } else if addresses.is_empty() {
        errors.required(&addresses_at, "");
    } else if text(&addresses[0]) != first {
        errors.invalid(&addresses_at, shown(), "first value must match `clusterIP`");
    }
    let families = list(&spec["ipFamilies"]);
    let families_at = at.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (i, family) in families.iter().map(text).enumerate() {
        if !["IPv4", "IPv6"].contains(&family) {
            errors.not_supported(&families_at.index(i), family, &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            errors.duplicate(&families_at.index(i), family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = spec["ipFamilyPolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        errors.not_supported(&at.child("ipFamilyPolicy"), policy, &policies);
    }
    let before = errors.len();
    let held = list(&old["spec"]["clusterIPs"]);
    for (i, address) in addresses.iter().enumerate() {
        if i == 0 && address == "None" {
            if addresses.len() > 1 {
                errors.invalid(&addresses_at, shown(), "'None' must be the first and only value");
            }
        } else if let Some(wrong) = syntax::ip_error(text(address)).filter(|_| !held.contains(address)) {
            errors.invalid(&addresses_at.index(i), address, wrong);
        }
    }
    let invalid = errors.len() > before;
    if addresses.len() > 2 {
        errors.invalid(&addresses_at, shown(), "may only hold up to 2 values");
    }
    if invalid {
        return;
    }
    let six = |address: &Value| text(address).contains(':');
    if addresses.len() > 1 && addresses.iter().filter(|address| six(address)).count() != 1 {
        errors.invalid(&addresses_at, shown(), "may specify no more than one IP for each IP family");
    }
    for (i, (address, family)) in addresses.iter().zip(families).enumerate().filter(|_| !headless) {
        let expected = text(family);
        if six(address) != (expected == "IPv6") {
            let message = format!("expected an {expected} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&addresses_at.index(i), address, &message);
        }
    }
}

/// An address that may stand for something reachable.
pub(super) fn validate_endpoint_ip(errors: &mut Errors, address: &str, at: &Path<'_>) {
    let Ok(ip) = address.parse::<IpAddr>() else {
        return errors.invalid(at, address, "must be a valid IP address");
    };
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid(at, address, &format!("may not be unspecified ({address})"));
    }
    if ip.is_loopback() {
        errors.invalid(at, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        errors.invalid(at, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(at, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn validate_unique_ports(errors: &mut Errors, ports: &[Value], kind: &str, at: &Path<'_>) {
    let (mut node_ports, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (i, port) in ports.iter().enumerate() {
        if kind == "ClusterIP" && int(&port["nodePort"]) != 0 {
            errors.forbidden(&at.index(i).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let number = int(&port["nodePort"]);
        if number != 0 && !node_ports.insert((text(&port["protocol"]), number)) {
            errors.duplicate(&at.index(i).child("nodePort"), number);
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(&port["protocol"]), int(&port["port"]));
        if !numbers.insert((protocol, number)) {
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            errors.duplicate(&at.index(i), Bad::raw(shown));
        }
    }
}

fn validate_balancer(errors: &mut Errors, spec: &Value, kind: &str, at: &Path<'_>) {
    let only = "may only be used when `type` is 'LoadBalancer'";
    let ranges = list(&spec["loadBalancerSourceRanges"]);
    let ranges_at = at.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && kind != "LoadBalancer" {
        errors.forbidden(&ranges_at, only);
    }
    for (i, range) in ranges.iter().map(|range| text(range).trim()).enumerate() {
        if let Some(wrong) = syntax::cidr_error(range) {
            errors.invalid(&ranges_at.index(i), range, wrong);
        }
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if kind != "LoadBalancer" && !spec[field].is_null() {
            errors.forbidden(&at.child(field), only);
        }
    }
    if let Some(class) = spec["loadBalancerClass"].as_str().filter(|_| kind == "LoadBalancer") {
        errors.syntax(&at.child("loadBalancerClass"), class, syntax::qualified_name(class));
    }
}

fn validate_policies(errors: &mut Errors, spec: &Value, kind: &str, at: &Path<'_>) {
    let external_at = at.child("externalTrafficPolicy");
    let policy = text(&spec["externalTrafficPolicy"]);
    let published = kind == "ClusterIP" && !list(&spec["externalIPs"]).is_empty();
    if published || matches!(kind, "LoadBalancer" | "NodePort") {
        errors.one_of(&external_at, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(&external_at, policy, "may only be set for externally-accessible services");
    }
    let health = int(&spec["healthCheckNodePort"]);
    let health_at = at.child("healthCheckNodePort");
    if needs_health_check(spec) {
        if health == 0 {
            errors.required(&health_at, "");
        } else if let Some(message) = syntax::port_number(health) {
            errors.invalid(&health_at, health, &message);
        }
    } else if health != 0 {
        let message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&health_at, health, message);
    }
    if let Some(policy) = spec["internalTrafficPolicy"].as_str().filter(|policy| !["Cluster", "Local"].contains(policy))
    {
        errors.not_supported(&at.child("internalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(word) = spec["trafficDistribution"].as_str().filter(|word| !known.contains(word)) {
        errors.not_supported(&at.child("trafficDistribution"), word, &known);
    }
}

/// Validates an update.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let (spec, before) = (&new["spec"], &old["spec"]);
    let named = |spec: &Value| text(&spec["type"]) == "ExternalName";
    if !named(spec) && !named(before) {
        validate_kept_addresses(&mut errors, new, old);
    }
    let balanced = |spec: &Value| text(&spec["type"]) == "LoadBalancer";
    if balanced(spec) && balanced(before) && spec["loadBalancerClass"] != before["loadBalancerClass"] {
        errors.invalid(&"spec.loadBalancerClass", &spec["loadBalancerClass"], "may not change once set");
    }
    let checked = needs_health_check(spec) && needs_health_check(before);
    if checked && spec["healthCheckNodePort"] != before["healthCheckNodePort"] {
        errors.forbidden(&"spec.healthCheckNodePort", "field is immutable");
    }
    let mut all = errors.into_list();
    all.extend(validate(new, old).into_list());
    all
}

fn validate_kept_addresses(errors: &mut Errors, new: &Value, old: &Value) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let spec = Path::new("spec");
    let both_have_own = is_headless(new) == is_headless(old);
    for (field, compared) in [("clusterIPs", true), ("ipFamilies", both_have_own)] {
        let (now, before) = (list(&new["spec"][field]), list(&old["spec"][field]));
        let at = spec.child(field);
        let shown = || Bad::json(&new["spec"][field]);
        if !compared || before.is_empty() {
            continue;
        }
        if now.len() == before.len() {
            for (i, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
                let i = if field == "clusterIPs" { i } else { 0 };
                errors.invalid(&at.index(i), shown(), "may not change once set");
            }
        } else if now.is_empty() {
            let what = if field == "clusterIPs" { "clusterIP" } else { "ipFamily" };
            errors.invalid(&at.index(0), shown(), &format!("primary {what} can not be unset"));
        } else if now[0] != before[0] {
            errors.invalid(&at.index(0), shown(), "may not change once set");
        }
    }
}

/// Validates an update of `/status`.
pub(super) fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let at = balancer.child("ingress");
    let ingress = list(&new["status"]["loadBalancer"]["ingress"]);
    if text(&new["spec"]["type"]) != "LoadBalancer" && !ingress.is_empty() {
        errors.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
        return errors.into_list();
    }
    let held: Vec<&str> = list(&old["status"]["loadBalancer"]["ingress"]).iter().map(|i| text(&i["ip"])).collect();
    for (i, point) in ingress.iter().enumerate() {
        let at = at.index(i);
        let (ip, mode) = (text(&point["ip"]), point["ipMode"].as_str());
        if let Some(wrong) = syntax::ip_error(ip).filter(|_| !ip.is_empty() && !held.contains(&ip)) {
            errors.invalid(&at.child("ip"), ip, wrong);
        }
        match mode {
            None if !ip.is_empty() => errors.required(&at.child("ipMode"), "must be specified when `ip` is set"),
            Some(_) if ip.is_empty() => {
                errors.forbidden(&at.child("ipMode"), "may not be specified when `ip` is not set");
            }
            Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
                errors.not_supported(&at.child("ipMode"), mode, &["Proxy", "VIP"]);
            }
            _ => {}
        }
        let host = text(&point["hostname"]);
        if !host.is_empty() {
            errors.syntax(&at.child("hostname"), host, syntax::subdomain(host));
            if host.parse::<IpAddr>().is_ok() {
                errors.invalid(&at.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
    errors.into_list()
}
