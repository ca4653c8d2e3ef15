//! Nodes without machines: a scheduler that binds and a kubelet that runs Pods through their life, for any number of
//! nodes.
//!
//! They speak to an API server like their originals: through a `kube::Client`, to the sandbox in the same process (also
//! under tokio's paused clock), to the sandbox over TCP, and to a real kube-apiserver. All nodes together are three
//! tasks and two watches; a node costs a Lease renewal every ten seconds, and nothing while its Pods do nothing.
//!
//! ```text
//!   Pods  ──► scheduler ──► binding                 one request a Pod
//!   Nodes ──┘
//!   Pods  ──► kubelets  ──► status, final DELETE    one status write for a Pod that is ready at once
//!             heartbeat ──► Node, Lease
//! ```
//!
//! # Scripts
//! A Pod without annotations is Ready as soon as it runs, runs until it is deleted, and is gone at once then. These
//! annotations of a Pod (in a workload: of its Pod template) say otherwise. Times are seconds (`0.5`, `600`) or
//! durations as Go writes them (`1m30s`).
//!
//! | annotation | effect |
//! | --- | --- |
//! | `sim/start-after` | stays Pending (`ContainerCreating`) for that long |
//! | `sim/ready-after` | runs for that long before it is Ready |
//! | `sim/never-ready` | `true`: the readiness probe never succeeds |
//! | `sim/unready-after` | that long after it became Ready the probe fails ... |
//! | `sim/unready-for` | ... for that long; for good if this is missing |
//! | `sim/exit` | the containers exit with this code ... |
//! | `sim/after` | ... after running for so long, each time they run; at once if this is missing |
//! | `sim/exit-index-<i>` | overrides `sim/exit` for completion index `i` of a Job |
//! | `sim/exit-container-<name>` | overrides `sim/exit` for one container |
//! | `sim/exit-times` | exits only so many times, then stays up |
//! | `sim/restart-after` | every restart waits that long, instead of 0 s, 10 s, 20 s, 40 s, ... 300 s |
//! | `sim/fail-reason` | the node fails the Pod with this `status.reason`: after `sim/after` (`Evicted`), or instead of running it (`OutOfcpu`) if that is missing |
//! | `sim/fail-message` | the `status.message` with it |
//! | `sim/terminate-after` | needs that long to end when it is deleted; killed with 137 when the grace period is shorter |
//! | `sim/exit-on-term` | exits with this code when it is deleted, instead of 143 |
//!
//! Where no annotation says how containers end, a first container whose command is `true`, `false`, `sleep N`, `exit N`,
//! `echo ...` or `date`, alone or as a shell's script of such, ends as that would.
//!
//! `restartPolicy`, `activeDeadlineSeconds`, readiness gates, init containers (which always succeed), node selectors,
//! required node affinity and taints mean what they mean anywhere.

mod address;
mod command;
mod fit;
mod heartbeat;
mod kubelet;
mod life;
pub(crate) mod objects;
mod report;
pub(crate) mod request;
mod scheduler;
mod script;
mod waits;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::Api,
    clock::Clock,
    gate::{WriteGateKeeper, closed_write_gate},
    informer::{AnyInformer as _, CacheEventHandler, Informer, InformerConfig},
    store::CacheEvent,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

pub use heartbeat::RUNTIME;
use objects::{Node, Pod};
pub use waits::{WaitCounts, Waits};

/// How nodes are to be. Six nodes `node-0` to `node-5` with heartbeats every 10 s if nothing else is said.
#[derive(Clone, Debug)]
pub struct Builder {
    count: u32,
    existing: Vec<String>,
    ready_after: Duration,
    settings: heartbeat::Settings,
    schedules: bool,
    is_dual_stack: bool,
}

impl Builder {
    /// How many nodes there are at first.
    #[must_use]
    pub fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// Runs the Pods of these Nodes, too, which exist and are not reported: they keep their status and need no Lease. A Pod that
    /// has started on one of them before keeps its status until it is deleted.
    #[must_use]
    pub fn existing(mut self, names: Vec<String>) -> Self {
        self.existing = names;
        self
    }

    /// The time from running to ready of Pods whose script does not state it.
    #[must_use]
    pub fn ready_after(mut self, time: Duration) -> Self {
        self.ready_after = time;
        self
    }

    /// How often they renew their Leases; never if none.
    #[must_use]
    pub fn heartbeat(mut self, every: Option<Duration>) -> Self {
        self.settings.every = every;
        self
    }

    /// The number of zones that the nodes are in, in turn: `z0`, `z1` and so on. Three by default.
    #[must_use]
    pub fn zones(mut self, zones: u32) -> Self {
        self.settings.zones = zones.max(1);
        self
    }

    /// Gives Pods and nodes an address of each family.
    #[must_use]
    pub fn dual_stack(mut self, both: bool) -> Self {
        self.is_dual_stack = both;
        self
    }

    /// Runs no scheduler: something else binds.
    #[must_use]
    pub fn without_scheduler(mut self) -> Self {
        self.schedules = false;
        self
    }

