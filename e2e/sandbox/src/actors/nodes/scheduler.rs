//! The scheduler: binds Pods to Nodes, round robin over those that fit.
//!
//! One binding a Pod and nothing else. A Pod that fits nowhere gets the condition the real scheduler writes, and is
//! looked at again whenever a Node changes.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    sync::Arc,
};

use common::{
    api::{Api, Error, PatchFormat, RequestTarget},
    clock::Instant,
    meta::{NamespacedName, Uid},
    object::Object as _,
};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    fit::{Misfit, fits},
    objects::{Node, PODS, Pod},
    request::{CONCURRENCY, insist},
    waits::Waits,
};

/// The scheduler Pods ask for unless they name another.
const SCHEDULER: &str = "default-scheduler";

/// What the scheduler is told.
pub(super) enum News {
    /// A Pod came or changed at that time.
    Pod(Arc<Pod>, Instant),
    PodGone(Arc<Pod>),
    Node(Arc<Node>),
    NodeGone(Arc<Node>),
}

/// A Pod without a Node.
struct Waiting {
    pod: Arc<Pod>,
    since: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be bound as soon as there is room.
    Ready,
    /// A request is on its way.
    Busy,
    Unschedulable,
}

/// A request has ended.
struct Done {
    key: NamespacedName,
    uid: Uid,
    what: What,
    result: Result<(), Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Bind,
    Mark,
}

pub(super) struct Scheduler {
    api: Api,
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    /// The same in their order, to go round.
    order: Vec<Arc<Node>>,
    cursor: usize,
    waiting: BTreeMap<NamespacedName, Waiting>,
    ready: VecDeque<NamespacedName>,
    requests: FuturesUnordered<BoxFuture<'static, Done>>,
    waits: Waits,
}

impl Scheduler {
    pub(super) fn new(api: Api, waits: Waits) -> Self {
        Self {
            api,
            nodes: BTreeMap::new(),
            order: Vec::new(),
            cursor: 0,
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            requests: FuturesUnordered::new(),
            waits,
        }
    }

    /// Schedules until nobody can send news any more.
    pub(super) async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut batch = Vec::with_capacity(CONCURRENCY);
        loop {
            tokio::select! {
                biased;
                Some(done) = self.requests.next(), if !self.requests.is_empty() => self.settle(&done),
                received = news.recv_many(&mut batch, CONCURRENCY) => {
                    if received == 0 {
                        return;
                    }
                    for one in batch.drain(..) {
                        self.hear(one);
                    }
                }
            }
            self.schedule();
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Pod(pod, at) => self.see(pod, at),
            News::PodGone(pod) => {
                self.waiting.remove(&pod.metadata.key());
            }
            News::Node(node) => {
                let known = self.nodes.insert(Arc::clone(&node.metadata.name), node);
                if known.is_none() {
                    self.cursor = 0;
                }
                self.nodes_changed();
            }
            News::NodeGone(node) => {
                self.nodes.remove(&node.metadata.name);
                self.nodes_changed();
            }
        }
    }

    fn nodes_changed(&mut self) {
        self.order = self.nodes.values().map(Arc::clone).collect();
        for (key, waiting) in &mut self.waiting {
            if waiting.state == State::Unschedulable {
                waiting.state = State::Ready;
                self.ready.push_back(key.clone());
            }
        }
    }

    fn see(&mut self, pod: Arc<Pod>, at: Instant) {
        let key = pod.meta().key();
        let spec = &pod.spec;
        let ours = spec.scheduler_name.is_empty() || spec.scheduler_name == SCHEDULER;
        let wanted = ours
            && spec.node_name.is_empty()
            && spec.scheduling_gates.is_empty()
            && !pod.metadata.is_deleting()
            && !pod.is_terminal();
        if !wanted {
            self.waiting.remove(&key);
            return;
        }
        match self.waiting.get_mut(&key) {
            Some(waiting) if waiting.state == State::Busy && waiting.pod.metadata.uid == pod.metadata.uid => {
                waiting.pod = pod;
            }
            _ => {
                self.waiting.insert(key.clone(), Waiting { pod, since: at, state: State::Ready });
                self.ready.push_back(key);
            }
        }
    }

    /// Binds what can be bound, as far as there is room for requests.
    fn schedule(&mut self) {
        while self.requests.len() < CONCURRENCY {
            let Some(key) = self.ready.pop_front() else { return };
            let Some(waiting) = self.waiting.get_mut(&key).filter(|w| w.state == State::Ready) else { continue };
            let pod = Arc::clone(&waiting.pod);
            match choose(&pod, &self.order, &mut self.cursor) {
                Ok(node) => {
                    waiting.state = State::Busy;
                    self.waits.record(self.api.clock().monotonic_now().saturating_duration_since(waiting.since));
                    self.requests.push(bind(self.api.clone(), pod, node));
                }
                Err(message) => {
                    waiting.state = State::Unschedulable;
                    self.requests.push(mark(self.api.clone(), pod, message));
                }
            }
        }
    }

    fn settle(&mut self, done: &Done) {
        let Done { key, uid, what, result } = done;
        let current = self.waiting.get(key).is_some_and(|w| w.pod.metadata.uid == *uid);
        if let Err(error) = result
            && !(error.is_not_found() || error.is_conflict() || error.is_namespace_terminating())
        {
            tracing::warn!(pod = %key, err = %error, "Could not be scheduled");
        }
        // Whatever came of a binding: if the Pod still has no Node, its next event says so.
        if current && *what == What::Bind {
            self.waiting.remove(key);
        }
    }
}

