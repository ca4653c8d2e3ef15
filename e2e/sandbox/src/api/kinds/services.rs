//! Services: defaults, addresses, strategy, table.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde_json::{Map, Value, json};

use super::{
    Env, FieldError,
    behaviour::Behaviour,
    errors::{Errors, Path},
    service_validation, strategy,
    table::or,
    value::{child, for_each_object_in_list, insert_default, int, list, object, take, text, with_object_in_field, yes},
};

pub(super) fn service() -> Behaviour {
    Behaviour {
        default: Some(default),
        prepare_create: Some(prepare_create),
        prepare_update: Some(prepare_update),
        validate: Some(service_validation::validate),
        validate_status: Some(service_validation::validate_status),
        cell: Some(|service, _, column| match column {
            "External-IP" => Some(external_cell(service).into()),
            "Port(s)" => Some(ports_cell(list(&service["spec"]["ports"])).into()),
            _ => None,
        }),
        ..Behaviour::default()
    }
}

fn default(service: &mut Value) {
    with_object_in_field(object(service), "spec", |spec| {
        if word(spec, "sessionAffinity") == "None" {
            spec.remove("sessionAffinityConfig");
        } else if spec.get("sessionAffinityConfig").is_none_or(|config| config["clientIP"]["timeoutSeconds"].is_null())
        {
            let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
        for_each_object_in_list(spec, "ports", |port| {
            let unset = port.get("targetPort").is_none_or(|target| *target == 0 || *target == "");
            if unset {
                let number = port.get("port").cloned().unwrap_or_default();
                port.insert("targetPort".to_owned(), number);
            }
        });
        let kind = word(spec, "type").to_owned();
        if is_external(spec) {
            insert_default(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
            insert_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            insert_default(spec, "allocateLoadBalancerNodePorts", true);
        }
    });
    if text(&service["spec"]["type"]) == "LoadBalancer" {
        with_object_in_field(child(service, "status"), "loadBalancer", |balancer| {
            for_each_object_in_list(balancer, "ingress", |ingress| {
                if ingress.contains_key("ip") {
                    insert_default(ingress, "ipMode", "VIP");
                }
            });
        });
    }
}

fn word<'a>(spec: &'a Map<String, Value>, field: &str) -> &'a str {
    spec.get(field).map(text).unwrap_or_default()
}

/// Whether it can be reached from outside the cluster.
fn is_external(spec: &Map<String, Value>) -> bool {
    let published = spec.get("externalIPs").is_some_and(|ips| !list(ips).is_empty());
    match word(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => published,
        _ => false,
    }
}

/// Whether it has no address of its own because it wants none.
pub(super) fn is_headless(service: &Value) -> bool {
    text(&service["spec"]["clusterIPs"][0]) == "None"
}

/// Whether a load balancer asks the Nodes for their health.
pub(super) fn needs_health_check(spec: &Value) -> bool {
    text(&spec["type"]) == "LoadBalancer" && text(&spec["externalTrafficPolicy"]) == "Local"
}