    /// Starts the nodes. Must be called inside a tokio runtime, in which they live.
    pub fn start(self, client: kube::Client, clock: Clock) -> Nodes {
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = |agent: &str| Api::new(client.clone(), clock.clone(), gate.clone(), agent);
        let (to_scheduler, from_scheduler) = mpsc::unbounded_channel();
        let (to_kubelets, from_kubelets) = mpsc::unbounded_channel();
        let (to_heartbeat, from_heartbeat) = mpsc::unbounded_channel();
        let registered = watch::Sender::new(0);
        let (scheduler_waits, kubelet_waits) = (Waits::default(), Waits::default());
        let kubelets =
            kubelet::Kubelets::new(api("kubelet"), self.is_dual_stack, self.ready_after, kubelet_waits.clone());
        let mut tasks = vec![
            tokio::spawn(kubelets.run(from_kubelets)),
            tokio::spawn(
                heartbeat::Heartbeat::new(api("kubelet"), self.settings, registered.clone()).run(from_heartbeat),
            ),
        ];
        let mut watched = None;
        if self.schedules {
            let scheduler = scheduler::Scheduler::new(api("kube-scheduler"), scheduler_waits.clone());
            tasks.push(tokio::spawn(scheduler.run(from_scheduler)));
            let handler = node_handler(to_scheduler.clone());
            watched = Some(Informer::<Node>::start(api("kube-scheduler"), InformerConfig::default(), vec![handler]));
        }
        let names = Mutex::new(Names { known: BTreeMap::new(), next: 0 });
        let handler = pod_handler(clock.clone(), self.schedules.then_some(to_scheduler), to_kubelets.clone());
        let mut this = Nodes {
            names,
            to_kubelets,
            to_heartbeat,
            registered,
            tasks,
            watched,
            watched_pods: None,
            scheduler_waits,
            kubelet_waits,
            keeper,
        };
        for name in self.existing {
            this.take_over(name);
        }
        for _ in 0..self.count {
            this.add();
        }
        // After the nodes, so that no Pod is seen before its node is known.
        let pods = Informer::<Pod>::start(api("kubelet"), InformerConfig::default(), vec![handler]);
        this.watched_pods = Some(pods);
        this
    }
}

/// Sends Pods to whom they concern.
fn pod_handler(
    clock: Clock,
    scheduler: Option<mpsc::UnboundedSender<scheduler::News>>,
    kubelets: mpsc::UnboundedSender<kubelet::News>,
) -> CacheEventHandler<Pod> {
    Box::new(move |event, _| {
        let (pod, was_unbound, gone) = match event {
            CacheEvent::Added(pod) => (pod, true, false),
            CacheEvent::Updated { old, new } => (new, old.spec.node_name.is_empty(), false),
            CacheEvent::Deleted(pod) => (pod, pod.spec.node_name.is_empty(), true),
            CacheEvent::Unreadable(_) => return,
        };
        let now = clock.monotonic_now();
        // A task that is gone needs no news.
        if was_unbound && let Some(scheduler) = &scheduler {
            let pod = Arc::clone(pod);
            let _ = scheduler.send(if gone { scheduler::News::PodGone(pod) } else { scheduler::News::Pod(pod, now) });
        }
        if !pod.spec.node_name.is_empty() {
            let pod = Arc::clone(pod);
            let _ = kubelets.send(if gone { kubelet::News::PodGone(pod) } else { kubelet::News::Pod(pod, now) });
        }
    })
}

fn node_handler(scheduler: mpsc::UnboundedSender<scheduler::News>) -> CacheEventHandler<Node> {
    Box::new(move |event, _| {
        let news = match event {
            CacheEvent::Added(node) | CacheEvent::Updated { new: node, .. } => scheduler::News::Node(Arc::clone(node)),
            CacheEvent::Deleted(node) => scheduler::News::NodeGone(Arc::clone(node)),
            CacheEvent::Unreadable(_) => return,
        };
        let _ = scheduler.send(news);
    })
}

/// No node of that name was started here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no node {0:?} here")]
pub struct UnknownNode(String);

#[derive(Debug)]
struct Names {
    known: BTreeMap<String, Arc<str>>,
    next: u32,
}

/// Running nodes. They end when this is dropped; what they have written stays.
pub struct Nodes {
    names: Mutex<Names>,
    to_kubelets: mpsc::UnboundedSender<kubelet::News>,
    to_heartbeat: mpsc::UnboundedSender<heartbeat::News>,
    registered: watch::Sender<usize>,
    tasks: Vec<JoinHandle<()>>,
    watched: Option<Informer<Node>>,
    watched_pods: Option<Informer<Pod>>,
    scheduler_waits: Waits,
    kubelet_waits: Waits,
    /// The gate of the clients is open for as long as this lives.
    #[expect(dead_code, reason = "kept, not used")]
    keeper: WriteGateKeeper,
}

