//! Compares plans based on the changes since the last sync with plans based on all Pods and slices.

use std::{collections::BTreeSet, sync::Arc};

use common::{intern::Text, name_sorted_list::NameSortedList};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    memory::ServiceMemory,
    objects::{AddressType, Endpoint, NameSortedPods, Pod, Service, Slice},
    plan::{SliceDraft, SliceWrites},
    pods_in_slices::{AddressTypePodsInSlices, PodWithSlice, PodsInSlices, UpToDateSlice},
    slices::decide::{Plan, Snapshot, decide, scope::PodsAndSlicesToCompare},
    world::{node, pod, service, slice, snapshot},
    zones::{ZoneCapacity, ZoneCpuShares, ZonesByNode},
};

/// Whether two records of Pods in slices have the same content.
fn is_same(one: &PodsInSlices, other: &PodsInSlices) -> bool {
    let sorted = |packing: &AddressTypePodsInSlices| {
        let mut names = packing.pod_names_in_written_slices.clone();
        names.sort();
        names
    };
    let is_alike =
        |a: &UpToDateSlice, b: &UpToDateSlice| Arc::ptr_eq(&a.slice, &b.slice) && a.port_numbers == b.port_numbers;
    let alike = |(a, b): (&AddressTypePodsInSlices, &AddressTypePodsInSlices)| {
        a.up_to_date_slices.len() == b.up_to_date_slices.len()
            && a.up_to_date_slices.iter().zip(&b.up_to_date_slices).all(|(a, b)| is_alike(a, b))
            && NameSortedList::entry_differences(
                &a.pods_with_slices,
                &b.pods_with_slices,
                PodWithSlice::is_same_pod_and_slice,
            )
            .is_empty()
            && a.port_group_sizes == b.port_group_sizes
            && sorted(a) == sorted(b)
    };
    one.by_address_type.keys().eq(other.by_address_type.keys())
        && one.by_address_type.values().zip(other.by_address_type.values()).all(alike)
        && one.pods.shares_storage_with(&other.pods)
}

const PODS: usize = 80;

#[derive(Clone, Debug)]
struct State {
    families: u8,
    node: u8,
    port: u16,
    ready: bool,
    over: bool,
    deleting: bool,
    named: bool,
    life: u8,
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<(usize, State)>),
    Remove(Vec<usize>),
    /// Sets the zone of a Node; `None` deletes the Node.
    Node(u8, Option<u8>),
    Service(Value, bool, bool),
    /// Another writer changes a slice; the number selects the kind of change.
    Meddle(prop::sample::Index, u8, prop::sample::Index),
    /// A sync: the number of writes that take effect (`None` for all), and whether the memory is updated.
    Sync(Option<usize>, bool),
    Restart,
}

fn any_state() -> impl Strategy<Value = State> {
    let usual = |usual: u8, all: u8| (0..all).prop_map(move |n| n < usual);
    let flags = (usual(6, 8), usual(1, 12), usual(1, 10), usual(1, 10));
    (0..12u8, 0..12u8, 0..20u16, flags, 0..2u8).prop_map(|(families, node, port, flags, life)| {
        let (ready, over, deleting, named) = flags;
        State {
            families,
            node: node % 4,
            port: if port == 0 { 9090 } else { 8080 },
            ready,
            over,
            deleting,
            named,
            life,
        }
    })
}

fn any_spec() -> impl Strategy<Value = Value> {
    let target = prop::sample::select(vec![json!(8080), json!("http"), json!("http")]);
    let families = prop::sample::select(vec![json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])]);
    let distribution =
        prop::sample::select(vec![json!(null), json!(null), json!("PreferSameZone"), json!("PreferSameNode")]);
    (target, families, distribution, any::<bool>()).prop_map(|(target, families, distribution, publishes)| {
        json!({"ports": [{"name": "http", "port": 80, "targetPort": target, "protocol": "TCP"}], "ipFamilies": families,
            "trafficDistribution": distribution, "publishNotReadyAddresses": publishes})
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0..PODS, 1..4);
    prop_oneof![
        6 => prop::collection::vec((0..PODS, any_state()), 1..4).prop_map(Step::Put),
        2 => some().prop_map(Step::Remove),
        1 => (0..3u8, prop::option::weighted(0.8, 0..3u8)).prop_map(|(node, zone)| Step::Node(node, zone)),
        1 => (any_spec(), prop::bool::weighted(0.1), prop::bool::weighted(0.05))
            .prop_map(|(spec, by_capacity, deleting)| Step::Service(spec, by_capacity, deleting)),
        2 => (any::<prop::sample::Index>(), 0..10u8, any::<prop::sample::Index>())
            .prop_map(|(slice, how, other)| Step::Meddle(slice, how, other)),
        12 => (prop::option::weighted(0.15, 0..3usize), prop::bool::weighted(0.95))
            .prop_map(|(writes, remembers)| Step::Sync(writes, remembers)),
        1 => Just(Step::Restart),
    ]
}

