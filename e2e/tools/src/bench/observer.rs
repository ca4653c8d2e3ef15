//! An observer of a whole cluster, with a watch for each kind. It knows whether all objects are as their specs ask for, and how
//! long the controllers take to react.
//!
//! Each event takes constant time, so that observing tens of thousands of Pods does not slow down the measured processes.

mod reactions;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    api::Api,
    clock::{Clock, Instant},
    gate::{WriteGateKeeper, closed_write_gate},
    informer::{AnyInformer as _, CacheEventHandler, Informer, InformerConfig},
    map::{HashMap, HashSet},
    meta::Uid,
    object::Resource,
    store::CacheEvent,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::served;
use crate::{cluster::Cluster, suite::resources};
use reactions::{About, Reactions, Rule};
use watched::Watched;
pub(super) use watched::{ENDS, SERVED};

const DEPLOYMENT: &str = "deployment-controller";
const REPLICA_SET: &str = "replicaset-controller";
const STATEFUL_SET: &str = "statefulset-controller";
const DAEMON_SET: &str = "daemonset-controller";
const JOB: &str = "job-controller";
const CRON_JOB: &str = "cronjob-controller";
const ENDPOINT_SLICE: &str = "endpointslice-controller";
const GARBAGE: &str = "gc-controller";
const NODE: &str = "node-lifecycle-controller";

/// The observed kinds, besides EndpointSlices.
const KINDS: [Resource; 7] = [
    resources::DEPLOYMENTS,
    resources::REPLICA_SETS,
    resources::STATEFUL_SETS,
    resources::DAEMON_SETS,
    resources::JOBS,
    resources::NODES,
    resources::PODS,
];

/// The controller that writes the status of a kind of owner, with the rules of that status.
fn keeper_of(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" => Some(DEPLOYMENT),
        "ReplicaSet" => Some(REPLICA_SET),
        "StatefulSet" => Some(STATEFUL_SET),
        "DaemonSet" => Some(DAEMON_SET),
        _ => None,
    }
}

/// A dependent whose deletion by the garbage collector is measured.
#[derive(Clone, Debug)]
struct Dependent {
    uid: Uid,
    is_deleting: bool,
}

/// The state that the watches have shown.
#[derive(Default)]
struct State {
    /// Only objects in namespaces with this prefix count, and all Nodes.
    prefix: String,
    /// The number of objects of each resource.
    counts: BTreeMap<Resource, usize>,
    /// Objects that are not as their specs ask for.
    unsettled: BTreeMap<Uid, String>,
    /// Generations that the bench has written. An object is not settled before its watch shows its generation.
    expected: HashMap<Uid, i64>,
    generations: HashMap<Uid, i64>,
    /// Terminating Pods.
    terminating: usize,
    /// Pods that belong to no DaemonSet and are not terminating, by node.
    movable: BTreeMap<String, usize>,
    /// Ready dependents by owner: Pods, or ready Pods of ReplicaSets.
    ready: HashMap<Uid, i64>,
    /// Ready Pods in the status of each owner.
    told: HashMap<Uid, i64>,
    dependents: HashMap<Uid, Vec<Dependent>>,
    /// Dependents whose owner is gone and that are not terminating yet.
    orphans: HashSet<Uid>,
    /// CronJobs with a Job that was due after `firing_from`.
    fired: HashSet<Uid>,
    firing_from: Option<Timestamp>,
    served: served::State,
    reactions: Reactions,
}

/// Observes a cluster until it is dropped.
pub(super) struct Observer {
    state: Arc<Mutex<State>>,
    _objects: Vec<Informer<Watched>>,
    _slices: Informer<served::Slice>,
    /// Keeps the gate of the client open.
    _keeper: WriteGateKeeper,
}

impl Observer {
    /// Starts to observe all Nodes, and the objects of all namespaces with this prefix.
    pub(super) async fn follow(cluster: &Cluster, prefix: &str) -> Self {
        let clock = cluster.clock().clone();
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(cluster.client().clone(), clock.clone(), gate, super::NAME);
        let state = Arc::new(Mutex::new(State { prefix: prefix.to_owned(), ..State::default() }));
        let mut objects = Vec::new();
        for resource in KINDS {
            let config = InformerConfig { resource: Some(resource.clone()), ..InformerConfig::default() };
            objects.push(Informer::start(api.clone(), config, vec![object_handler(&state, resource, clock.clone())]));
        }
        let slices = Informer::start(api, InformerConfig::default(), vec![slice_handler(&state, clock)]);
        for informer in &objects {
            informer.wait_until_synced().await;
        }
        slices.wait_until_synced().await;
        Self { state, _objects: objects, _slices: slices, _keeper: keeper }
    }