fn needs_cluster_ip(spec: &Map<String, Value>) -> bool {
    matches!(word(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn needs_node_ports(spec: &Map<String, Value>) -> bool {
    match word(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts").is_none_or(yes),
        _ => false,
    }
}

fn prepare_create(service: &mut Value, _: &Env<'_>) {
    strategy::create("core/v1.Service", service, false);
    normalize_cluster_ips(service, &Value::Null);
    allocate(service, &|_| false);
}

fn prepare_update(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "status");
    drop_by_type(new, old);
    normalize_cluster_ips(new, old);
    keep_allocated(new, old);
    allocate(new, &|_| false);
}

/// `clusterIP` is the first of `clusterIPs`; whichever changed wins.
fn normalize_cluster_ips(new: &mut Value, old: &Value) {
    let before = text(&old["spec"]["clusterIP"]).to_owned();
    let old_list = old["spec"]["clusterIPs"].clone();
    let spec = child(new, "spec");
    let single = word(spec, "clusterIP").to_owned();
    let several = spec.get("clusterIPs").cloned().unwrap_or_default();
    if old.is_null() {
        if !single.is_empty() && list(&several).is_empty() {
            spec.insert("clusterIPs".to_owned(), json!([single]));
        }
        return;
    }
    if single == before {
        return;
    }
    if single.is_empty() && several == old_list {
        spec.remove("clusterIPs");
    } else if several == old_list && !single.is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
}

/// What was allocated is kept where a client leaves it out.
fn keep_allocated(new: &mut Value, old: &Value) {
    let Value::Object(before) = &old["spec"] else { return };
    let spec = child(new, "spec");
    if needs_cluster_ip(before) && needs_cluster_ip(spec) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(held) = before.get(field) {
                insert_default(spec, field, held.clone());
            }
        }
    }
    if needs_node_ports(before) && needs_node_ports(spec) {
        for_each_object_in_list(spec, "ports", |port| {
            let same = |held: &&Value| {
                Some(&held["port"]) == port.get("port") && Some(&held["protocol"]) == port.get("protocol")
            };
            let held = before.get("ports").map(list).unwrap_or_default().iter().find(same);
            if let Some(number) = held.and_then(|held| held.get("nodePort")) {
                insert_default(port, "nodePort", number.clone());
            }
        });
    }
    if let Some(held) = before.get("healthCheckNodePort").filter(|_| needs_health_check(&Value::Object(spec.clone()))) {
        insert_default(spec, "healthCheckNodePort", held.clone());
    }
}

/// What made sense for the old type only goes, unless a client set it anew.
fn drop_by_type(new: &mut Value, old: &Value) {
    let Value::Object(held) = &old["spec"] else { return };
    let spec = child(new, "spec");
    let is_balanced: Needs = |spec| word(spec, "type") == "LoadBalancer";
    let groups: [(Needs, &[&str]); 6] = [
        (needs_cluster_ip, &["clusterIPs", "clusterIP", "ipFamilies", "ipFamilyPolicy"]),
        (needs_cluster_ip, &["internalTrafficPolicy"]),
        (is_balanced, &["allocateLoadBalancerNodePorts"]),
        (is_balanced, &["loadBalancerClass"]),
        (|spec| needs_health_check(&Value::Object(spec.clone())), &["healthCheckNodePort"]),
        (is_external, &["externalTrafficPolicy"]),
    ];
    let goes = |needs: Needs, spec: &Map<String, Value>, field: &str| {
        needs(held) && !needs(spec) && spec.get(field) == held.get(field)
    };
    let gone: Vec<&str> = groups
        .into_iter()
        .filter(|(needs, fields)| goes(*needs, spec, fields[0]))
        .flat_map(|(_, fields)| fields.iter().copied())
        .collect();
    if goes(needs_node_ports, spec, "ports") {
        for_each_object_in_list(spec, "ports", |port| {
            port.remove("nodePort");
        });
    }
    spec.retain(|field, _| !gone.contains(&field.as_str()));
}

type Needs = fn(&Map<String, Value>) -> bool;

/// Something a Service may hold alone in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocated {
    /// A cluster address.
    Address(Ipv4Addr),
    /// A port on every Node.
    NodePort(u16),
}

