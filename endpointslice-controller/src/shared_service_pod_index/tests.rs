//! The final endpoints of Services do not depend on the order of events of Services, Pods and Nodes.
//!
//! Events of one object keep their order, and states may be skipped, as after a relist. Events of different objects and syncs
//! come in any order. A Service is synced only if an event or a failed sync has enqueued it. Therefore, if a handler does not
//! enqueue an affected Service, a wrong endpoint remains at the end.

use std::collections::BTreeMap;

use common::{meta::ResourceVersion, object::Object};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    memory::ServiceMemory,
    objects::{MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER, Node, SERVICE_NAME_LABEL, Slice},
    plan::{DeferredWriteCounts, SliceDraft, SliceWrites},
    slices::decide::{MAX_NEW_SLICE_PORTS, Plan, Snapshot, decide},
    topology::NodeTopology,
};

const NS: &str = "ns";
const SERVICES: usize = 2;
const PODS: usize = 5;
const NODES: usize = 3;

/// The successive states of one object; `None` where the object does not exist.
type History = Vec<Option<Value>>;

/// The delivery of one event, optionally followed by a sync.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Selects the object of the event among the objects that have states left to deliver.
    object: prop::sample::Index,
    /// Whether the state is skipped; the last state of an object is always delivered.
    is_missed: bool,
    /// Selects the enqueued Service that is synced after the event; `None` for no sync.
    sync: Option<prop::sample::Index>,
}

/// The order in which the events of all histories are delivered, and the syncs between them.
#[derive(Clone, Debug)]
struct Order {
    steps: Vec<Step>,
    max_endpoints: usize,
}

fn any_service(at: usize) -> impl Strategy<Value = Value> {
    let selector = prop::sample::select(vec![json!({"app": "web"}), json!({"app": "db"}), json!({"tier": "a"})]);
    let families = prop::sample::select(vec![json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])]);
    let ports = prop::sample::select(vec![
        json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]),
        json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]),
        json!([{"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "targetPort": "http", "protocol": "TCP"}]),
    ]);
    let distribution = prop::sample::select(vec![json!(null), json!("PreferSameZone"), json!("PreferSameNode")]);
    (selector, families, ports, distribution, any::<bool>(), any::<bool>()).prop_map(
        move |(selector, families, ports, distribution, by_capacity, publishes)| {
            let annotations =
                if by_capacity { json!({"service.kubernetes.io/topology-mode": "Auto"}) } else { json!({}) };
            json!({"metadata": {"name": format!("s{at}"), "namespace": NS, "annotations": annotations},
                "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "selector": selector, "ipFamilies": families,
                    "ports": ports, "trafficDistribution": distribution, "publishNotReadyAddresses": publishes}})
        },
    )
}

