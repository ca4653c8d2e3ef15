//! What always holds of EndpointSlices and Endpoints, and what they say in the end.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use crate::{
    json::{at, has_finished, is_deleting, is_ready, items, label, labels, name, selects, text, uid},
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

/// How many endpoints a slice takes in this suite.
pub(super) const MAX_ENDPOINTS: u64 = 3;

const CONTROLLER: &str = "endpointslice-controller";
pub(super) const SERVICES: &str = "services";
pub(super) const SLICES: &str = "endpointslices.discovery.k8s.io";
pub(super) const ENDPOINTS: &str = "endpoints";
const PODS: &str = "pods";
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OURS: &str = "endpointslice-controller.k8s.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "foreign-slices-stay", claims: "ENDPOINTSLICE-3", check: foreign_slices_stay },
    Invariant { name: "slices-are-not-overfull", claims: "ENDPOINTSLICE-25", check: slices_are_not_overfull },
    Invariant {
        name: "terminating-endpoints-are-not-ready",
        claims: "ENDPOINTSLICE-15",
        check: terminating_endpoints_are_not_ready,
    },
    Invariant {
        name: "slices-have-a-living-owner",
        claims: "ENDPOINTSLICE-35, ENDPOINTSLICE-48, ENDPOINTSLICE-66",
        check: slices_have_a_living_owner,
    },
    Invariant {
        name: "writes-change-something",
        claims: "ENDPOINTSLICE-29, ENDPOINTSLICE-82",
        check: writes_change_something,
    },
    Invariant {
        name: "consumers-keep-ready-endpoints",
        claims: "ENDPOINTSLICE-33, ENDPOINTSLICE-78",
        check: consumers_keep_ready_endpoints,
    },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        name: "slices-tell-the-truth",
        claims: "ENDPOINTSLICE-14, ENDPOINTSLICE-15, ENDPOINTSLICE-16, ENDPOINTSLICE-19, ENDPOINTSLICE-21, ENDPOINTSLICE-22, ENDPOINTSLICE-30, ENDPOINTSLICE-36, ENDPOINTSLICE-39",
        check: slices_tell_the_truth,
    },
    Promise {
        name: "endpoints-tell-the-truth",
        claims: "ENDPOINTSLICE-55, ENDPOINTSLICE-56, ENDPOINTSLICE-59",
        check: endpoints_tell_the_truth,
    },
    Promise {
        name: "mirrors-tell-the-truth",
        claims: "ENDPOINTSLICE-46, ENDPOINTSLICE-47, ENDPOINTSLICE-48",
        check: mirrors_tell_the_truth,
    },
];

fn is_our_write(logged: &Logged) -> bool {
    logged.is_of(CONTROLLER, SLICES)
}

fn endpoints(slice: &Value) -> &[Value] {
    items(slice, "/endpoints")
}

fn holds(endpoint: &Value, kind: &str) -> bool {
    endpoint["conditions"][kind] == json!(true)
}

fn has_selector(service: &Value) -> bool {
    at(service, "/spec/selector").is_some_and(|selector| !selector.is_null())
        && text(service, "/spec/type") != "ExternalName"
}

fn publishes_not_ready(service: &Value) -> bool {
    service["spec"]["publishNotReadyAddresses"] == json!(true)
}

fn foreign_slices_stay(_: &World, logged: &Logged) -> Option<String> {
    let before = logged.before().filter(|_| is_our_write(logged))?;
    (![OURS, MIRRORED].contains(&label(&before, MANAGED_BY)))
        .then(|| format!("{} belongs to {:?}", name(&before), label(&before, MANAGED_BY)))
}

fn slices_are_not_overfull(_: &World, logged: &Logged) -> Option<String> {
    let after = logged.after().filter(|_| is_our_write(logged))?;
    let count = endpoints(&after).len();
    let before = logged.before().map_or(0, |before| endpoints(&before).len());
    (label(&after, MANAGED_BY) == OURS && count as u64 > MAX_ENDPOINTS && count > before)
        .then(|| format!("{} has {count} endpoints and may have {MAX_ENDPOINTS}", name(&after)))
}

fn terminating_endpoints_are_not_ready(world: &World, logged: &Logged) -> Option<String> {
    let after = logged.after().filter(|_| is_our_write(logged))?;
    if label(&after, MANAGED_BY) != OURS
        || world.recently(SERVICES, NAMESPACE, label(&after, SERVICE_NAME)).any(|service| publishes_not_ready(service))
    {
        return None;
    }
    let is_wrong =
        |endpoint: &&Value| holds(endpoint, "ready") && (holds(endpoint, "terminating") || !holds(endpoint, "serving"));
    endpoints(&after)
        .iter()
        .find(is_wrong)
        .map(|endpoint| format!("an endpoint is ready with the conditions {}", endpoint["conditions"]))
}