    /// Records an object that the bench has written. It is not settled before the watch shows this state or a later one.
    /// Objects of other kinds are ignored.
    pub(super) fn expect(&self, resource: &Resource, answer: &Value) {
        if !KINDS.iter().any(|kind| kind.plural() == resource.plural()) {
            return;
        }
        let (Some(uid), Some(generation)) =
            (answer["metadata"]["uid"].as_str(), answer["metadata"]["generation"].as_i64())
        else {
            return;
        };
        self.state.lock().expect(&Uid::new(uid), generation, &answer["metadata"]["name"]);
    }

    /// Whether every object is as its spec asks for, no Pod is terminating, and the slices show all ready Pods.
    pub(super) fn is_settled(&self) -> bool {
        let state = self.state.lock();
        let is_quiet = state.unsettled.is_empty() && state.orphans.is_empty() && state.terminating == 0;
        is_quiet && state.served.is_complete()
    }

    /// The number of objects of a kind.
    pub(super) fn count(&self, resource: Resource) -> usize {
        self.state.lock().counts.get(&resource).copied().unwrap_or(0)
    }

    /// Whether only the Nodes are left.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let nothing = state.counts.iter().all(|(resource, count)| *count == 0 || *resource == resources::NODES);
        nothing && state.served.is_empty()
    }

    /// The number of Pods on these nodes that have to be evicted and are not terminating yet.
    pub(super) fn movable_pods(&self, nodes: &BTreeSet<String>) -> usize {
        let state = self.state.lock();
        nodes.iter().filter_map(|node| state.movable.get(node)).sum()
    }

    /// The number of CronJobs that have fired since the time of [`Self::count_firing_from`].
    pub(super) fn fired(&self) -> usize {
        self.state.lock().fired.len()
    }

    /// Counts the CronJobs with a Job that was due after this time. The delay is measured for these Jobs only, because others
    /// make up for times before the change of their CronJob.
    pub(super) fn count_firing_from(&self, time: Timestamp) {
        let mut state = self.state.lock();
        state.fired.clear();
        state.firing_from = Some(time);
    }

    /// The latencies since the last call, by controller.
    pub(super) fn take_reactions(&self) -> BTreeMap<&'static str, Vec<Duration>> {
        let mut state = self.state.lock();
        let slices = state.served.take_latencies();
        let mut all = state.reactions.take();
        if !slices.is_empty() {
            all.insert(ENDPOINT_SLICE, slices);
        }
        all
    }

    /// The missing conditions, in a few words.
    pub(super) fn describe(&self) -> String {
        let state = self.state.lock();
        let counts: Vec<String> =
            state.counts.iter().map(|(resource, count)| format!("{count} {}", resource.plural())).collect();
        let some: Vec<&str> = state.unsettled.values().take(3).map(String::as_str).collect();
        format!(
            "{}; {} objects are not settled ({}), {} Pods are terminating; slices: {}",
            counts.join(", "),
            state.unsettled.len(),
            some.join(", "),
            state.terminating,
            state.served.describe()
        )
    }
}

fn object_handler(state: &Arc<Mutex<State>>, resource: Resource, clock: Clock) -> CacheEventHandler<Watched> {
    let state = Arc::clone(state);
    Box::new(move |event, _| {
        let (old, new) = match event {
            CacheEvent::Added(new) => (None, Some(&**new)),
            CacheEvent::Updated { old, new } => (Some(&**old), Some(&**new)),
            CacheEvent::Deleted(old) => (Some(&**old), None),
            CacheEvent::Unreadable(_) => return,
        };
        let mut state = state.lock();
        if resource.is_namespaced() && !event.meta().namespace.starts_with(&*state.prefix) {
            return;
        }
        state.object(&resource, old, new, &clock);
    })
}

fn slice_handler(state: &Arc<Mutex<State>>, clock: Clock) -> CacheEventHandler<served::Slice> {
    let state = Arc::clone(state);
    Box::new(move |event, _| {
        let mut state = state.lock();
        if event.meta().namespace.starts_with(&*state.prefix) {
            let count = state.counts.entry(resources::ENDPOINT_SLICES).or_default();
            match event {
                CacheEvent::Added(_) => *count += 1,
                CacheEvent::Deleted(_) => *count = count.saturating_sub(1),
                CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => {}
            }
            state.served.slice_event(event, clock.monotonic_now());
        }
    })
}

