//! Bounds the allocations for one Service with thousands of Pods. The test has its own process, so that allocations of other
//! tests are not counted.

use std::sync::Arc;

use common::{controller::Decision, intern::Labels, selector_index::SelectorIndex};
use endpointslice_controller::{
    endpoints::{
        EndpointsController,
        decide::{self as endpoints, Plan::WriteIfNeeded, ServiceWithPods},
    },
    memory::{InSyncVersions, ServiceMemory},
    objects::{Endpoints, NameSortedPods, Pod, Service, Slice},
    plan::{SliceDraft, SliceWrites},
    slices::{
        SliceController,
        decide::{MAX_NEW_SLICE_PORTS, Snapshot, decide},
    },
    zones::ZonesByNode,
};
use jiff::Timestamp;
use serde_json::json;

use crate::METER;

fn service() -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "trafficDistribution": "PreferSameZone",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}))
    .unwrap()
}

fn pod(index: usize, ready: bool) -> Arc<Pod> {
    let ip = format!("10.0.{}.{}", index / 250, index % 250);
    let status = if ready { "True" } else { "False" };
    let object = json!({"metadata": {"name": format!("web-{index:05}"), "namespace": "ns", "uid": format!("u{index}"),
        "labels": {"app": "web"}}, "spec": {"nodeName": format!("n{}", index % 50)},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    Arc::new(serde_json::from_value(object).unwrap())
}

type ServicePodIndex = SelectorIndex<Pod, Labels>;

fn pods_of(index: &ServicePodIndex, service: &Service) -> NameSortedPods {
    index.selected_objects(&"ns".into(), "web", &service.spec.selector).unwrap().unwrap()
}

/// A Service with up-to-date slices, and the memory of the last sync.
struct World {
    service: Arc<Service>,
    zones: Arc<ZonesByNode>,
    index: ServicePodIndex,
    pods: Vec<Arc<Pod>>,
    slices: Vec<Arc<Slice>>,
    memory: ServiceMemory,
}

impl World {
    fn new(pods: usize) -> Self {
        let service = Arc::new(service());
        let mut index = ServicePodIndex::default();
        index.set_selector(&"ns".into(), &"web".into(), &service.spec.selector);
        let pods: Vec<Arc<Pod>> = (0..pods).map(|n| pod(n, true)).collect();
        for pod in &pods {
            let _ = index.add_or_replace_object(None, pod);
        }
        let mut zones = ZonesByNode::default();
        zones.extend((0..50).map(|n| (format!("n{n}").as_str().into(), format!("z{}", n % 3).as_str().into())));
        let (zones, memory) = (Arc::new(zones), ServiceMemory::default());
        let mut world = Self { service, zones, index, pods, slices: Vec::new(), memory };
        let first = decide(&world.snapshot());
        let made = |(at, draft): (usize, &SliceDraft)| {
            let owners = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s"}]);
            let metadata = json!({"name": format!("web-{at:03}"), "namespace": "ns", "uid": format!("e{at}"), "ownerReferences": owners});
            let mut slice: Slice =
                serde_json::from_value(json!({"metadata": metadata, "addressType": "IPv4"})).unwrap();
            slice.metadata.labels = first.slice_metadata.labels.clone();
            (slice.endpoints, slice.ports) = (draft.endpoints.clone(), draft.ports.clone());
            Arc::new(slice)
        };
        world.slices = first.slice_writes[0].slices_to_create.iter().enumerate().map(made).collect();
        assert_eq!(world.slices.len(), world.pods.len() / 100);
        world.memory = first.memory;
        let settled = decide(&world.snapshot());
        assert!(settled.slice_writes.iter().all(SliceWrites::is_empty));
        world.memory = settled.memory;
        world
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            service: Arc::clone(&self.service),
            pods: pods_of(&self.index, &self.service),
            zones_by_node: Arc::clone(&self.zones),
            slices: self.slices.clone(),
            memory: self.memory.clone(),
            zone_cpu_shares: None,
            max_endpoints_per_slice: 100,
            max_new_slice_ports: MAX_NEW_SLICE_PORTS,
            min_pods_to_record_slices: 200,
        }
    }
}

/// Returns the bytes allocated by an event of one Pod, a list of the Service's Pods, a sync with one change and a sync without.
fn allocated_for_one_change(pods: usize) -> [usize; 4] {
    let mut world = World::new(pods);
    let unchanged = world.snapshot();
    let (plan, for_nothing) = METER.total(|| decide(&unchanged));
    assert!(plan.slice_writes.iter().all(SliceWrites::is_empty));
    let changed = pod(234, false);
    let before = Arc::clone(&world.pods[234]);
    let (concerned, for_event) = METER.total(|| world.index.add_or_replace_object(Some(&before), &changed));
    assert_eq!(concerned.1.len(), 1);
    let (_, for_list) = METER.total(|| pods_of(&world.index, &world.service));
    let one = world.snapshot();
    let (plan, for_one) = METER.total(|| decide(&one));
    let writes = &plan.slice_writes[0];
    assert_eq!(
        [writes.slices_to_create.len(), writes.slices_to_update.len(), writes.slices_to_delete.len()],
        [0, 1, 0]
    );
    let (_, with_forecast) = METER.total(|| Decision::<SliceController>::with_forecast(&one, Timestamp::UNIX_EPOCH));
    assert!(with_forecast < for_one + 5_000, "a forecast builds no slice: {with_forecast} bytes, {for_one} without");
    let (_, with_forecast) =
        METER.total(|| Decision::<SliceController>::with_forecast(&unchanged, Timestamp::UNIX_EPOCH));
    assert!(
        with_forecast < for_nothing + 2_000,
        "nor in a sync without changes: {with_forecast} bytes, {for_nothing} without"
    );
    [for_event, for_list, for_one, for_nothing]
}

fn a_change_of_one_pod_costs_the_same_in_a_large_service() {
    let (small, large) = (allocated_for_one_change(500), allocated_for_one_change(5_000));
    println!("event, list, one change, no change: {small:?} bytes with 500 Pods, {large:?} with 5,000");
    let [for_event, for_list, for_one, for_nothing] = large;
    assert!(for_event < 6_000, "an event of a Pod allocates {for_event} bytes");
    assert_eq!(for_list, 0, "a list of members is shared");
    // The sync builds one slice and the index of its Pods. An endpoint takes about 300 bytes.
    assert!(for_one < 100 * 1_000, "a sync with one change allocates {for_one} bytes");
    assert!(for_nothing < 15_000, "a sync without changes allocates {for_nothing} bytes");
    // Only two lists grow with the Service: the slices of 100 Pods each, and the parts of the index with 64 Pods each.
    for (small, large) in small.into_iter().zip(large) {
        assert!(2 * large < 3 * small + 20_000, "{small} bytes with 500 Pods, {large} with 5,000");
    }
}

fn endpoints_that_are_as_wanted_are_not_built_again() {
    let service = Arc::new(service());
    let pods: NameSortedPods = (0..1_000).map(|n| pod(n, true)).collect();
    let snapshot = |pods: &NameSortedPods, synced_state, in_sync_versions, endpoints: &Arc<Endpoints>| {
        let (service, pods) = (Arc::clone(&service), pods.clone());
        let key = service.metadata.key();
        let service_with_pods = Some(ServiceWithPods { service, pods, synced_state, in_sync_versions });
        endpoints::Snapshot { key, service_with_pods, endpoints: Some(Arc::clone(endpoints)) }
    };
    let mut there: Endpoints =
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "e"}})).unwrap();
    let first = endpoints::decide(&snapshot(&pods, None, None, &Arc::new(there.clone())));
    let WriteIfNeeded(wanted) = first else { panic!("the Endpoints are empty") };
    assert!(wanted.is_write_needed);
    (there.metadata.labels, there.subsets) = (wanted.labels, wanted.subsets);
    let there = Arc::new(there);
    let (plan, for_all) = METER.total(|| endpoints::decide(&snapshot(&pods, None, None, &there)));
    let WriteIfNeeded(wanted) = plan else { panic!("there was no sync before") };
    assert!(!wanted.is_write_needed && for_all > 100 * 1_000, "all are built, and compared: {for_all} bytes");

    let (seen, settled) = (Some(Arc::new(wanted.synced_state)), Some(InSyncVersions::new(&service, &there)));
    let again = |pods: &NameSortedPods, there: &Arc<Endpoints>| snapshot(pods, seen.clone(), settled.clone(), there);
    let (plan, for_nothing) = METER.total(|| endpoints::decide(&again(&pods, &there)));
    assert!(matches!(plan, endpoints::Plan::Unchanged(_)));
    assert!(for_nothing < 200, "a sync without changes allocates {for_nothing} bytes");
    let unchanged = again(&pods, &there);
    let forecast = || Decision::<EndpointsController>::with_forecast(&unchanged, Timestamp::UNIX_EPOCH);
    let (_, with_forecast) = METER.total(forecast);
    assert_eq!(with_forecast, for_nothing, "neither the forecast of a quiet sync nor its account allocates anything");

    // With a different list of Pods, or a different version of an object, the sync compares all endpoints.
    let others: NameSortedPods = pods.iter().cloned().collect();
    assert!(matches!(endpoints::decide(&again(&others, &there)), WriteIfNeeded(_)));
    let mut changed = Endpoints::clone(&there);
    changed.metadata.resource_version = common::meta::ResourceVersion::parse("7");
    changed.subsets.clear();
    let plan = endpoints::decide(&again(&pods, &Arc::new(changed)));
    assert!(matches!(plan, WriteIfNeeded(wanted) if wanted.is_write_needed));
}

/// Runs the tests one after the other, because allocations are counted for the whole process.
/// ENDPOINTSLICE-60.
#[test]
fn a_sync_builds_only_what_it_writes() {
    let _alone = METER.alone();
    a_change_of_one_pod_costs_the_same_in_a_large_service();
    endpoints_that_are_as_wanted_are_not_built_again();
}