fn slices_have_a_living_owner(world: &World, logged: &Logged) -> Option<String> {
    let slice = logged.after().filter(|_| is_our_write(logged) && logged.creates())?;
    let kind = text(&slice, "/metadata/ownerReferences/0/kind");
    let owner = text(&slice, "/metadata/ownerReferences/0/uid");
    let resource = if kind == "Service" { SERVICES } else { ENDPOINTS };
    let lives =
        |state: Option<&Arc<Value>>| state.is_some_and(|current| uid(current) == owner && !is_deleting(current));
    (!world.recent(resource, NAMESPACE, label(&slice, SERVICE_NAME)).into_iter().any(lives))
        .then(|| format!("{} is created for a {kind} that does not exist", name(&slice)))
}

fn writes_change_something(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, SLICES).filter(|_| !logged.deletes())?;
    let content =
        |slice: &Value| (slice["endpoints"].clone(), slice["ports"].clone(), slice["metadata"]["labels"].clone());
    let is_mirrored = label(&after, MANAGED_BY) == MIRRORED;
    (!is_mirrored && content(&before) == content(&after))
        .then(|| format!("{} is written with the content it had", name(&after)))
}

/// A consumer that folds the watch into one set of endpoints for each Service never loses a ready endpoint whose Pod has
/// been ready, and selected, for as long as a controller may be behind.
fn consumers_keep_ready_endpoints(world: &World, logged: &Logged) -> Option<String> {
    let before = logged.before().filter(|slice| is_our_write(logged) && label(slice, MANAGED_BY) == OURS)?;
    let service_name = label(&before, SERVICE_NAME);
    let owner = text(&before, "/metadata/ownerReferences/0/uid");
    let services = world.recent(SERVICES, NAMESPACE, service_name);
    let owns = |state: Option<&Arc<Value>>| {
        state.is_some_and(|service| uid(service) == owner && !is_deleting(service) && has_selector(service))
    };
    if !services.iter().copied().all(owns) || somebody_meddled(world) {
        return None;
    }
    let services: Vec<&Arc<Value>> = services.into_iter().flatten().collect();
    let family = text(&before, "/addressType");
    if !services.iter().all(|service| families_of(service).contains(&family)) {
        return None;
    }
    let kept: BTreeSet<&str> = world
        .list(SLICES)
        .filter(|slice| label(slice, SERVICE_NAME) == service_name && label(slice, MANAGED_BY) == OURS)
        .filter(|slice| text(slice, "/addressType") == family)
        .flat_map(|slice| endpoints(slice))
        .filter(|endpoint| holds(endpoint, "ready"))
        .map(|endpoint| text(endpoint, "/targetRef/uid"))
        .collect();
    for endpoint in endpoints(&before).iter().filter(|endpoint| holds(endpoint, "ready")) {
        let pod_uid = text(endpoint, "/targetRef/uid");
        let states = world.recent(PODS, NAMESPACE, text(endpoint, "/targetRef/name"));
        let is_due = |state: Option<&Arc<Value>>| {
            state.is_some_and(|pod| {
                uid(pod) == pod_uid
                    && !is_deleting(pod)
                    && is_ready(pod)
                    && services.iter().all(|service| selects(service, "/spec/selector", pod))
                    && world.recent("nodes", "", text(pod, "/spec/nodeName")).iter().all(Option::is_some)
            })
        };
        if states.into_iter().all(is_due) && !kept.contains(pod_uid) {
            let pod = text(endpoint, "/targetRef/name");
            return Some(format!(
                "{pod} is ready, was in {}, and is in no {family} slice of {service_name} now",
                name(&before)
            ));
        }
    }
    None
}

/// Whether anybody but controllers has recently written a slice: what it held may have been counted on.
fn somebody_meddled(world: &World) -> bool {
    let oldest = world.now().checked_sub(world.lag()).unwrap_or(world.now());
    let recent = world.log().iter().rev().take_while(|logged| logged.at >= oldest);
    recent.into_iter().any(|logged| logged.by_user() && logged.resource() == SLICES)
}

fn families_of(service: &Value) -> Vec<&str> {
    items(service, "/spec/ipFamilies").iter().filter_map(Value::as_str).collect()
}

fn address_of<'a>(pod: &'a Value, family: &str) -> Option<&'a str> {
    let mut addresses = items(pod, "/status/podIPs").iter().map(|ip| text(ip, "/ip"));
    addresses.find(|ip| ip.contains(':') == (family == "IPv6"))
}