fn read(index: usize, state: &State) -> Arc<Pod> {
    let (four, six) = (json!({"ip": format!("10.0.0.{index}")}), json!({"ip": format!("fd00::{index:x}")}));
    let ips = match state.families {
        0 => json!([]),
        1 => json!([six]),
        2 => json!([four]),
        _ => json!([four, six]),
    };
    let status = if state.ready { "True" } else { "False" };
    let name = format!("p{index:04}");
    let uid = format!("{name}-{}", state.life);
    let object = json!({"metadata": {"name": name, "namespace": "ns", "uid": uid,
            "deletionTimestamp": state.deleting.then_some("2026-01-01T00:00:00Z")},
        "spec": {"nodeName": format!("n{}", state.node), "hostname": state.named.then_some("host"), "subdomain": "web",
            "containers": [{"ports": [{"name": "http", "containerPort": state.port, "protocol": "TCP"}]}]},
        "status": {"phase": if state.over { "Failed" } else { "Running" }, "podIPs": ips, "podIP": ips[0]["ip"],
            "conditions": [{"type": "Ready", "status": status,
                "lastTransitionTime": format!("2026-01-01T00:{:02}:00Z", index % 60)}]}});
    Arc::new(serde_json::from_value(object).unwrap())
}

/// Builds the slice that the cache shows after a draft was written.
fn written(base: &Slice, draft: &SliceDraft, plan: &Plan) -> Slice {
    let reread = |endpoint: &Endpoint| serde_json::from_value(json!(endpoint)).unwrap();
    let mut slice = base.clone();
    slice.endpoints = draft.endpoints.iter().map(reread).collect();
    slice.ports = Arc::clone(&draft.ports);
    slice.metadata.labels = plan.slice_metadata.labels.clone();
    slice
}

struct World {
    snapshot: Snapshot,
    made: usize,
    /// The number of syncs that compared only changes; `wholes` counts the syncs that compared everything.
    parts: usize,
    wholes: usize,
}

impl World {
    fn new(states: &[State], max_endpoints: usize) -> Self {
        let mut snapshot = snapshot([], max_endpoints);
        snapshot.pods = states.iter().enumerate().map(|(index, state)| read(index, state)).collect();
        let mut zones = ZonesByNode::default();
        zones.extend((0..4).map(|node| (Text::new(&format!("n{node}")), Text::new("a"))));
        snapshot.zones_by_node = Arc::new(zones);
        snapshot.zone_cpu_shares = ratios().map(Arc::new);
        Self { snapshot, made: 0, parts: 0, wholes: 0 }
    }

    fn put_slice(&mut self, slice: Slice) {
        let slices = &mut self.snapshot.slices;
        slices.retain(|known| known.metadata.name != slice.metadata.name);
        slices.push(Arc::new(slice));
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    }

    fn meddle(&mut self, at: prop::sample::Index, how: u8, other: prop::sample::Index) {
        if self.snapshot.slices.is_empty() {
            return;
        }
        let at = at.index(self.snapshot.slices.len());
        let other = Arc::clone(&self.snapshot.slices[other.index(self.snapshot.slices.len())]);
        let mut changed = Slice::clone(&self.snapshot.slices[at]);
        match how {
            0 => {
                self.snapshot.slices.remove(at);
                return;
            }
            1 => drop(changed.endpoints.pop()),
            2 => changed.endpoints.extend(other.endpoints.first().cloned()),
            3 => changed.metadata.labels = other.metadata.labels.clone(),
            4 => changed.ports = Arc::default(),
            5 => changed.endpoints.clone_from(&other.endpoints),
            6 => changed.metadata.owners = Vec::new().into(),
            7 => changed.endpoints.iter_mut().for_each(|endpoint| endpoint.conditions.ready = Some(false)),
            8 => changed.address_type = "FQDN".into(),
            _ => {}
        }
        self.put_slice(changed);
    }

