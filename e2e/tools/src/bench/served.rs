//! The delay of EndpointSlices behind their Pods, as a consumer of both watches sees it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    api::Api,
    clock::{Clock, Instant},
    gate::{WriteGateKeeper, closed_write_gate},
    informer::{AnyInformer as _, CacheEventHandler, Informer, InformerConfig},
    map::HashMap,
    meta::Meta,
    object::{Object, Resource},
    store::CacheEvent,
};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::{cluster::Cluster, suite::resources};

/// The label that a Service of the bench selects.
pub(super) const SELECTED: &str = "app";

/// The projection of a Pod.
#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Meta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Object for Pod {
    const RESOURCE: Resource = resources::PODS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Pod {
    /// Whether a slice has to show it as ready.
    fn is_served(&self) -> bool {
        let ready = self.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
        ready && !self.metadata.is_deleting() && self.metadata.labels.get(SELECTED).is_some()
    }
}

/// The projection of a slice.
#[derive(Debug, Deserialize)]
pub(super) struct Slice {
    metadata: Meta,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    conditions: Conditions,
    target_ref: Option<Target>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: Arc<str>,
}

impl Object for Slice {
    const RESOURCE: Resource = resources::ENDPOINT_SLICES;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Slice {
    /// The Pods that it shows as ready.
    fn ready(&self) -> BTreeSet<Arc<str>> {
        let endpoints = self.endpoints.iter().flatten().filter(|endpoint| endpoint.conditions.ready);
        endpoints.filter_map(|endpoint| Some(Arc::clone(&endpoint.target_ref.as_ref()?.name))).collect()
    }
}

/// The state that both watches have shown.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The Pods that slices have to show as ready.
    wanted: BTreeSet<Arc<str>>,
    /// The number of slices that show each Pod as ready.
    shown: HashMap<Arc<str>, u32>,
    /// Changes of Pods that the slices do not show yet, with their times.
    pending: HashMap<Arc<str>, Instant>,
    latencies: Vec<Duration>,
    became_ready: usize,
}

impl State {
    /// Handles a change of a Pod: whether slices have to show it as ready.
    pub(super) fn pod(&mut self, name: &Arc<str>, wanted: bool, now: Instant) {
        let changed = if wanted { self.wanted.insert(Arc::clone(name)) } else { self.wanted.remove(name) };
        if !changed {
            return;
        }
        self.became_ready += usize::from(wanted);
        if self.shown.contains_key(name) == wanted {
            // The slice arrived first, or no slice has shown the previous change.
            if self.pending.remove(name).is_none() {
                self.latencies.push(Duration::ZERO);
            }
        } else {
            self.pending.insert(Arc::clone(name), now);
        }
    }

    /// Handles an event of the watch of slices.
    pub(super) fn slice_event(&mut self, event: &CacheEvent<Slice>, now: Instant) {
        let none = BTreeSet::new();
        match event {
            CacheEvent::Added(slice) => self.slice(&none, &slice.ready(), now),
            CacheEvent::Updated { old, new } => self.slice(&old.ready(), &new.ready(), now),
            CacheEvent::Deleted(slice) => self.slice(&slice.ready(), &none, now),
            CacheEvent::Unreadable(_) => {}
        }
    }

    /// Whether the slices show exactly the Pods that they have to show.
    pub(super) fn is_complete(&self) -> bool {
        self.pending.is_empty() && self.shown.len() == self.wanted.len()
    }

    /// Whether the slices show no Pod and have to show none.
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty() && self.wanted.is_empty()
    }

    /// The latencies since this was last asked.
    pub(super) fn take_latencies(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.latencies)
    }

    /// Where things are, in a few words.
    pub(super) fn describe(&self) -> String {
        let (shown, wanted, pending) = (self.shown.len(), self.wanted.len(), self.pending.len());
        format!("{shown} shown, {wanted} ready, {pending} changes to follow")
    }

    fn slice(&mut self, before: &BTreeSet<Arc<str>>, after: &BTreeSet<Arc<str>>, now: Instant) {
        for name in after.difference(before) {
            *self.shown.entry(Arc::clone(name)).or_insert(0) += 1;
        }
        for name in before.difference(after) {
            let left = self.shown.get(name).map_or(0, |count| count.saturating_sub(1));
            if left == 0 {
                self.shown.remove(name);
            } else {
                self.shown.insert(Arc::clone(name), left);
            }
        }
        for name in after.symmetric_difference(before) {
            if self.shown.contains_key(name) == self.wanted.contains(name)
                && let Some(since) = self.pending.remove(name)
            {
                self.latencies.push(now.saturating_duration_since(since));
            }
        }
    }
}