impl Nodes {
    /// Nodes as they usually are.
    pub fn builder() -> Builder {
        let settings = heartbeat::Settings { every: Some(Duration::from_secs(10)), zones: 3 };
        Builder {
            count: 6,
            existing: Vec::new(),
            ready_after: Duration::ZERO,
            settings,
            schedules: true,
            is_dual_stack: false,
        }
    }

    /// Waits until every node is registered and the Pods that were there before are known.
    pub async fn ready(&self) {
        let wanted = self.names.lock().next as usize;
        // The sender lives as long as `self`.
        let _ = self.registered.subscribe().wait_for(|n| *n >= wanted).await;
        if let Some(nodes) = &self.watched {
            nodes.wait_until_synced().await;
        }
        if let Some(pods) = &self.watched_pods {
            pods.wait_until_synced().await;
        }
    }

    /// The names of the nodes, sorted.
    pub fn names(&self) -> Vec<String> {
        self.names.lock().known.keys().cloned().collect()
    }

    /// The time from each Pod event that needs a binding until the scheduler sends it.
    pub fn scheduler_waits(&self) -> &Waits {
        &self.scheduler_waits
    }

    /// The time from each event or due time of a Pod that a kubelet has to report until it sends the request. The time that the
    /// API server takes to answer is not part of it.
    pub fn kubelet_waits(&self) -> &Waits {
        &self.kubelet_waits
    }

    /// Starts one more node, and says its name.
    pub fn add(&self) -> String {
        let mut names = self.names.lock();
        let index = names.next;
        names.next += 1;
        let name = format!("node-{index}");
        let shared: Arc<str> = Arc::from(name.as_str());
        names.known.insert(name.clone(), Arc::clone(&shared));
        let _ = self.to_kubelets.send(kubelet::News::Node(Arc::clone(&shared), kubelet::Power::Added(index)));
        let _ = self.to_heartbeat.send(heartbeat::News::Add(shared, index));
        name
    }

    /// Runs the Pods of a Node that exists.
    fn take_over(&self, name: String) {
        let mut names = self.names.lock();
        let shared: Arc<str> = Arc::from(name.as_str());
        let _ = self.to_kubelets.send(kubelet::News::Node(Arc::clone(&shared), kubelet::Power::TakenOver(names.next)));
        names.next += 1;
        names.known.insert(name, shared);
        self.registered.send_modify(|n| *n += 1);
    }

    /// Cuts a node off from the API server: no heartbeat, no status, no Pod is ended. Its Pods run on.
    pub fn silence(&self, node: &str) -> Result<(), UnknownNode> {
        self.switch(node, kubelet::Power::Silent, heartbeat::Contact::None)
    }

    /// Lets a node renew its Lease and do nothing else: its status is not reported and no Pod is ended.
    pub fn renew_only(&self, node: &str) -> Result<(), UnknownNode> {
        self.switch(node, kubelet::Power::Silent, heartbeat::Contact::Renewals)
    }

    /// Switches a node off, which is lost on the API server like [`Self::silence`]; its Pods' containers are lost.
    pub fn kill(&self, node: &str) -> Result<(), UnknownNode> {
        self.switch(node, kubelet::Power::Off, heartbeat::Contact::None)
    }

    /// Brings back a node that was silent or off.
    pub fn restore(&self, node: &str) -> Result<(), UnknownNode> {
        self.switch(node, kubelet::Power::On, heartbeat::Contact::Full)
    }

    /// Sets a condition of a node: `Ready`, `MemoryPressure`, `DiskPressure` or `PIDPressure`.
    pub fn set_condition(&self, node: &str, kind: &str, value: bool) -> Result<(), UnknownNode> {
        let name = self.find(node)?;
        let _ = self.to_heartbeat.send(heartbeat::News::Condition(name, Box::from(kind), value));
        Ok(())
    }

    /// Takes a node away for good: its Node and its Lease are deleted, its Pods are left to others.
    pub fn remove(&self, node: &str) -> Result<(), UnknownNode> {
        let name = self.find(node)?;
        self.names.lock().known.remove(node);
        let _ = self.to_kubelets.send(kubelet::News::Node(Arc::clone(&name), kubelet::Power::Removed));
        let _ = self.to_heartbeat.send(heartbeat::News::Remove(name));
        Ok(())
    }

    fn find(&self, node: &str) -> Result<Arc<str>, UnknownNode> {
        self.names.lock().known.get(node).cloned().ok_or_else(|| UnknownNode(node.to_owned()))
    }

    fn switch(&self, node: &str, power: kubelet::Power, contact: heartbeat::Contact) -> Result<(), UnknownNode> {
        let name = self.find(node)?;
        let _ = self.to_kubelets.send(kubelet::News::Node(Arc::clone(&name), power));
        let _ = self.to_heartbeat.send(heartbeat::News::Talk(name, contact));
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A condition in the status of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

/// Whether a Pod counts: Ready, not ending, not ended.
pub fn is_ready(pod: &Value) -> bool {
    let live = pod["metadata"].get("deletionTimestamp").is_none()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    live && condition(pod, "Ready").is_some_and(|c| c["status"] == "True")
}

#[cfg(test)]
mod tests;