    fn sync(&mut self, writes: Option<usize>, remembers: bool) -> Result<(), TestCaseError> {
        let memory = ServiceMemory { pods_in_slices: None, ..self.snapshot.memory.clone() };
        let plan = decide(&self.snapshot);
        same(&plan, &decide(&Snapshot { memory, ..self.snapshot.clone() }))?;
        let part =
            PodsAndSlicesToCompare::with_changes_since_last_sync(&self.snapshot, AddressType::Ipv4, &[]).is_some();
        *(if part { &mut self.parts } else { &mut self.wholes }) += 1;
        if remembers {
            self.snapshot.memory = plan.memory.clone();
        }
        let mut left = writes.unwrap_or(usize::MAX);
        let mut may_write = || {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        for writes in &plan.slice_writes {
            for draft in &writes.slices_to_create {
                if may_write() {
                    // The order of generated names differs from the order of creation, as on a real server.
                    let mut new = Slice::clone(&slice(&format!("{}-{}", self.made * 7 % 10, self.made), []));
                    new.address_type = writes.address_type.as_str().into();
                    self.made += 1;
                    self.put_slice(written(&new, draft, &plan));
                }
            }
            for draft in &writes.slices_to_update {
                if may_write() {
                    let base = Arc::clone(draft.existing_slice.as_ref().unwrap());
                    self.put_slice(written(&base, draft, &plan));
                }
            }
            for gone in &writes.slices_to_delete {
                if may_write() {
                    self.snapshot.slices.retain(|slice| slice.metadata.name != gone.metadata.name);
                }
            }
        }
        let gone: BTreeSet<&str> =
            plan.slices_of_unused_address_types.iter().map(|slice| &*slice.metadata.name).collect();
        self.snapshot.slices.retain(|slice| !gone.contains(&*slice.metadata.name));
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put(pods) => {
                for (index, state) in &pods {
                    self.snapshot.pods.insert_or_replace(read(*index, state));
                }
            }
            Step::Remove(pods) => pods.iter().for_each(|index| self.snapshot.pods.remove(&format!("p{index:04}"))),
            Step::Node(node, zone) => {
                let (zones, node) = (Arc::make_mut(&mut self.snapshot.zones_by_node), Text::new(&format!("n{node}")));
                match zone {
                    Some(zone) => drop(zones.insert(node, Text::new(["", "a", "b"][usize::from(zone)]))),
                    None => drop(zones.remove(&node)),
                }
            }
            Step::Service(spec, by_capacity, deleting) => {
                let mut new: Service = Service::clone(&service(&spec));
                if by_capacity {
                    let auto = json!({"service.kubernetes.io/topology-mode": "Auto"});
                    new.metadata.annotations = serde_json::from_value(auto).unwrap();
                }
                new.metadata.deletion_timestamp = deleting.then_some(Timestamp::UNIX_EPOCH);
                self.snapshot.service = Arc::new(new);
            }
            Step::Meddle(at, how, other) => self.meddle(at, how, other),
            Step::Sync(writes, remembers) => self.sync(writes, remembers)?,
            Step::Restart => self.snapshot.memory = ServiceMemory::default(),
        }
        Ok(())
    }
}

fn ratios() -> Option<ZoneCpuShares> {
    let mut capacity = ZoneCapacity::default();
    for zone in ["a", "b"] {
        capacity.add_node(&node(zone, "2"));
    }
    capacity.zone_cpu_shares()
}

fn same_drafts(some: &[SliceDraft], others: &[SliceDraft]) -> Result<(), TestCaseError> {
    prop_assert_eq!(some.len(), others.len());
    for (one, other) in some.iter().zip(others) {
        prop_assert_eq!(one.existing_slice.as_ref().map(Arc::as_ptr), other.existing_slice.as_ref().map(Arc::as_ptr));
        prop_assert_eq!(&one.endpoints, &other.endpoints);
        prop_assert_eq!(&one.ports, &other.ports);
    }
    Ok(())
}