/// The Pods and the slices of a namespace, each with a watch.
pub(super) struct Served {
    state: Arc<Mutex<State>>,
    _pods: Informer<Pod>,
    _slices: Informer<Slice>,
    /// Keeps the gate of the client open.
    _keeper: WriteGateKeeper,
}

impl Served {
    /// Starts to watch them.
    pub(super) async fn follow(cluster: &Cluster, namespace: &str) -> Self {
        let clock = cluster.clock().clone();
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(cluster.client().clone(), clock.clone(), gate, super::NAME);
        let config = || InformerConfig { namespace: namespace.to_owned(), ..InformerConfig::default() };
        let state = Arc::new(Mutex::new(State::default()));
        let pods = Informer::start(api.clone(), config(), vec![pod_handler(&state, clock.clone())]);
        let slices = Informer::start(api, config(), vec![slice_handler(&state, clock)]);
        pods.wait_until_synced().await;
        slices.wait_until_synced().await;
        Self { state, _pods: pods, _slices: slices, _keeper: keeper }
    }

    /// Whether the slices show exactly this number of ready Pods, and every change of a Pod.
    pub(super) fn shows(&self, pods: usize) -> bool {
        let state = self.state.lock();
        state.is_complete() && state.wanted.len() == pods
    }

    /// The number of Pods that have become ready so far.
    pub(super) fn became_ready(&self) -> usize {
        self.state.lock().became_ready
    }

    /// The latencies since this was last asked.
    pub(super) fn take_latencies(&self) -> Vec<Duration> {
        self.state.lock().take_latencies()
    }

    /// Where things are, in a few words.
    pub(super) fn state(&self) -> String {
        self.state.lock().describe()
    }
}

fn pod_handler(state: &Arc<Mutex<State>>, clock: Clock) -> CacheEventHandler<Pod> {
    let state = Arc::clone(state);
    Box::new(move |event, _| {
        let wanted = match event {
            CacheEvent::Added(pod) | CacheEvent::Updated { new: pod, .. } => pod.is_served(),
            CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => false,
        };
        state.lock().pod(&event.meta().name, wanted, clock.monotonic_now());
    })
}

fn slice_handler(state: &Arc<Mutex<State>>, clock: Clock) -> CacheEventHandler<Slice> {
    let state = Arc::clone(state);
    Box::new(move |event, _| state.lock().slice_event(event, clock.monotonic_now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_followed_when_the_slices_show_it() {
        let clock = Clock::system();
        let now = clock.monotonic_now();
        let at = |milliseconds| now + Duration::from_millis(milliseconds);
        let mut state = State::default();
        state.pod(&"a".into(), true, at(0));
        state.slice(&pods(&[]), &pods(&["a"]), at(7));
        assert_eq!(state.latencies, [Duration::from_millis(7)]);
        // The Pod moves to another slice without a gap, and leaves.
        state.slice(&pods(&[]), &pods(&["a"]), at(8));
        state.slice(&pods(&["a"]), &pods(&[]), at(9));
        state.pod(&"a".into(), false, at(10));
        state.slice(&pods(&["a"]), &pods(&[]), at(30));
        assert_eq!(state.latencies, [7, 20].map(Duration::from_millis));
        assert!(state.shown.is_empty() && state.pending.is_empty());
    }

    #[test]
    fn a_slice_that_is_seen_before_its_pod_counts_as_at_once() {
        let now = Clock::system().monotonic_now();
        let mut state = State::default();
        state.slice(&pods(&[]), &pods(&["a"]), now);
        state.pod(&"a".into(), true, now);
        assert_eq!(state.latencies, [Duration::ZERO]);
    }
}