impl State {
    fn expect(&mut self, uid: &Uid, generation: i64, name: &Value) {
        self.expected.insert(uid.clone(), generation);
        if self.generations.get(uid).is_none_or(|seen| *seen < generation) {
            self.unsettled.insert(uid.clone(), name.as_str().unwrap_or_default().to_owned());
        }
    }

    fn object(&mut self, resource: &Resource, old: Option<&Watched>, new: Option<&Watched>, clock: &Clock) {
        let Some(any) = new.or(old) else { return };
        let now = clock.monotonic_now();
        let count = self.counts.entry(resource.clone()).or_default();
        match (old, new) {
            (None, Some(_)) => *count += 1,
            (Some(_), None) => *count = count.saturating_sub(1),
            _ => {}
        }
        self.settle(resource, any, new);
        self.dependent(any, new, now);
        match resource.kind() {
            "Pod" => self.pod(old, new, now),
            "Node" => self.node(any, new, now),
            "Job" => self.job(any, old, new, clock),
            kind => self.workload(kind, old, new, now),
        }
        if new.is_none() {
            self.gone(&any.metadata.uid, now);
        }
    }

    /// Whether an object is as its spec asks for.
    fn settle(&mut self, resource: &Resource, any: &Watched, new: Option<&Watched>) {
        let meta = &any.metadata;
        let Some(new) = new else {
            self.unsettled.remove(&meta.uid);
            self.expected.remove(&meta.uid);
            self.generations.remove(&meta.uid);
            return;
        };
        if matches!(resource.kind(), "Pod" | "Node") {
            return;
        }
        self.generations.insert(meta.uid.clone(), meta.generation);
        let is_expected = self.expected.get(&meta.uid).is_none_or(|wanted| meta.generation >= *wanted);
        if is_expected && new.is_settled(resource.kind()) {
            self.unsettled.remove(&meta.uid);
        } else {
            self.unsettled.insert(meta.uid.clone(), format!("{} {}", resource.kind(), meta.name));
        }
    }

    /// Records an object as a dependent, which the garbage collector deletes after its owner is gone.
    fn dependent(&mut self, any: &Watched, new: Option<&Watched>, now: Instant) {
        let Some(owner) = any.metadata.controller() else { return };
        let (uid, is_deleting) = (&any.metadata.uid, new.is_none_or(|new| new.metadata.is_deleting()));
        let rule = Rule { controller: GARBAGE, about: About::Orphan };
        if is_deleting {
            self.orphans.remove(uid);
            self.reactions.observe(rule, uid, false, true, now);
        }
        let all = self.dependents.entry(owner.uid.clone()).or_default();
        match (all.iter_mut().find(|known| known.uid == *uid), new) {
            (Some(known), Some(_)) => known.is_deleting = is_deleting,
            (None, Some(_)) => all.push(Dependent { uid: uid.clone(), is_deleting }),
            (_, None) => all.retain(|known| known.uid != *uid),
        }
        if all.is_empty() {
            self.dependents.remove(&owner.uid);
        }
    }

    /// Handles a deleted object: its dependents have to be deleted.
    fn gone(&mut self, uid: &Uid, now: Instant) {
        let rule = Rule { controller: GARBAGE, about: About::Orphan };
        for dependent in self.dependents.remove(uid).into_iter().flatten() {
            if dependent.is_deleting {
                // The watch of the dependents was faster.
                self.reactions.record(GARBAGE, Duration::ZERO);
            } else {
                self.reactions.observe(rule, &dependent.uid, true, false, now);
                self.orphans.insert(dependent.uid);
            }
        }
        self.ready.remove(uid);
        self.told.remove(uid);
    }

