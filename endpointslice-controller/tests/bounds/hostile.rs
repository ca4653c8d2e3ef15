//! Bounds the allocations of decisions about Services, Pods and Endpoints with every list at its limit and beyond. The test has
//! its own process, because it counts memory.

use std::sync::Arc;

use common::{controller::Decision, meta::NamespacedName};
use endpointslice_controller::{
    decide::subsets::MAX_PROCESSED_ADDRESSES,
    endpoints::{
        self, EndpointsController,
        decide::{MAX_PORTS_PER_ENDPOINTS_OBJECT, ServiceWithPods},
    },
    memory::ServiceMemory,
    mirroring::{self, MirroringController},
    objects::{Endpoints, Pod, Service},
    slices::{
        SliceController,
        decide::{MAX_NEW_SLICE_PORTS, Snapshot},
    },
    zones::ZonesByNode,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::bounds::{any_of, read};

use crate::METER;

/// Allowed bytes for each byte of the Service and its Pods.
const EACH_BYTE: usize = 16;
/// Allowed bytes for each port of a new slice.
const EACH_NEW_PORT: usize = 128;
/// Allowed bytes for each pair of a mirrored address and a distinct list of ports.
const EACH_MIRRORED: usize = 1536;
/// Additional allowed bytes, the same for an input of any size.
const BESIDES: usize = 1 << 20;

fn number() -> impl Strategy<Value = Value> {
    any_of(&[json!(0), json!(80), json!(65535), json!(-1), json!(i32::MAX), json!(null)])
}

fn target() -> impl Strategy<Value = Value> {
    any_of(&[json!("http"), json!("none"), json!(8080), json!(0), json!(-1), json!("70000"), json!(null)])
}

/// Generates a text of up to 256 KiB, the limit for annotations.
fn text() -> impl Strategy<Value = String> {
    any_of(&[0usize, 1, 63, 1000, 256 << 10]).prop_map(|length| "x".repeat(length))
}

fn any_service() -> impl Strategy<Value = Value> {
    let ports = (any_of(&[0usize, 1, 2, 100, 1000, 10_000]), number(), target(), any::<bool>());
    let kind = any_of(&["ClusterIP", "ExternalName", "LoadBalancer", "", "odd"]);
    let families = any_of(&[json!(["IPv4"]), json!(["IPv6", "IPv4"]), json!([]), json!(null), json!(["odd"])]);
    let distribution =
        any_of(&[json!(null), json!("PreferSameZone"), json!("PreferSameNode"), json!("PreferClose"), json!("odd")]);
    let cluster_ip = any_of(&["10.0.0.1", "None", ""]);
    (ports, kind, families, distribution, cluster_ip, text(), any::<bool>()).prop_map(
        |((ports, number, target, same_names), kind, families, distribution, cluster_ip, text, publish)| {
            let port = |n: usize| {
                let name = if same_names { "http".to_owned() } else { format!("p{n}") };
                json!({"name": name, "port": number, "targetPort": target, "protocol": "TCP", "appProtocol": text.get(..63.min(text.len()))})
            };
            json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s", "resourceVersion": "1",
                    "labels": {"app": "web", "long": text.get(..63.min(text.len()))},
                    "annotations": {"service.kubernetes.io/topology-mode": "Auto", "long": text}},
                "spec": {"type": kind, "clusterIP": cluster_ip, "ipFamilies": families, "selector": {"app": "web"},
                    "trafficDistribution": distribution, "publishNotReadyAddresses": publish,
                    "ports": (0..ports).map(port).collect::<Vec<_>>()}})
        },
    )
}

