//! Validation of Services beyond their single fields.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use super::{
    errors::{Errors, Path},
    services::{is_headless, needs_health_check},
    syntax,
    value::{int, list, size, text},
};

pub(super) fn validate(errors: &mut Errors, service: &Value, old: &Value) {
    if !old.is_null() {
        validate_update(errors, service, old);
    }
    let spec = &service["spec"];
    let at = Path::new("spec");
    let (kind, headless) = (text(&spec["type"]), is_headless(service));
    let before = errors.len();
    validate_families(errors, spec, headless, &at);
    if errors.len() > before {
        return;
    }
    let ports = list(&spec["ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(&at.child("ports"), "");
    }
    validate_by_type(errors, spec, headless, &at);
    validate_ports(errors, ports, kind, &at.child("ports"));
    if text(&spec["clusterIP"]) != text(&spec["clusterIPs"][0]) {
        errors.invalid(&at.child("clusterIPs"), &spec["clusterIPs"], "first value must match `clusterIP`");
    }
    let held = list(&old["spec"]["externalIPs"]);
    let external = at.child("externalIPs");
    for (i, ip) in list(&spec["externalIPs"]).iter().enumerate() {
        match syntax::ip_error(text(ip)) {
            Some(wrong) if !held.contains(ip) => errors.invalid(&external.index(i), ip, wrong),
            _ => validate_endpoint_ip(errors, text(ip), &external.index(i)),
        }
    }
    validate_by_reach(errors, spec, kind, &at);
}

/// The gate of clusters in which Pods have an address of each family. Upstream it was locked in 1.23; here it is off if nothing
/// else is said.
const DUAL_STACK: &str = "IPv6DualStack";

/// What the cluster, which speaks IPv4 only, cannot give. This is found out before anything else is looked at, and with the
/// gate on, nothing else of such a Service is.
fn validate_families(errors: &mut Errors, spec: &Value, headless: bool, at: &Path<'_>) {
    if text(&spec["type"]) == "ExternalName" || (headless && size(&spec["selector"]) == 0) {
        return;
    }
    let before = errors.len();
    let families = at.child("ipFamilies");
    for (i, family) in list(&spec["ipFamilies"]).iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        errors.invalid(&families.index(i), family, "not configured on this cluster");
        errors.unless(DUAL_STACK);
    }
    if errors.len() == before && spec["ipFamilyPolicy"] == "RequireDualStack" {
        let message = "this cluster is not configured for dual-stack services";
        errors.invalid(&at.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], message);
        errors.unless(DUAL_STACK);
    }
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

/// Names and numbers of ports that occur once only.
fn validate_ports(errors: &mut Errors, ports: &[Value], kind: &str, at: &Path<'_>) {
    let (mut names, mut numbers, mut node_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let (name, protocol) = (text(&port["name"]), text(&port["protocol"]));
        if name.is_empty() && ports.len() > 1 {
            errors.required(&at.child("name"), "");
        }
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        let (number, node_port) = (int(&port["port"]), int(&port["nodePort"]));
        if node_port != 0 && kind == "ClusterIP" {
            errors.forbidden(&at.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.duplicate(&at.child("nodePort"), node_port);
        }
        if !numbers.insert((protocol, number)) {
            errors.duplicate(&at, port);
        }
    }
}

/// Fields that only make sense for Services which can be reached from outside the cluster.
fn validate_by_reach(errors: &mut Errors, spec: &Value, kind: &str, at: &Path<'_>) {
    let policy_at = at.child("externalTrafficPolicy");
    let policy = text(&spec["externalTrafficPolicy"]);
    let published = kind == "ClusterIP" && !list(&spec["externalIPs"]).is_empty();
    if published || matches!(kind, "LoadBalancer" | "NodePort") {
        errors.one_of(&policy_at, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(&policy_at, policy, "may only be set for externally-accessible services");
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

fn validate_update(errors: &mut Errors, new: &Value, old: &Value) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let both = |test: &dyn Fn(&Value) -> bool| test(spec) && test(before);
    if both(&|spec| text(&spec["type"]) != "ExternalName") {
        validate_kept_addresses(errors, new, old);
    }
    let class = "loadBalancerClass";
    if both(&|spec| text(&spec["type"]) == "LoadBalancer") && spec[class] != before[class] {
        errors.invalid(&"spec.loadBalancerClass", &spec[class], "may not change once set");
    }
    let port = "healthCheckNodePort";
    if both(&needs_health_check) && spec[port] != before[port] {
        errors.forbidden(&"spec.healthCheckNodePort", "field is immutable");
    }
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
        let shown = &new["spec"][field];
        if !compared || before.is_empty() {
            continue;
        }
        for (i, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
            let i = if field == "clusterIPs" { i } else { 0 };
            errors.invalid(&at.index(i), shown, "may not change once set");
        }
    }
}

pub(super) fn validate_status(errors: &mut Errors, new: &Value, old: &Value) {
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let at = balancer.child("ingress");
    let ingress = list(&new["status"]["loadBalancer"]["ingress"]);
    if text(&new["spec"]["type"]) != "LoadBalancer" && !ingress.is_empty() {
        return errors.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let held: Vec<&str> = list(&old["status"]["loadBalancer"]["ingress"]).iter().map(|i| text(&i["ip"])).collect();
    for (i, point) in ingress.iter().enumerate() {
        let at = at.index(i);
        let (ip, mode) = (text(&point["ip"]), point["ipMode"].as_str());
        if let Some(wrong) = syntax::ip_error(ip).filter(|_| !ip.is_empty() && !held.contains(&ip)) {
            errors.invalid(&at.child("ip"), ip, wrong);
        }
        if let Some(mode) = mode.filter(|mode| !["Proxy", "VIP"].contains(mode)) {
            errors.not_supported(&at.child("ipMode"), mode, &["Proxy", "VIP"]);
        }
        let host = text(&point["hostname"]);
        if !host.is_empty() {
            errors.syntax(&at.child("hostname"), host, syntax::subdomain(host));
        }
    }
}