/// Gives a Service the addresses and ports it needs and does not have: deterministic per uid, and none that is taken.
///
/// The strategy of Services does this as well, without knowing what is taken; a server that knows calls this first, on
/// the object with its uid and its defaults. What comes back is what cannot be had: an object is refused for that before
/// it is validated.
pub(crate) fn allocate(service: &mut Value, taken: &dyn Fn(Allocated) -> bool) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let seed = seed(text(&service["metadata"]["uid"]), text(&service["metadata"]["name"]));
    let spec = child(service, "spec");
    if needs_cluster_ip(spec) {
        settle_families(spec);
        let asked = word(spec, "clusterIP").to_owned();
        if asked.is_empty() && spec.get("clusterIPs").is_none_or(|ips| list(ips).is_empty()) {
            let address = free_address(seed, taken).to_string();
            spec.insert("clusterIPs".to_owned(), json!([address]));
            spec.insert("clusterIP".to_owned(), address.into());
        } else if asked.is_empty() {
            let first = spec["clusterIPs"][0].clone();
            spec.insert("clusterIP".to_owned(), first);
        } else {
            insert_default(spec, "clusterIPs", json!([asked]));
            check_address(&mut errors, spec, &asked, taken);
        }
    }
    if needs_node_ports(spec) {
        let ports = spec.get("ports").map(list).unwrap_or_default();
        if errors.is_empty() {
            check_ports(&mut errors, ports, taken);
        }
        let mut used: BTreeSet<u16> = ports.iter().map(|port| int(&port["nodePort"]) as u16).collect();
        for_each_object_in_list(spec, "ports", |port| {
            if !port.contains_key("nodePort") {
                let number = free_port(seed, &used, taken);
                used.insert(number);
                port.insert("nodePort".to_owned(), number.into());
            }
        });
        if needs_health_check(&Value::Object(spec.clone())) {
            insert_default(spec, "healthCheckNodePort", free_port(seed.rotate_left(17), &used, taken));
        }
    }
    errors.into_list()
}

fn check_address(errors: &mut Errors, spec: &Map<String, Value>, asked: &str, taken: &dyn Fn(Allocated) -> bool) {
    let Ok(address) = asked.parse::<Ipv4Addr>() else { return };
    let why = if u32::from(address) >> 20 != u32::from(NETWORK) >> 20 {
        "the provided network does not match the current range"
    } else if taken(Allocated::Address(address)) {
        "provided IP is already allocated"
    } else {
        return;
    };
    let message = format!("failed to allocate IP {address}: {why}");
    errors.invalid(&"spec.clusterIPs", spec.get("clusterIPs").unwrap_or(&Value::Null), &message);
}

fn check_ports(errors: &mut Errors, ports: &[Value], taken: &dyn Fn(Allocated) -> bool) {
    let spec = Path::new("spec");
    let at = spec.child("ports");
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate().filter(|(_, port)| int(&port["nodePort"]) != 0) {
        let at = at.index(i);
        let number = int(&port["nodePort"]);
        let message = match u16::try_from(number) {
            Ok(port) if (FIRST_PORT..=LAST_PORT).contains(&port) => "provided port is already allocated".to_owned(),
            _ => {
                format!("provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}")
            }
        };
        let twice = !seen.insert((text(&port["protocol"]), number));
        let free = |number: u16| (FIRST_PORT..=LAST_PORT).contains(&number) && !taken(Allocated::NodePort(number));
        if twice || !u16::try_from(number).is_ok_and(free) {
            return errors.invalid(&at.child("nodePort"), number, &message);
        }
    }
}