fn any_pod(at: usize) -> impl Strategy<Value = Value> {
    let labels = prop::sample::select(vec![
        json!({"app": "web"}),
        json!({"app": "web", "tier": "a"}),
        json!({"app": "db", "tier": "a"}),
        json!({}),
    ]);
    let number = prop::sample::select(vec![json!(null), json!(8080), json!(9090)]);
    let phase = prop::sample::select(vec!["Pending", "Running", "Running", "Succeeded"]);
    (labels, 0..NODES, number, phase, any::<[bool; 3]>(), 0..3u8).prop_map(
        move |(labels, node, number, phase, [ready, deleting, is_named], address)| {
            let ports = if number.is_null() { json!([]) } else { json!([{"name": "http", "containerPort": number}]) };
            let ip = format!("10.0.{address}.{at}");
            let ips =
                if address == 0 { json!([]) } else { json!([{"ip": ip}, {"ip": format!("fd00::{address}:{at}")}]) };
            json!({"metadata": {"name": format!("p{at}"), "namespace": NS, "labels": labels,
                    "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z")},
                "spec": {"nodeName": format!("n{node}"), "containers": [{"name": "c", "ports": ports}],
                    "hostname": is_named.then_some("host"), "subdomain": is_named.then_some("s0")},
                "status": {"phase": phase, "podIP": if address == 0 { "" } else { ip.as_str() }, "podIPs": ips,
                    "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
        },
    )
}

fn any_node(at: usize) -> impl Strategy<Value = Value> {
    (prop::sample::select(vec!["", "a", "b"]), any::<bool>()).prop_map(move |(zone, ready)| {
        json!({"metadata": {"name": format!("n{at}"), "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
    })
}

/// Generates one to four states of an object, some of them `None`.
fn history(state: impl Strategy<Value = Value>) -> impl Strategy<Value = History> {
    prop::collection::vec(prop::option::weighted(0.85, state), 1..5)
}

/// Generates a history after which the Node exists. Endpoints on a deleted Node would depend on the time of the last sync.
fn history_of_node(at: usize) -> impl Strategy<Value = History> {
    (history(any_node(at)), any_node(at)).prop_map(|(mut history, last)| {
        history.push(Some(last));
        history
    })
}

/// Generates the histories of all objects: Services, then Pods, then Nodes.
fn any_histories() -> impl Strategy<Value = Vec<History>> {
    let services: Vec<_> = (0..SERVICES).map(|at| history(any_service(at)).boxed()).collect();
    let pods: Vec<_> = (0..PODS).map(|at| history(any_pod(at)).boxed()).collect();
    let nodes: Vec<_> = (0..NODES).map(|at| history_of_node(at).boxed()).collect();
    [services, pods, nodes].concat().prop_map(fixed)
}

/// Gives each re-created object a new UID, and all states of a Pod the same `spec`, because the `spec` of a Pod is immutable.
fn fixed(mut histories: Vec<History>) -> Vec<History> {
    for (at, history) in histories.iter_mut().enumerate() {
        let is_pod = (SERVICES..SERVICES + PODS).contains(&at);
        let (mut lives, mut spec) = (0, None);
        for state in history {
            let Some(state) = state else {
                (lives, spec) = (lives + 1, None);
                continue;
            };
            state["metadata"]["uid"] = json!(format!("uid-{at}-{lives}"));
            if is_pod {
                state["spec"] = spec.get_or_insert_with(|| state["spec"].clone()).clone();
            }
        }
    }
    histories
}

fn any_order() -> impl Strategy<Value = Order> {
    let step =
        (any::<prop::sample::Index>(), prop::bool::weighted(0.3), prop::option::of(any::<prop::sample::Index>()))
            .prop_map(|(object, is_missed, sync)| Step { object, is_missed, sync });
    // A history has at most five states, so this number of steps delivers all histories.
    let steps = prop::collection::vec(step, 5 * (SERVICES + PODS + NODES));
    (steps, prop::sample::select(vec![1usize, 2, 100]))
        .prop_map(|(steps, max_endpoints)| Order { steps, max_endpoints })
}

fn read<T: Object>(value: &Value) -> T {
    let mut object: T = serde_json::from_value(value.clone()).unwrap();
    object.drop_unneeded_fields();
    object
}

/// The caches and indexes of one process, and the slices on the server.
#[derive(Default)]
struct World {
    services: Store<Service>,
    pods: Store<Pod>,
    nodes: Arc<Store<Node>>,
    topology: Option<NodeTopology>,
    index: ServicePodIndex,
    memories: BTreeMap<NamespacedName, ServiceMemory>,
    slices: BTreeMap<String, Arc<Slice>>,
    queue: BTreeSet<NamespacedName>,
    max_endpoints: usize,
    /// The number of slices created so far, from which the name of the next slice is made.
    created: usize,
    versions: u64,
}

impl World {
    fn new(max_endpoints: usize) -> Self {
        let world = Self { max_endpoints, ..Self::default() };
        Self { topology: Some(NodeTopology::new(Arc::clone(&world.nodes))), ..world }
    }

    fn topology(&self) -> &NodeTopology {
        self.topology.as_ref().unwrap()
    }

    /// Delivers a new state of the object at position `at` to the caches and handlers.
    fn take(&mut self, at: usize, state: Option<&Value>) {
        self.versions += 1;
        let version = self.versions.to_string();
        let mut state = state.cloned();
        if let Some(state) = &mut state {
            state["metadata"]["resourceVersion"] = json!(version);
        }
        let version = ResourceVersion::parse(&version);
        if at < SERVICES {
            let name = format!("s{at}");
            for event in changed(&self.services, &name, state.as_ref(), version) {
                on_service(&mut self.index, &event);
                let key = event.meta().key();
                if let CacheEvent::Deleted(service) = &event {
                    let uid = &service.metadata.uid;
                    self.memories.remove(&key);
                    // Deletes the slices of the deleted Service, in place of the garbage collector.
                    self.slices.retain(|_, slice| slice.metadata.owners.iter().all(|owner| owner.uid != *uid));
                }
                self.queue.insert(key);
            }
        } else if at < SERVICES + PODS {
            // The watch has a field selector that excludes Pods without an address.
            let state = state.filter(|pod| pod["status"]["podIP"] != "");
            for event in changed(&self.pods, &format!("p{}", at - SERVICES), state.as_ref(), version) {
                self.queue.extend(on_pod(&mut self.index, &self.pods, &event));
            }
        } else {
            let nodes = Arc::clone(&self.nodes);
            for event in changed(&nodes, &format!("n{}", at - SERVICES - PODS), state.as_ref(), version) {
                self.topology().on_node(&event, ChangeOrigin::Watch);
            }
            let nodes = self.topology().take_nodes_with_new_zone();
            let moved = self.index.selectors_of_objects_where(|pod| nodes.contains(&pod.node_name));
            self.queue.extend(moved);
        }
    }

    /// Syncs an enqueued Service. Returns true if the sync wrote slices or the Service does not exist.
    fn sync(&mut self, key: &NamespacedName) -> bool {
        self.queue.remove(key);
        let Ok(Some(service)) = self.services.get(&key.namespace, &key.name) else { return true };
        let mut snapshot = Snapshot {
            memory: self.memories.get(key).cloned().unwrap_or_default(),
            service: Arc::clone(&service),
            pods: NameSortedPods::default(),
            zones_by_node: self.topology().zones_by_node(),
            slices: Vec::new(),
            zone_cpu_shares: None,
            max_endpoints_per_slice: self.max_endpoints,
            max_new_slice_ports: MAX_NEW_SLICE_PORTS,
            min_pods_to_record_slices: 0,
        };
        if service.has_applicable_selector() {
            let meta = &service.metadata;
            let Ok(Some(pods)) = self.index.selected_objects(&meta.namespace, &meta.name, &service.spec.selector)
            else {
                panic!("the index does not contain {key}")
            };
            snapshot.pods = pods;
            let is_ours = |slice: &&Arc<Slice>| slice.service_name() == Some(&*key.name);
            snapshot.slices = self.slices.values().filter(is_ours).cloned().collect();
            if service.has_topology_hints_enabled() {
                snapshot.zone_cpu_shares = self.topology().zone_cpu_shares().map(Arc::new);
            }
        }
        let plan = decide(&snapshot);
        let memory = ServiceMemory { pods_in_slices: None, ..snapshot.memory.clone() };
        assert_same_writes(&plan, &decide(&Snapshot { memory, ..snapshot }));
        self.memories.insert(key.clone(), plan.memory.clone());
        let put_off =
            plan.slice_writes.iter().any(|writes| writes.deferred_write_counts != DeferredWriteCounts::default());
        if put_off || plan.slice_writes.iter().any(|writes| !writes.omitted_pod_messages.is_empty()) {
            self.queue.insert(key.clone());
        }
        self.write(&service, &plan);
        !plan.slices_of_unused_address_types.is_empty() || !plan.slice_writes.iter().all(SliceWrites::is_empty)
    }

    /// Applies the writes of a plan to the slices of the server.
    fn write(&mut self, service: &Service, plan: &Plan) {
        for writes in &plan.slice_writes {
            for draft in writes.slices_to_create.iter().chain(&writes.slices_to_update) {
                let name = match &draft.existing_slice {
                    Some(base) => base.metadata.name.to_string(),
                    None => {
                        self.created += 1;
                        format!("{}-{}", service.metadata.name, self.created)
                    }
                };
                let slice = stored(&name, writes.address_type.as_str(), service, plan, draft);
                self.slices.insert(name, Arc::new(slice));
            }
        }
        let deleted = plan
            .slice_writes
            .iter()
            .flat_map(|writes| &writes.slices_to_delete)
            .chain(&plan.slices_of_unused_address_types);
        for slice in deleted {
            assert!(self.slices.remove(&*slice.metadata.name).is_some(), "{} is deleted twice", slice.metadata.name);
        }
    }

    /// Syncs the enqueued Services until no sync writes. Panics if this takes more than 20 iterations.
    fn settle(&mut self) {
        for _ in 0..20 {
            let enqueued: Vec<NamespacedName> = self.queue.iter().cloned().collect();
            let wrote = enqueued.iter().filter(|key| self.sync(key)).count();
            if wrote == 0 {
                assert!(self.queue.is_empty(), "all Nodes exist, but {:?} is still enqueued", self.queue);
                return;
            }
        }
        panic!("the syncs do not settle: {:?}", self.queue);
    }

    /// Returns the endpoints and ports for each Service and address type, however they are distributed over slices.
    ///
    /// An address type with only empty slices maps to an empty list. The number of empty slices is ignored, because a sync does
    /// not delete existing empty slices, as upstream.
    fn endpoints(&self) -> BTreeMap<(String, String), Vec<(String, Value)>> {
        let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for slice in self.slices.values() {
            let service = slice.service_name().unwrap_or_default();
            let known = self.services.get_decoded(NS, service);
            let by_capacity = known.is_some_and(|service| service.has_topology_hints_enabled());
            let mut ports: Vec<String> = slice.ports.iter().map(|port| json!(port).to_string()).collect();
            ports.sort();
            let endpoints = slice.endpoints.iter().cloned().map(|mut endpoint| {
                // Hints by capacity depend on the order of events, because a sync changes hints only if they are too uneven.
                if by_capacity {
                    endpoint.hints = None;
                }
                (ports.join(" "), json!(endpoint))
            });
            out.entry((service.to_owned(), slice.address_type.to_string())).or_default().extend(endpoints);
        }
        for endpoints in out.values_mut() {
            endpoints.sort_by_cached_key(|(ports, endpoint)| (ports.clone(), endpoint.to_string()));
        }
        out
    }
}

/// Panics if two plans have different writes: `part` was decided from the changes since the last sync, `whole` from all
/// Pods.
fn assert_same_writes(part: &Plan, whole: &Plan) {
    let written = |plan: &Plan| {
        let drafts =
            plan.slice_writes.iter().flat_map(|writes| writes.slices_to_create.iter().chain(&writes.slices_to_update));
        let draft = |draft: &SliceDraft| {
            json!([draft.existing_slice.as_ref().map(|base| &*base.metadata.name), draft.endpoints, draft.ports])
        };
        let deleted = plan
            .slice_writes
            .iter()
            .flat_map(|writes| &writes.slices_to_delete)
            .map(|slice| json!(&*slice.metadata.name));
        let left_out = plan.slice_writes.iter().map(|writes| json!(writes.omitted_pod_messages));
        drafts.map(draft).chain(deleted).chain(left_out).collect::<Vec<_>>()
    };
    assert_eq!(written(part), written(whole));
}

/// Stores a state of the named object in a cache, or removes the object for `None`. Returns the events of this object.
fn changed<T: Object + Clone>(
    store: &Store<T>,
    name: &str,
    state: Option<&Value>,
    version: ResourceVersion,
) -> Vec<CacheEvent<T>> {
    let others = store.all_decoded().into_iter().filter(|object| *object.meta().name != *name);
    let objects = others.map(|object| T::clone(&object)).chain(state.map(read)).collect();
    let mut events = store.replace_objects_for_tests(objects, version);
    // Refilling the store emits an event for every object.
    events.retain(|event| *event.meta().name == *name);
    events
}

/// Builds the slice that the server stores when a draft is written.
fn stored(name: &str, kind: &str, service: &Service, plan: &Plan, draft: &SliceDraft) -> Slice {
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": service.metadata.name,
        "uid": service.metadata.uid, "controller": true});
    let mut slice: Slice = read(
        &json!({"metadata": {"name": name, "namespace": NS, "uid": name, "ownerReferences": [owner],
        "labels": {SERVICE_NAME_LABEL: service.metadata.name, MANAGED_BY_LABEL: MANAGED_BY_SLICE_CONTROLLER}}, "addressType": kind}),
    );
    slice.metadata.labels = plan.slice_metadata.labels.clone();
    slice.endpoints.clone_from(&draft.endpoints);
    slice.ports = Arc::clone(&draft.ports);
    slice
}

/// Builds a world that has received only the last state of each object and has synced all enqueued Services.
fn of_last_states(histories: &[History], max_endpoints: usize) -> World {
    let mut world = World::new(max_endpoints);
    for (at, history) in histories.iter().enumerate().rev() {
        world.take(at, history.last().unwrap().as_ref());
    }
    world.settle();
    world
}

fn in_order(histories: &[History], order: &Order) -> World {
    let mut world = World::new(order.max_endpoints);
    let mut seen = vec![0; histories.len()];
    for step in &order.steps {
        let left: Vec<usize> = (0..histories.len()).filter(|at| seen[*at] < histories[*at].len()).collect();
        if left.is_empty() {
            break;
        }
        let at = left[step.object.index(left.len())];
        let state = &histories[at][seen[at]];
        seen[at] += 1;
        if !step.is_missed || seen[at] == histories[at].len() {
            world.take(at, state.as_ref());
        }
        let enqueued: Vec<NamespacedName> = world.queue.iter().cloned().collect();
        if let Some(which) = step.sync.filter(|_| !enqueued.is_empty()) {
            world.sync(&enqueued[which.index(enqueued.len())]);
        }
    }
    assert!(seen.iter().zip(histories).all(|(seen, history)| *seen == history.len()), "the order is too short");
    world.settle();
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// ENDPOINTSLICE-13.
    #[test]
    fn final_endpoints_do_not_depend_on_the_order_of_events(
        histories in any_histories(), orders in prop::collection::vec(any_order(), 3),
    ) {
        for order in &orders {
            let wanted = of_last_states(&histories, order.max_endpoints).endpoints();
            prop_assert_eq!(in_order(&histories, order).endpoints(), wanted);
        }
    }
}

/// One fixed order of events from the property test `final_endpoints_do_not_depend_on_the_order_of_events`.
/// ENDPOINTSLICE-12, ENDPOINTSLICE-85.
#[test]
fn a_zone_label_added_to_a_node_later_reaches_the_endpoints() {
    let pod = json!({"metadata": {"name": "p0", "namespace": NS, "uid": "p", "labels": {"app": "web"}},
        "spec": {"nodeName": "n0"}, "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
    let service = json!({"metadata": {"name": "s0", "namespace": NS, "uid": "s"}, "spec": {"type": "ClusterIP",
        "selector": {"app": "web"}, "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
    let node = |labels: Value| json!({"metadata": {"name": "n0", "uid": "n", "labels": labels}});
    let mut world = World::new(100);
    let zone = |world: &World| world.endpoints()[&("s0".to_owned(), "IPv4".to_owned())][0].1["zone"].clone();
    world.take(0, Some(&service));
    world.take(SERVICES, Some(&pod));
    world.take(SERVICES + PODS, Some(&node(json!({}))));
    world.settle();
    assert_eq!(zone(&world), Value::Null);
    world.take(SERVICES + PODS, Some(&node(json!({"topology.kubernetes.io/zone": "a"}))));
    world.settle();
    assert_eq!(zone(&world), "a");
}