fn same(part: &Plan, whole: &Plan) -> Result<(), TestCaseError> {
    let names = |slices: &[Arc<Slice>]| slices.iter().map(|slice| slice.metadata.name.to_string()).collect::<Vec<_>>();
    prop_assert_eq!(part.slice_writes.len(), whole.slice_writes.len());
    for (one, other) in part.slice_writes.iter().zip(&whole.slice_writes) {
        same_drafts(&one.slices_to_create, &other.slices_to_create)?;
        same_drafts(&one.slices_to_update, &other.slices_to_update)?;
        prop_assert_eq!(names(&one.slices_to_delete), names(&other.slices_to_delete));
        let rest = |writes: &SliceWrites| {
            let SliceWrites {
                address_type: kind,
                omitted_pod_messages: left_out,
                deferred_write_counts: put_off,
                events,
                sync_counts: counts,
                ..
            } = writes.clone();
            (kind, left_out, put_off, events, counts)
        };
        prop_assert_eq!(rest(one), rest(other));
    }
    prop_assert_eq!(names(&part.slices_of_unused_address_types), names(&whole.slices_of_unused_address_types));
    prop_assert_eq!(&part.slice_metadata.trigger_time, &whole.slice_metadata.trigger_time);
    prop_assert_eq!(&part.slice_metadata.labels, &whole.slice_metadata.labels);
    prop_assert_eq!(&part.memory.hint_counts, &whole.memory.hint_counts);
    prop_assert_eq!(part.memory.has_emitted_hints_enabled_event, whole.memory.has_emitted_hints_enabled_event);
    match (&part.memory.pods_in_slices, &whole.memory.pods_in_slices) {
        (None, None) => {}
        (Some(one), Some(other)) => prop_assert!(is_same(one, other), "{one:#?}\n{other:#?}"),
        (one, other) => prop_assert!(false, "{one:#?}\n{other:#?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// ENDPOINTSLICE-34.
    #[test]
    fn a_plan_from_the_changes_equals_a_plan_from_everything(
        states in prop::collection::vec(any_state(), 0..PODS),
        spec in any_spec(),
        steps in prop::collection::vec(any_step(), 1..60),
        max_endpoints in prop::sample::select(vec![1usize, 3, 10, 100]),
    ) {
        let mut world = World::new(&states, max_endpoints);
        world.snapshot.service = service(&spec);
        for step in steps {
            world.take(step)?;
        }
        // Four more syncs run without changes by other writers.
        for _ in 0..4 {
            world.sync(None, true)?;
        }
    }
}

/// Builds a Service with up-to-date slices of 100 Pods each, and a memory of the last sync.
fn settled(pods: usize) -> World {
    let mut world = World::new(&[], 100);
    world.snapshot.zones_by_node = snapshot([], 100).zones_by_node;
    world.snapshot.pods = (0..pods).map(|index| Arc::new(pod(index))).collect();
    for _ in 0..3 {
        world.sync(None, true).unwrap();
    }
    assert_eq!(world.snapshot.slices.len(), pods / 100);
    world
}

fn change(pods: &mut NameSortedPods, index: usize, ready: bool) {
    let mut changed = pod(index);
    changed.is_ready = ready;
    pods.insert_or_replace(Arc::new(changed));
}

/// ENDPOINTSLICE-34.
#[test]
fn a_change_of_one_pod_considers_only_the_pods_of_its_slice() {
    for pods in [500, 5_000] {
        let mut world = settled(pods);
        let considered = |world: &World| {
            PodsAndSlicesToCompare::with_changes_since_last_sync(
                &world.snapshot,
                AddressType::Ipv4,
                &world.snapshot.slices,
            )
            .unwrap()
            .compared_pod_and_slice_counts()
        };
        assert_eq!(considered(&world), (0, 0));
        change(&mut world.snapshot.pods, 123, false);
        assert_eq!(considered(&world), (100, 1), "{pods} Pods");
        world.sync(None, true).unwrap();
        assert_eq!(considered(&world), (100, 1), "the slice that was written is compared once");
        change(&mut world.snapshot.pods, 456, false);
        assert_eq!(considered(&world), (200, 2));
        world.sync(None, true).unwrap();
        world.snapshot.pods.remove("p0456");
        assert_eq!(considered(&world), (99, 1));
        world.sync(None, true).unwrap();
        world.sync(None, true).unwrap();
        assert_eq!((considered(&world), world.parts), ((0, 0), 6));
    }
}

/// ENDPOINTSLICE-34.
#[test]
fn other_changes_make_a_sync_consider_everything() {
    let is_part = |world: &World| {
        PodsAndSlicesToCompare::with_changes_since_last_sync(&world.snapshot, AddressType::Ipv4, &world.snapshot.slices)
            .is_some()
    };
    let mut world = settled(300);
    assert!(is_part(&world));
    world.take(Step::Node(0, Some(2))).unwrap();
    assert!(!is_part(&world), "a Node has another zone");
    world.sync(None, true).unwrap();
    assert!(is_part(&world));
    world.snapshot.service = service(&json!({}));
    assert!(!is_part(&world), "the Service changed");
    world.sync(None, true).unwrap();
    assert!(is_part(&world));
    let mut elsewhere = pod(7);
    elsewhere.node_name = "nowhere".into();
    world.snapshot.pods.insert_or_replace(Arc::new(elsewhere));
    world.sync(None, true).unwrap();
    assert!(!is_part(&world), "a Pod was omitted");
    change(&mut world.snapshot.pods, 7, true);
    world.sync(None, true).unwrap();
    assert!(is_part(&world));
    world.take(Step::Restart).unwrap();
    assert!(!is_part(&world));
    let few = Snapshot { min_pods_to_record_slices: 301, ..world.snapshot.clone() };
    assert!(decide(&few).memory.pods_in_slices.is_none());
}