/// The next Node in the round that fits; what is wrong with all of them otherwise.
fn choose(pod: &Pod, order: &[Arc<Node>], cursor: &mut usize) -> Result<Arc<str>, String> {
    let mut misfits: BTreeMap<Misfit, usize> = BTreeMap::new();
    for step in 0..order.len() {
        let at = (*cursor + step) % order.len();
        match fits(pod, &order[at]) {
            Ok(()) => {
                *cursor = at + 1;
                return Ok(Arc::clone(&order[at].metadata.name));
            }
            Err(misfit) => *misfits.entry(misfit).or_default() += 1,
        }
    }
    if misfits.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let mut message = format!("0/{} nodes are available:", order.len());
    for (at, (misfit, count)) in misfits.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(message, "{comma} {count} {}", misfit.message());
    }
    message.push('.');
    Err(message)
}

fn bind(api: Api, pod: Arc<Pod>, node: Arc<str>) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        let meta = &pod.metadata;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let target =
            RequestTarget { resource: PODS, namespace: &meta.namespace, name: &meta.name, subresource: "binding" };
        let result = insist(&api, || api.create(target.clone(), &body)).await;
        Done { key: meta.key(), uid: meta.uid.clone(), what: What::Bind, result: result.map(|_| ()) }
    })
}

fn mark(api: Api, pod: Arc<Pod>, message: String) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        let meta = &pod.metadata;
        let now = common::conditions::seconds::format_rfc3339(api.clock().now());
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": now});
        let body = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}});
        let target = RequestTarget::status(PODS, &meta.namespace, &meta.name);
        let result = insist(&api, || api.patch(target.clone(), PatchFormat::Strategic, &body)).await;
        Done { key: meta.key(), uid: meta.uid.clone(), what: What::Mark, result: result.map(|_| ()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<Arc<Node>> {
        let node = |i: usize| {
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            Arc::new(
                serde_json::from_value(json!({"metadata": {"name": format!("node-{i}")}, "status": ready})).unwrap(),
            )
        };
        (0..count).map(node).collect()
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap()
    }

    #[test]
    fn pods_go_round_all_nodes() {
        let (nodes, mut cursor) = (nodes(3), 0);
        let chosen: Vec<_> = (0..5).map(|_| choose(&pod(), &nodes, &mut cursor).unwrap().to_string()).collect();
        assert_eq!(chosen, ["node-0", "node-1", "node-2", "node-0", "node-1"]);
    }

    #[test]
    fn what_fits_nowhere_is_told_why() {
        let picky: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"nodeSelector": {"a": "b"}}})).unwrap();
        assert_eq!(
            choose(&picky, &nodes(2), &mut 0).unwrap_err(),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
        );
        assert_eq!(choose(&pod(), &[], &mut 0).unwrap_err(), "no nodes available to schedule pods");
    }
}