    fn pod(&mut self, old: Option<&Watched>, new: Option<&Watched>, now: Instant) {
        let Some(any) = new.or(old) else { return };
        let is_terminating = |pod: Option<&Watched>| pod.is_some_and(|pod| pod.metadata.is_deleting());
        self.terminating += usize::from(is_terminating(new));
        self.terminating = self.terminating.saturating_sub(usize::from(is_terminating(old)));
        for (pod, is_new) in [(old, false), (new, true)] {
            let Some(pod) = pod.filter(|pod| pod.is_movable()) else { continue };
            let count = self.movable.entry(pod.spec.node_name.to_string()).or_default();
            *count = if is_new { *count + 1 } else { count.saturating_sub(1) };
        }
        self.served.pod(&any.metadata.name, new.is_some_and(Watched::is_served), now);
        if let Some(owner) = any.metadata.controller()
            && let Some(controller) = keeper_of(&owner.kind)
        {
            let counts = |pod: Option<&Watched>| i64::from(pod.is_some_and(|pod| pod.counts_as_ready(&owner.kind)));
            self.ready_changed(controller, &owner.uid, counts(new) - counts(old), now);
        }
        let rule = Rule { controller: JOB, about: About::FinishedPod };
        match new {
            Some(pod) if !pod.metadata.is_deleting() => {
                self.reactions.observe(rule, &any.metadata.uid, pod.awaits_counting(), false, now);
            }
            _ => self.reactions.forget(rule, &any.metadata.uid),
        }
    }

    /// Handles a change of the number of ready dependents of an owner.
    fn ready_changed(&mut self, controller: &'static str, owner: &Uid, change: i64, now: Instant) {
        if change != 0 {
            let ready = self.ready.entry(owner.clone()).or_default();
            *ready += change;
            self.compare_ready(controller, owner, false, now);
        }
    }

    fn compare_ready(&mut self, controller: &'static str, owner: &Uid, is_answer: bool, now: Instant) {
        let rule = Rule { controller, about: About::ReadyPods };
        match self.told.get(owner) {
            Some(told) => {
                let disagrees = *told != self.ready.get(owner).copied().unwrap_or(0);
                self.reactions.observe(rule, owner, disagrees, is_answer, now);
            }
            // A deleted owner is not counted.
            None => self.reactions.forget(rule, owner),
        }
    }

    fn workload(&mut self, kind: &str, old: Option<&Watched>, new: Option<&Watched>, now: Instant) {
        let (Some(any), Some(controller)) = (new.or(old), keeper_of(kind)) else { return };
        let uid = &any.metadata.uid;
        let generation = Rule { controller, about: About::Generation };
        let ready_in = |set: Option<&Watched>| set.map_or(0, Watched::ready_in_status);
        if kind == "ReplicaSet"
            && let Some(owner) = any.metadata.controller()
        {
            self.ready_changed(DEPLOYMENT, &owner.uid, ready_in(new) - ready_in(old), now);
        }
        match new.filter(|new| !new.metadata.is_deleting()) {
            Some(new) => {
                let is_behind = new.status.observed_generation < new.metadata.generation;
                self.reactions.observe(generation, uid, is_behind, false, now);
                self.told.insert(uid.clone(), new.ready_in_status());
                self.compare_ready(controller, uid, ready_in(old) != new.ready_in_status(), now);
            }
            None => {
                self.reactions.forget(generation, uid);
                self.reactions.forget(Rule { controller, about: About::ReadyPods }, uid);
                self.told.remove(uid);
            }
        }
    }

    fn job(&mut self, any: &Watched, old: Option<&Watched>, new: Option<&Watched>, clock: &Clock) {
        let rule = Rule { controller: JOB, about: About::Start };
        match new {
            Some(job) if !job.metadata.is_deleting() => {
                let has_not_started = job.status.start_time.is_none();
                self.reactions.observe(rule, &any.metadata.uid, has_not_started, false, clock.monotonic_now());
            }
            _ => self.reactions.forget(rule, &any.metadata.uid),
        }
        if old.is_none()
            && let Some(owner) = any.metadata.controller().filter(|owner| owner.kind == "CronJob")
            && let Some(due) = any.due().filter(|due| self.firing_from.is_some_and(|from| *due > from))
        {
            self.fired.insert(owner.uid.clone());
            let late = Duration::try_from(clock.now().duration_since(due)).unwrap_or_default();
            self.reactions.record(CRON_JOB, late);
        }
    }

    fn node(&mut self, any: &Watched, new: Option<&Watched>, now: Instant) {
        let rule = Rule { controller: NODE, about: About::Taint };
        match new {
            Some(node) => {
                let disagrees = node.is_ready() == node.is_tainted();
                self.reactions.observe(rule, &any.metadata.uid, disagrees, false, now);
            }
            None => self.reactions.forget(rule, &any.metadata.uid),
        }
    }
}

#[cfg(test)]
mod tests;
