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
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::{cluster::Cluster, suite::resources};
use reactions::{About, Rule};
use watched::Watched;

/// Latencies by controller.
pub(super) type Reactions = BTreeMap<&'static str, Vec<Duration>>;

const DEPLOYMENT: &str = "deployment-controller";
const REPLICA_SET: &str = "replicaset-controller";
const STATEFUL_SET: &str = "statefulset-controller";
const DAEMON_SET: &str = "daemonset-controller";
const JOB: &str = "job-controller";
const CRON_JOB: &str = "cronjob-controller";
const ENDPOINT_SLICE: &str = "endpointslice-controller";
const GARBAGE: &str = "gc-controller";
const NODE: &str = "node-lifecycle-controller";

/// The rules of the garbage collector and of the slices.
const ORPHAN: Rule = Rule { controller: GARBAGE, about: About::Orphan };
const ENDPOINT: Rule = Rule { controller: ENDPOINT_SLICE, about: About::Endpoint };

/// The observed kinds of workloads with Pods.
pub(super) const WORKLOAD_KINDS: &[Resource] = &[
    resources::DEPLOYMENTS,
    resources::REPLICA_SETS,
    resources::STATEFUL_SETS,
    resources::DAEMON_SETS,
    resources::JOBS,
    resources::NODES,
    resources::PODS,
    resources::ENDPOINT_SLICES,
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

/// The state that the watches have shown.
#[derive(Default)]
pub(super) struct State {
    /// The observed kinds.
    kinds: &'static [Resource],
    /// Only namespaces with this prefix and their objects, cluster-scoped objects with this prefix, and all Nodes count.
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
    /// Dependents by owner: whether each is terminating.
    dependents: HashMap<Uid, HashMap<Uid, bool>>,
    /// Dependents whose owner is gone and that are not terminating yet.
    orphans: HashSet<Uid>,
    /// CronJobs with a Job that was due after `firing_from`.
    fired: HashSet<Uid>,
    firing_from: Option<Timestamp>,
    /// The Pods that slices have to show as ready, and the number of slices that show each Pod as ready.
    served: HashSet<Uid>,
    shown: HashMap<Uid, u32>,
    /// The number of times that an object which each namespace has became right: created, or repaired.
    kept: BTreeMap<Resource, usize>,
    /// The sum of what the controller of a kind has counted, see [`Watched::counted`].
    totals: BTreeMap<Resource, i64>,
    reactions: reactions::Reactions,
}

/// Observes a cluster until it is dropped.
pub(super) struct Observer {
    state: Arc<Mutex<State>>,
    _objects: Vec<Informer<Watched>>,
    /// Keeps the gate of the client open.
    _keeper: WriteGateKeeper,
}

impl Observer {
    /// Starts to observe the objects of these kinds with this prefix, or in a namespace with this prefix, and all Nodes.
    pub(super) async fn follow(cluster: &Cluster, prefix: &str, kinds: &'static [Resource]) -> Self {
        let clock = cluster.clock().clone();
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(cluster.client().clone(), clock.clone(), gate, super::NAME);
        let state = Arc::new(Mutex::new(State { kinds, prefix: prefix.to_owned(), ..State::default() }));
        let start = |resource: Resource| {
            let config = InformerConfig { resource: Some(resource.clone()), ..InformerConfig::default() };
            Informer::start(api.clone(), config, vec![handler(&state, resource, clock.clone())])
        };
        let objects: Vec<Informer<Watched>> = kinds.iter().cloned().map(start).collect();
        for informer in &objects {
            informer.wait_until_synced().await;
        }
        Self { state, _objects: objects, _keeper: keeper }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The latencies since the last call.
    pub(super) fn take_reactions(&self) -> Reactions {
        self.state().reactions.take()
    }
}

fn handler(state: &Arc<Mutex<State>>, resource: Resource, clock: Clock) -> CacheEventHandler<Watched> {
    let state = Arc::clone(state);
    Box::new(move |event, _| {
        let (old, new) = match event {
            CacheEvent::Added(new) => (None, Some(&**new)),
            CacheEvent::Updated { old, new } => (Some(&**old), Some(&**new)),
            CacheEvent::Deleted(old) => (Some(&**old), None),
            CacheEvent::Unreadable(_) => return,
        };
        let mut state = state.lock();
        let meta = event.meta();
        let place: &str = if resource.is_namespaced() { &meta.namespace } else { &meta.name };
        if resource == resources::NODES || place.starts_with(&*state.prefix) {
            state.object(&resource, old, new, &clock);
        }
    })
}

/// Whether objects of a kind are judged by the workload instead of their own status.
fn is_never_unsettled(resource: &Resource) -> bool {
    matches!(resource.kind(), "Pod" | "Node" | "EndpointSlice")
}

impl State {
    /// Whether every object is as its spec asks for.
    pub(super) fn is_as_specified(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Whether every object is as its spec asks for, no Pod is terminating, and the slices show all ready Pods.
    pub(super) fn is_settled(&self) -> bool {
        let is_quiet = self.is_as_specified() && self.orphans.is_empty() && self.terminating == 0;
        is_quiet && self.shown.len() == self.served.len() && self.reactions.count(ENDPOINT) == 0
    }

    /// The number of objects of a kind.
    pub(super) fn count(&self, resource: &Resource) -> usize {
        self.counts.get(resource).copied().unwrap_or(0)
    }

    /// Whether only the Nodes are left.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|(resource, count)| *count == 0 || *resource == resources::NODES)
    }

    /// The number of times that an object which each namespace has was created, or repaired after a change of its content.
    pub(super) fn kept(&self, resource: &Resource) -> usize {
        self.kept.get(resource).copied().unwrap_or(0)
    }

    /// The sum over all objects of a kind of what its controller has counted: rules of aggregated ClusterRoles, healthy Pods of
    /// budgets, Pods and ConfigMaps of quotas.
    pub(super) fn total(&self, resource: &Resource) -> i64 {
        self.totals.get(resource).copied().unwrap_or(0)
    }

    /// The number of Pods on these nodes that have to be evicted and are not terminating yet.
    pub(super) fn movable_pods(&self, nodes: &BTreeSet<String>) -> usize {
        nodes.iter().filter_map(|node| self.movable.get(node)).sum()
    }

    /// Counts only CronJobs with a Job that was due after this time.
    pub(super) fn count_firing_from(&mut self, time: Timestamp) {
        self.fired.clear();
        self.firing_from = Some(time);
    }

    /// The number of CronJobs that have fired since the time of [`Self::count_firing_from`].
    pub(super) fn fired(&self) -> usize {
        self.fired.len()
    }

    /// The missing conditions, in a few words.
    pub(super) fn describe(&self) -> String {
        let counts = self.counts.iter().map(|(resource, count)| format!("{count} {}", resource.plural()));
        let some: Vec<&str> = self.unsettled.values().take(3).map(String::as_str).collect();
        format!(
            "{}; {} objects are not settled ({}), {} Pods are terminating; slices show {} of {} ready Pods",
            counts.collect::<Vec<_>>().join(", "),
            self.unsettled.len(),
            some.join(", "),
            self.terminating,
            self.shown.len(),
            self.served.len()
        )
    }

    /// Records an object that the bench has written. It is not settled before the watch shows this state or a later one.
    /// Objects of other kinds are ignored.
    pub(super) fn expect(&mut self, resource: &Resource, answer: &Value) {
        let metadata = &answer["metadata"];
        let (Some(uid), Some(generation)) = (metadata["uid"].as_str().map(Uid::new), metadata["generation"].as_i64())
        else {
            return;
        };
        if self.kinds.contains(resource) && !is_never_unsettled(resource) {
            if self.generations.get(&uid).is_none_or(|seen| *seen < generation) {
                self.unsettled.insert(uid.clone(), metadata["name"].as_str().unwrap_or_default().to_owned());
            }
            self.expected.insert(uid, generation);
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
        let is_kept = |object: Option<&Watched>| object.is_some_and(Watched::is_kept);
        if is_kept(new) && !is_kept(old) {
            *self.kept.entry(resource.clone()).or_default() += 1;
        }
        let counted = |object: Option<&Watched>| object.map_or(0, |object| object.counted(resource.kind()));
        *self.totals.entry(resource.clone()).or_default() += counted(new) - counted(old);
        self.settle(resource, any, new);
        self.dependent(any, new, now);
        match resource.kind() {
            "Pod" => self.pod(old, new, now),
            "EndpointSlice" => self.slice(old, new, now),
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
        if is_never_unsettled(resource) {
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
        if is_deleting {
            self.orphans.remove(uid);
            self.reactions.observe(ORPHAN, uid, Some(false), true, now);
        }
        let all = self.dependents.entry(owner.uid.clone()).or_default();
        match new {
            Some(_) => all.insert(uid.clone(), is_deleting),
            None => all.remove(uid),
        };
        if all.is_empty() {
            self.dependents.remove(&owner.uid);
        }
    }

    /// Handles a deleted object: its dependents have to be deleted.
    fn gone(&mut self, uid: &Uid, now: Instant) {
        for (dependent, is_deleting) in self.dependents.remove(uid).into_iter().flatten() {
            if is_deleting {
                // The watch of the dependents was faster.
                self.reactions.record(GARBAGE, Duration::ZERO);
            } else {
                self.reactions.observe(ORPHAN, &dependent, Some(true), false, now);
                self.orphans.insert(dependent);
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
        self.serve(&any.metadata.uid, new.is_some_and(Watched::is_served), now);
        if let Some(owner) = any.metadata.controller()
            && let Some(controller) = keeper_of(&owner.kind)
        {
            let counts = |pod: Option<&Watched>| i64::from(pod.is_some_and(|pod| pod.counts_as_ready(&owner.kind)));
            self.ready_changed(controller, &owner.uid, counts(new) - counts(old), now);
        }
        let rule = Rule { controller: JOB, about: About::FinishedPod };
        let awaits = new.filter(|pod| !pod.metadata.is_deleting()).map(Watched::awaits_counting);
        self.reactions.observe(rule, &any.metadata.uid, awaits, false, now);
    }

    /// Handles a change of a Pod: whether slices have to show it as ready.
    fn serve(&mut self, pod: &Uid, is_served: bool, now: Instant) {
        let has_changed = if is_served { self.served.insert(pod.clone()) } else { self.served.remove(pod) };
        if !has_changed {
            return;
        }
        if self.shown.contains_key(pod) != is_served {
            self.reactions.observe(ENDPOINT, pod, Some(true), false, now);
        } else if !self.reactions.forget(ENDPOINT, pod) {
            // The watch of the slices was faster. Otherwise no slice has shown the previous change.
            self.reactions.record(ENDPOINT_SLICE, Duration::ZERO);
        }
    }

    fn slice(&mut self, old: Option<&Watched>, new: Option<&Watched>, now: Instant) {
        let [before, after] = [old, new].map(|slice| slice.map(Watched::ready_endpoints).unwrap_or_default());
        for pod in after.difference(&before) {
            *self.shown.entry(pod.clone()).or_default() += 1;
        }
        for pod in before.difference(&after) {
            if let Some(count) = self.shown.get_mut(pod) {
                *count -= 1;
                if *count == 0 {
                    self.shown.remove(pod);
                }
            }
        }
        for pod in after.symmetric_difference(&before) {
            if self.shown.contains_key(pod) == self.served.contains(pod) {
                self.reactions.observe(ENDPOINT, pod, Some(false), true, now);
            }
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
        let ready = self.ready.get(owner).copied().unwrap_or(0);
        // A deleted owner is not counted.
        let differs = self.told.get(owner).map(|told| *told != ready);
        self.reactions.observe(Rule { controller, about: About::ReadyPods }, owner, differs, is_answer, now);
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
        let new = new.filter(|new| !new.metadata.is_deleting());
        let is_behind = new.map(|new| new.status.observed_generation < new.metadata.generation);
        self.reactions.observe(generation, uid, is_behind, false, now);
        match new {
            Some(new) => self.told.insert(uid.clone(), new.ready_in_status()),
            None => self.told.remove(uid),
        };
        self.compare_ready(controller, uid, ready_in(old) != ready_in(new), now);
    }

    fn job(&mut self, any: &Watched, old: Option<&Watched>, new: Option<&Watched>, clock: &Clock) {
        let rule = Rule { controller: JOB, about: About::Start };
        let has_not_started = new.filter(|job| !job.metadata.is_deleting()).map(|job| job.status.start_time.is_none());
        self.reactions.observe(rule, &any.metadata.uid, has_not_started, false, clock.monotonic_now());
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
        let differs = new.map(|node| node.is_ready() == node.is_tainted());
        self.reactions.observe(rule, &any.metadata.uid, differs, false, now);
    }
}

#[cfg(test)]
mod tests;
