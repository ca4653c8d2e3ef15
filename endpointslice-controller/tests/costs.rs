//! What one Service with 5,000 Pods costs, measured in allocated bytes: a process of its own, so that nothing else allocates.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics fails")]

use std::{alloc::System, sync::Arc};

use cap::Cap;
use common::controller::Controller;
use endpointslice_controller::{
    decide::decide,
    endpoints::{
        self, EndpointsController,
        decide::{EndpointsPlan, EndpointsSnapshot, Members as OfService},
    },
    membership::{Members, Membership},
    memory::{Memory, Settled},
    objects::{Endpoints, Pod, Service, Slice},
    plan::Writes,
    slices::SliceController,
    snapshot::{MAX_NEW_PORTS, Snapshot, Zones},
};
use jiff::Timestamp;
use serde_json::json;

/// Counts everything that is allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const PODS: usize = 5_000;

/// The bytes that `work` allocates, given back or not.
fn allocated<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.total_allocated();
    let out = work();
    (ALLOCATOR.total_allocated() - before, out)
}

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

fn pods_of(index: &mut Membership, service: &Service) -> Arc<[Arc<Pod>]> {
    match index.members(&"ns".into(), "web", &service.spec.selector).unwrap() {
        Members::Pods(pods) => pods,
        Members::Unknown => panic!("the Service is unknown"),
    }
}

fn a_change_of_one_pod_of_five_thousand_builds_one_slice() {
    let service = service();
    let mut index = Membership::default();
    index.put_service(&service);
    let pods: Vec<Arc<Pod>> = (0..PODS).map(|n| pod(n, true)).collect();
    for pod in &pods {
        let _ = index.put_pod(None, pod);
    }
    let mut zones = Zones::default();
    (0..50).for_each(|n| zones.insert(format!("n{n}").as_str().into(), format!("z{}", n % 3).as_str().into()));
    let snapshot = |pods, slices, memory| Snapshot {
        service: Arc::new(service.clone()),
        pods,
        zones: Arc::new(zones.clone()),
        slices,
        memory,
        ratios: None,
        max_endpoints_per_slice: 100,
        max_new_ports: MAX_NEW_PORTS,
    };
    let first = decide(&snapshot(pods_of(&mut index, &service), Vec::new(), Memory::default()));
    let made = |(at, draft): (usize, &endpointslice_controller::plan::Draft)| {
        let mut slice: Slice = serde_json::from_value(json!({"metadata": {"name": format!("web-{at:03}"), "namespace": "ns",
            "uid": format!("e{at}"), "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s"}]},
            "addressType": "IPv4"}))
        .unwrap();
        slice.metadata.labels = first.slice_metadata.labels.clone();
        (slice.endpoints, slice.ports) = (draft.endpoints.clone(), draft.ports.clone());
        Arc::new(slice)
    };
    let slices: Vec<Arc<Slice>> = first.writes[0].create.iter().enumerate().map(made).collect();
    assert_eq!(slices.len(), 50);

    let changed = pod(1_234, false);
    let (for_event, concerned) = allocated(|| index.put_pod(Some(&pods[1_234]), &changed));
    assert_eq!(concerned.1.len(), 1);
    assert!(for_event < 2_000, "an event of a Pod allocates {for_event} bytes");

    let (for_list, members) = allocated(|| pods_of(&mut index, &service));
    assert!(for_list < 10 * PODS, "a list of members takes {for_list} bytes");
    assert!(allocated(|| pods_of(&mut index, &service)).0 < 100, "a list that has not changed is shared");

    let seen = first.memory.seen.clone().unwrap();
    let unchanged = snapshot(seen.pods.clone(), slices.clone(), first.memory.clone());
    let (for_nothing, plan) = allocated(|| decide(&unchanged));
    assert!(plan.writes.iter().all(Writes::is_empty));
    let one = snapshot(members, slices, first.memory.clone());
    let (for_one, plan) = allocated(|| decide(&one));
    let (with_forecast, _) = allocated(|| <SliceController as Controller>::decide(&one, Timestamp::UNIX_EPOCH));
    assert!(with_forecast < for_one + 5_000, "a forecast builds no slice: {with_forecast} bytes, {for_one} without");
    let (with_forecast, _) = allocated(|| <SliceController as Controller>::decide(&unchanged, Timestamp::UNIX_EPOCH));
    assert!(
        with_forecast < for_nothing + 2_000,
        "nor where there is no change: {with_forecast} bytes, {for_nothing} without"
    );
    assert_eq!((plan.writes[0].create.len(), plan.writes[0].update.len(), plan.writes[0].delete.len()), (0, 1, 0));
    // Indexes of positions, and no endpoint: an endpoint takes about 300 bytes.
    assert!(for_nothing < 120 * PODS, "a sync without changes allocates {for_nothing} bytes");
    assert!(
        for_one < for_nothing + 100 * 1_000,
        "a sync with one change allocates {for_one} bytes, {for_nothing} without"
    );
}