/// The Pods of a Service that have an address and have not finished.
fn pods_of<'a>(world: &'a World, service: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    world.list(PODS).filter(move |pod| {
        selects(service, "/spec/selector", pod) && !text(pod, "/status/podIP").is_empty() && !has_finished(pod)
    })
}

/// The ports of a Service as a Pod resolves them, in no order: name, number, protocol.
fn resolved_ports(service: &Value, pod: &Value) -> BTreeSet<String> {
    let number = |port: &Value| match &port["targetPort"] {
        Value::String(port_name) => items(pod, "/spec/containers")
            .iter()
            .flat_map(|container| items(container, "/ports"))
            .find(|declared| declared["name"] == **port_name && declared["protocol"] == port["protocol"])
            .map(|declared| declared["containerPort"].clone()),
        target => Some(target.clone()),
    };
    let ports = items(service, "/spec/ports").iter();
    ports.filter_map(|port| Some(port_text(&port["name"], &number(port)?, &port["protocol"]))).collect()
}

fn port_text(port_name: &Value, number: &Value, protocol: &Value) -> String {
    format!("{} {number} {}", port_name.as_str().unwrap_or_default(), protocol.as_str().unwrap_or_default())
}

fn ports_of(object: &Value) -> BTreeSet<String> {
    items(object, "/ports").iter().map(|port| port_text(&port["name"], &port["port"], &port["protocol"])).collect()
}

fn expected_hints(service: &Value, zone: &str, node: &str) -> Value {
    let distribution = text(service, "/spec/trafficDistribution");
    let mut hints = json!({});
    if !distribution.is_empty() && !zone.is_empty() {
        hints["forZones"] = json!([{ "name": zone }]);
    }
    if distribution == "PreferSameNode" {
        hints["forNodes"] = json!([{ "name": node }]);
    }
    if hints == json!({}) { Value::Null } else { hints }
}

/// What the slices of a Service must say of a Pod in a family; nothing while its node is unknown.
fn expected_endpoint(world: &World, service: &Value, family: &str, pod: &Value) -> Option<String> {
    let node_name = text(pod, "/spec/nodeName");
    let node = world.get("nodes", "", node_name);
    if node.is_none() && !publishes_not_ready(service) {
        return None;
    }
    let zone = node.map_or("", |node| label(node, "topology.kubernetes.io/zone"));
    let serving = is_ready(pod);
    let terminating = is_deleting(pod);
    let ready = publishes_not_ready(service) || (serving && !terminating);
    let hints = if ready { expected_hints(service, zone, node_name) } else { Value::Null };
    let address = address_of(pod, family)?;
    let ports = resolved_ports(service, pod);
    let target = uid(pod);
    Some(format!(
        "{family} {target} [{address:?}] {ready} {serving} {terminating} {node_name} {zone} {hints} {ports:?}"
    ))
}

/// What a slice says of an endpoint, in the same form.
fn told_endpoint(slice: &Value, endpoint: &Value) -> String {
    let ready = holds(endpoint, "ready");
    let serving = holds(endpoint, "serving");
    let terminating = holds(endpoint, "terminating");
    let node_name = text(endpoint, "/nodeName");
    let zone = text(endpoint, "/zone");
    let hints = if ready { &endpoint["hints"] } else { &Value::Null };
    let addresses: Vec<&str> = items(endpoint, "/addresses").iter().filter_map(Value::as_str).collect();
    let ports = ports_of(slice);
    let (family, target) = (text(slice, "/addressType"), text(endpoint, "/targetRef/uid"));
    format!("{family} {target} {addresses:?} {ready} {serving} {terminating} {node_name} {zone} {hints} {ports:?}")
}