/// The cluster has IPv4 only; who asks for no address and selects no Pods may still speak both.
fn settle_families(spec: &mut Map<String, Value>) {
    let headless = word(spec, "clusterIP") == "None";
    if headless && spec.get("selector").is_none() {
        insert_default(spec, "ipFamilyPolicy", "RequireDualStack");
        insert_default(spec, "ipFamilies", json!(["IPv4"]));
        if word(spec, "ipFamilyPolicy") != "SingleStack"
            && let Some(Value::Array(families)) = spec.get_mut("ipFamilies")
            && families.len() == 1
        {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
        return;
    }
    insert_default(spec, "ipFamilyPolicy", "SingleStack");
    insert_default(spec, "ipFamilies", json!(["IPv4"]));
}

/// A number that depends on the object alone (FNV-1a).
fn seed(uid: &str, name: &str) -> u64 {
    let bytes = uid.bytes().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Services have their addresses in the first 12 bits of this, which is what clusters usually use.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);

/// What ports of Nodes there are for Services.
const FIRST_PORT: u16 = 30_000;
const LAST_PORT: u16 = 32_767;

fn free_address(seed: u64, taken: &dyn Fn(Allocated) -> bool) -> Ipv4Addr {
    let first = u32::from(NETWORK) + 256;
    let span = (1_u64 << 20) - 512;
    let nth = |i: u64| Ipv4Addr::from(first + (seed.wrapping_add(i) % span) as u32);
    (0..span).map(nth).find(|address| !taken(Allocated::Address(*address))).unwrap_or_else(|| nth(0))
}

fn free_port(seed: u64, used: &BTreeSet<u16>, taken: &dyn Fn(Allocated) -> bool) -> u16 {
    let count = u64::from(LAST_PORT - FIRST_PORT) + 1;
    let nth = |i: u64| FIRST_PORT + (seed.wrapping_add(i) % count) as u16;
    let free = |port: &u16| !used.contains(port) && !taken(Allocated::NodePort(*port));
    (0..count).map(nth).find(free).unwrap_or_else(|| nth(0))
}

/// Addresses, or else host names, of a load balancer in front of a Service or Ingress.
pub(super) fn ingress_points(object: &Value) -> BTreeSet<&str> {
    list(&object["status"]["loadBalancer"]["ingress"])
        .iter()
        .map(|point| or(text(&point["ip"]), text(&point["hostname"])))
        .filter(|address| !address.is_empty())
        .collect()
}

fn external_cell(service: &Value) -> String {
    let spec = &service["spec"];
    let external: Vec<&str> = list(&spec["externalIPs"]).iter().map(text).collect();
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let balancer = ingress_points(service);
            let all: Vec<&str> = balancer.into_iter().chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports_cell(ports: &[Value]) -> String {
    let shown: Vec<String> = ports
        .iter()
        .map(|port| match int(&port["nodePort"]) {
            0 => format!("{}/{}", int(&port["port"]), text(&port["protocol"])),
            node => format!("{}:{node}/{}", int(&port["port"]), text(&port["protocol"])),
        })
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_defaults(service: &mut Value) {
        crate::api::kinds::builtin()
            .iter()
            .find(|kind| kind.resource.kind == "Service")
            .unwrap()
            .resource
            .default(service);
    }

    #[test]
    fn allocates_what_is_free_and_nothing_else() {
        let service = || {
            let mut service = json!({
                "metadata": {"name": "s", "uid": "u"},
                "spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]},
            });
            set_defaults(&mut service);
            service
        };
        let mut first = service();
        allocate(&mut first, &|_| false);
        let address: Ipv4Addr = text(&first["spec"]["clusterIP"]).parse().unwrap();
        let port = int(&first["spec"]["ports"][0]["nodePort"]) as u16;
        assert_ne!(first["spec"]["ports"][0]["nodePort"], first["spec"]["ports"][1]["nodePort"]);
        let mut second = service();
        allocate(&mut second, &|held| held == Allocated::Address(address) || held == Allocated::NodePort(port));
        assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
        assert_ne!(second["spec"]["ports"][0]["nodePort"], port);
        let mut again = service();
        assert!(allocate(&mut again, &|_| false).is_empty());
        assert_eq!(first, again);
        let refused = allocate(&mut again, &|held| held == Allocated::Address(address));
        assert_eq!(refused[0].message.rsplit_once(": ").unwrap().1, "provided IP is already allocated");
        assert_eq!(refused.len(), 1, "addresses come first");
        let refused = allocate(&mut again, &|held| held == Allocated::NodePort(port));
        assert_eq!((refused[0].field.as_str(), refused.len()), ("spec.ports[0].nodePort", 1));
    }

    #[test]
    fn leaves_headless_and_external_services_without_addresses() {
        let mut headless = json!({"metadata": {}, "spec": {"clusterIP": "None"}});
        set_defaults(&mut headless);
        allocate(&mut headless, &|_| false);
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        let mut named = json!({"metadata": {}, "spec": {"type": "ExternalName", "externalName": "a.b"}});
        set_defaults(&mut named);
        allocate(&mut named, &|_| false);
        assert!(named["spec"].get("clusterIP").is_none());
    }
}