fn endpoints_that_are_as_wanted_are_not_built_again() {
    let service = Arc::new(service());
    let pods: Arc<[Arc<Pod>]> = (0..1_000).map(|n| pod(n, true)).collect();
    let snapshot = |pods: &Arc<[Arc<Pod>]>, seen, settled, endpoints: &Arc<Endpoints>| EndpointsSnapshot {
        key: service.metadata.key(),
        members: Some(OfService { service: Arc::clone(&service), pods: Arc::clone(pods), seen, settled }),
        endpoints: Some(Arc::clone(endpoints)),
    };
    let mut there: Endpoints =
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "e"}})).unwrap();
    let EndpointsPlan::Keep(wanted) = endpoints::decide::decide(&snapshot(&pods, None, None, &Arc::new(there.clone())))
    else {
        panic!("the Endpoints are empty");
    };
    assert!(wanted.write);
    (there.metadata.labels, there.subsets) = (wanted.labels, wanted.subsets);
    let there = Arc::new(there);
    let (for_all, plan) = allocated(|| endpoints::decide::decide(&snapshot(&pods, None, None, &there)));
    let EndpointsPlan::Keep(wanted) = plan else { panic!("nothing is known of a sync before") };
    assert!(!wanted.write && for_all > 100 * 1_000, "all are built, and compared: {for_all} bytes");

    let (seen, settled) = (Some(Arc::new(wanted.seen)), Some(Settled::new(&service, &there)));
    let (for_nothing, plan) =
        allocated(|| endpoints::decide::decide(&snapshot(&pods, seen.clone(), settled.clone(), &there)));
    assert!(matches!(plan, EndpointsPlan::Settled(_)));
    assert!(for_nothing < 200, "a sync without changes allocates {for_nothing} bytes");
    let snapshot_of_nothing = snapshot(&pods, seen.clone(), settled.clone(), &there);
    let (with_forecast, _) =
        allocated(|| <EndpointsController as Controller>::decide(&snapshot_of_nothing, Timestamp::UNIX_EPOCH));
    assert_eq!(with_forecast, for_nothing, "neither the forecast of a quiet sync nor its account allocates anything");

    // Another list of Pods, or another version of an object, is looked at.
    let others: Arc<[Arc<Pod>]> = pods.iter().cloned().collect();
    assert!(matches!(
        endpoints::decide::decide(&snapshot(&others, seen.clone(), settled.clone(), &there)),
        EndpointsPlan::Keep(_)
    ));
    let mut changed = Endpoints::clone(&there);
    changed.metadata.resource_version = common::meta::Version::parse("7");
    changed.subsets.clear();
    let plan = endpoints::decide::decide(&snapshot(&pods, seen, settled, &Arc::new(changed)));
    assert!(matches!(plan, EndpointsPlan::Keep(wanted) if wanted.write));
}

/// One after the other: what a test allocates is counted for the whole process.
#[test]
fn a_sync_builds_what_it_writes() {
    a_change_of_one_pod_of_five_thousand_builds_one_slice();
    endpoints_that_are_as_wanted_are_not_built_again();
}