fn slices_tell_the_truth(world: &World) -> Option<String> {
    for service in world.list(SERVICES).filter(|service| has_selector(service) && !is_deleting(service)) {
        let slices: Vec<&Arc<Value>> = world
            .list(SLICES)
            .filter(|slice| label(slice, SERVICE_NAME) == name(service) && label(slice, MANAGED_BY) == OURS)
            .collect();
        let mut told: Vec<String> =
            slices.iter().flat_map(|slice| endpoints(slice).iter().map(|e| told_endpoint(slice, e))).collect();
        let families = families_of(service);
        let expected = |family: &&str| {
            let (family, pods) = (*family, pods_of(world, service));
            pods.filter_map(|pod| expected_endpoint(world, service, family, pod)).collect::<Vec<_>>()
        };
        let mut wanted: Vec<String> = families.iter().flat_map(expected).collect();
        told.sort();
        wanted.sort();
        if told != wanted {
            return Some(format!("{} slices tell of {told:#?}, and there are {wanted:#?}", slices.len()));
        }
        // A slice that somebody else has emptied is kept and filled again when there is something to put into it.
        let emptied = world.log().iter().any(|logged| logged.by_user() && logged.resource() == SLICES);
        for family in families {
            let of_family = || slices.iter().filter(|slice| text(slice, "/addressType") == family);
            let (count, empty) = (of_family().count(), of_family().filter(|slice| endpoints(slice).is_empty()).count());
            if count == 0 || (empty > 0 && count > 1 && !emptied) {
                return Some(format!("{count} {family} slices, {empty} of them empty"));
            }
        }
        for slice in slices {
            if text(slice, "/metadata/ownerReferences/0/uid") != uid(service) {
                return Some(format!("{} is owned by another Service of that name", name(slice)));
            }
            let mut own = labels(slice);
            let mut wanted = labels(service);
            own.retain(|key, _| ![SERVICE_NAME, MANAGED_BY, HEADLESS].contains(key));
            wanted.retain(|key, _| ![SERVICE_NAME, MANAGED_BY, HEADLESS].contains(key));
            if own != wanted {
                return Some(format!("{} has the labels {own:?}, and its Service {wanted:?}", name(slice)));
            }
        }
    }
    None
}

fn endpoints_tell_the_truth(world: &World) -> Option<String> {
    for object in world.list(ENDPOINTS) {
        if world.get(SERVICES, NAMESPACE, name(object)).is_none() {
            return Some(format!("the Endpoints {} have no Service", name(object)));
        }
    }
    for service in world.list(SERVICES).filter(|service| has_selector(service) && !is_deleting(service)) {
        let Some(object) = world.get(ENDPOINTS, NAMESPACE, name(service)) else {
            return Some(format!("the Service {} has no Endpoints", name(service)));
        };
        let mut told = BTreeSet::new();
        for subset in items(object, "/subsets") {
            for (field, ready) in [("/addresses", true), ("/notReadyAddresses", false)] {
                for address in items(subset, field) {
                    let target = text(address, "/targetRef/uid");
                    let ip = text(address, "/ip");
                    told.extend(ports_of(subset).iter().map(|port| format!("{target} {ip} {ready} {port}")));
                }
            }
        }
        let mut wanted = BTreeSet::new();
        for pod in pods_of(world, service).filter(|pod| publishes_not_ready(service) || !is_deleting(pod)) {
            let ready = publishes_not_ready(service) || is_ready(pod);
            let Some(ip) = families_of(service).first().and_then(|family| address_of(pod, family)) else { continue };
            let target = uid(pod);
            wanted.extend(resolved_ports(service, pod).iter().map(|port| format!("{target} {ip} {ready} {port}")));
        }
        if told != wanted {
            return Some(format!("the Endpoints tell of {told:#?}, and there are {wanted:#?}"));
        }
    }
    None
}

/// What the Endpoints of a Service without selector say, for each address: address, readiness, ports, labels.
fn hand_made(object: &Value) -> BTreeSet<String> {
    let own_labels = labels(object);
    let mut told = BTreeSet::new();
    for subset in items(object, "/subsets") {
        let ports = ports_of(subset);
        for (field, ready) in [("/addresses", true), ("/notReadyAddresses", false)] {
            let addresses = items(subset, field).iter().map(|address| text(address, "/ip"));
            told.extend(addresses.map(|ip| format!("{ip} {ready} {ports:?} {own_labels:?}")));
        }
    }
    told
}

fn mirrors_tell_the_truth(world: &World) -> Option<String> {
    let mut wanted = BTreeSet::new();
    for object in world.list(ENDPOINTS).filter(|object| label(object, SKIP_MIRROR) != "true") {
        let service = world.get(SERVICES, NAMESPACE, name(object));
        if service.is_some_and(|service| !has_selector(service)) {
            wanted.extend(hand_made(object).into_iter().map(|line| format!("{}: {line}", name(object))));
        }
    }
    let mut told = BTreeSet::new();
    for slice in world.list(SLICES).filter(|slice| label(slice, MANAGED_BY) == MIRRORED) {
        let ports = ports_of(slice);
        let mut own_labels = labels(slice);
        own_labels.retain(|key, _| ![SERVICE_NAME, MANAGED_BY].contains(key));
        for endpoint in endpoints(slice) {
            let ready = holds(endpoint, "ready");
            let service = label(slice, SERVICE_NAME);
            for address in items(endpoint, "/addresses").iter().filter_map(Value::as_str) {
                let line = format!("{service}: {address} {ready} {ports:?} {own_labels:?}");
                if !told.insert(line) {
                    return Some(format!("{address} is mirrored twice"));
                }
            }
        }
    }
    (told != wanted).then(|| format!("mirrors tell of {told:#?}, and there are {wanted:#?}"))
}