fn any_pod() -> impl Strategy<Value = Value> {
    let ip = any_of(&["10.0.0.7", "fd00::7", "", "nonsense", "999.1.1.1"]);
    let ips = any_of(&[0usize, 1, 2, 1000]);
    let containers = (any_of(&[0usize, 1, 50]), any_of(&[0usize, 1, 40]), number());
    let phase = any_of(&["Running", "Succeeded", "Pending", "odd"]);
    (ip, ips, containers, phase, any::<bool>(), text(), 0..4u8).prop_map(
        |(ip, ips, (containers, ports, number), phase, ready, text, node)| {
            let port = |n: usize| json!({"name": if n == 0 { "http".to_owned() } else { format!("p{n}") }, "containerPort": number});
            let container = json!({"name": "c", "image": "i", "ports": (0..ports).map(port).collect::<Vec<_>>()});
            json!({"metadata": {"namespace": "ns", "resourceVersion": "1", "labels": {"app": "web"}, "annotations": {"long": text}},
                "spec": {"nodeName": format!("n{node}"), "hostname": text.get(..63.min(text.len())), "subdomain": "web",
                    "containers": vec![container; containers]},
                "status": {"phase": phase, "podIP": ip, "podIPs": vec![json!({"ip": ip}); ips],
                    "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
        },
    )
}

/// Generates 30 or 500 Pods with an address and the named port `http`, which has a different number on each Pod.
fn pods_that_differ() -> impl Strategy<Value = Vec<Value>> {
    any_of(&[30usize, 500]).prop_map(|pods| (0..pods).map(pod_with_its_own_number).collect())
}

fn pod_with_its_own_number(n: usize) -> Value {
    let ip = format!("10.0.{}.{}", n / 250, n % 250);
    json!({"metadata": {"namespace": "ns", "labels": {"app": "web"}},
        "spec": {"nodeName": "n0", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 1 + n}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}})
}

/// Decides the slices and the Endpoints of a Service. Returns the allocated and the allowed bytes of both decisions together.
fn allocated_and_limit(
    service: &Value,
    pods: Vec<Value>,
    max_endpoints_per_slice: usize,
) -> Option<[(usize, usize); 2]> {
    let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    let mut bytes = service.to_string().len();
    let service = read::<Service>(service)?;
    let mut members = Vec::new();
    for (n, mut pod) in pods.into_iter().enumerate() {
        (pod["metadata"]["name"], pod["metadata"]["uid"]) = (json!(format!("web-{n:03}")), json!(format!("u{n}")));
        bytes += pod.to_string().len();
        members.extend(read::<Pod>(&pod));
    }
    let new_ports = (2 * ports * members.len()).min(MAX_NEW_SLICE_PORTS + ports);
    let limit = BESIDES + EACH_BYTE * bytes + EACH_NEW_PORT * new_ports;
    let mut zones = ZonesByNode::default();
    zones.extend((0..3).map(|n| (format!("n{n}").as_str().into(), format!("z{n}").as_str().into())));
    let snapshot = Snapshot {
        service,
        pods: members.into_iter().collect(),
        zones_by_node: Arc::new(zones),
        slices: Vec::new(),
        memory: ServiceMemory::default(),
        zone_cpu_shares: None,
        max_endpoints_per_slice,
        max_new_slice_ports: MAX_NEW_SLICE_PORTS,
        min_pods_to_record_slices: 0,
    };
    let (_, allocated) =
        METER.total(|| Decision::<SliceController>::with_forecast(&snapshot, jiff::Timestamp::UNIX_EPOCH).explain());
    let of_slices = (allocated, limit);
    let Snapshot { service, pods, .. } = snapshot;
    let new_ports = (ports * pods.len()).min(MAX_PORTS_PER_ENDPOINTS_OBJECT);
    let limit = BESIDES + EACH_BYTE * bytes + EACH_NEW_PORT * new_ports;
    let members = Some(ServiceWithPods { service, pods, synced_state: None, in_sync_versions: None });
    let snapshot = endpoints::decide::Snapshot {
        key: NamespacedName::new("ns", "web"),
        service_with_pods: members,
        endpoints: None,
    };
    let (_, allocated) = METER
        .total(|| Decision::<EndpointsController>::with_forecast(&snapshot, jiff::Timestamp::UNIX_EPOCH).explain());
    Some([of_slices, (allocated, limit)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    fn deciding_allocates_in_proportion_to_the_service_and_its_pods(
        service in any_service(),
        pods in prop_oneof![2 => prop::collection::vec(any_pod(), 0..30), 1 => pods_that_differ()],
        max_endpoints_per_slice in any_of(&[1usize, 3, 100, 1000]),
    ) {
        for (allocated, limit) in allocated_and_limit(&service, pods, max_endpoints_per_slice).into_iter().flatten() {
            prop_assert!(allocated <= limit, "{allocated} bytes are allocated, {limit} are allowed");
        }
    }
}

fn ten_thousand_ports_on_five_hundred_pods_that_differ_are_not_multiplied_out() {
    let port = |n: usize| json!({"name": format!("p{n}"), "port": 1 + n, "targetPort": "http", "protocol": "TCP"});
    let service = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": (0..10_000).map(port).collect::<Vec<_>>()}});
    let pods = (0..500).map(pod_with_its_own_number).collect();
    for (allocated, limit) in allocated_and_limit(&service, pods, 100).unwrap() {
        assert!(allocated <= limit, "{allocated} bytes are allocated, {limit} are allowed");
    }
}

/// The shape of a subset: first port, count of ports, first address, count of addresses.
type Shape = (usize, usize, usize, usize);

fn any_shape() -> impl Strategy<Value = Shape> {
    let ports = any_of(&[0usize, 1, 2, 100, 3000]);
    let addresses = any_of(&[0usize, 1, 2, 100, 3000]);
    (0..50usize, ports, 0..50usize, addresses)
}

fn subset((first_port, ports, first_address, addresses): Shape, not_ready: bool) -> Value {
    let port = |n: usize| json!({"name": format!("p{n}"), "port": n, "protocol": "TCP"});
    let address = |n: usize| json!({"ip": format!("10.{}.{}.{}", n % 3, n / 250, n % 250)});
    let list = if not_ready { "notReadyAddresses" } else { "addresses" };
    json!({list: (first_address..first_address + addresses).map(address).collect::<Vec<_>>(),
        "ports": (first_port..first_port + ports).map(port).collect::<Vec<_>>()})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    fn mirroring_allocates_in_proportion_to_the_endpoints(
        subsets in prop::collection::vec((any_shape(), any::<bool>()), 0..30),
        max_endpoints_per_subset in any_of(&[1usize, 1000]),
    ) {
        let addresses: usize = subsets.iter().map(|(shape, _)| shape.3).sum();
        let combinations = 2 * subsets.len() + 1;
        let subsets: Vec<Value> = subsets.into_iter().map(|(shape, not_ready)| subset(shape, not_ready)).collect();
        let object = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "e"}, "subsets": subsets});
        let bytes = object.to_string().len();
        let service = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s"}});
        let snapshot = mirroring::decide::Snapshot {
            key: NamespacedName::new("ns", "web"),
            endpoints: read::<Endpoints>(&object),
            service: read::<Service>(&service),
            slices: Vec::new(),
            max_endpoints_per_subset,
        };
        prop_assert!(snapshot.endpoints.is_some());
        let limit = BESIDES + EACH_BYTE * bytes + EACH_MIRRORED * (addresses * combinations).min(MAX_PROCESSED_ADDRESSES);
        let (_, allocated) = METER.total(|| Decision::<MirroringController>::with_forecast(&snapshot, jiff::Timestamp::UNIX_EPOCH).explain());
                prop_assert!(allocated <= limit, "{allocated} bytes are allocated, {limit} are allowed");
    }
}

/// Runs the tests one after the other, because allocations are counted for the whole process.
#[test]
fn hostile_objects_cost_no_more_than_their_size_allows() {
    let _alone = METER.alone();
    ten_thousand_ports_on_five_hundred_pods_that_differ_are_not_multiplied_out();
    deciding_allocates_in_proportion_to_the_service_and_its_pods();
    mirroring_allocates_in_proportion_to_the_endpoints();
}
