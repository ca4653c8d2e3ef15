//! The kubelets of all nodes in one task: they take on Pods, live them and report them.
//!
//! Between two moments that matter to a Pod nothing is done for it. A Pod costs one status write when it runs and is
//! ready at once, one more for each stage its script tells apart, and a status write and a DELETE when it is deleted.
//! Of one Pod at most one request is on its way.

use std::{
    collections::{BTreeMap, VecDeque},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use common::{
    api::{Api, DeleteOptions, Error, PatchFormat, RequestTarget},
    clock::Instant,
    map::HashMap,
    meta::Uid,
};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use tokio::sync::mpsc;

use super::{
    address,
    life::{Life, Now},
    objects::{PODS, Pod, READY},
    report::{self, Place, Shown},
    request::{CONCURRENCY, backoff, is_transient},
    script::Script,
    waits::Waits,
};

/// After how long a kubelet sets right what somebody else has written into a status. Upstream: `pkg/kubelet/status`,
/// `syncPeriod`, `needsReconcile`.
const RECONCILIATION: Duration = Duration::from_secs(10);

/// What the kubelets are told.
pub(super) enum News {
    /// A Pod came or changed at that time.
    Pod(Arc<Pod>, Instant),
    PodGone(Arc<Pod>),
    /// Something happened to a node.
    Node(Arc<str>, Power),
}

/// What can happen to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    /// It exists; the number is its place among all nodes.
    Added(u32),
    /// The same, and other kubelets have run Pods on it.
    TakenOver(u32),
    /// It is cut off from the API server; its Pods run on.
    Silent,
    /// It is off: its Pods are lost.
    Off,
    On,
    Removed,
}

/// A node, as its kubelet knows it.
struct Host {
    address: Ipv4Addr,
    /// Whether it talks to the API server.
    talks: bool,
    /// Whether its Pods were lost since it last talked.
    lost: bool,
    /// Whether Pods that have started before keep their status.
    keeps: bool,
}

/// A Pod on one of the nodes.
struct Tenant {
    pod: Arc<Pod>,
    address: Ipv4Addr,
    script: Option<Box<Script>>,
    life: Life,
    /// Whether it keeps its status until it is deleted, as another kubelet has started it.
    kept: bool,
    /// What the API server was told last.
    told: Option<Shown>,
    request: Request,
    /// Since when the request in the queue has been needed.
    needed: Instant,
    failures: u32,
    /// Nothing is sent before then.
    hold: Option<Instant>,
    /// When its status is set right, if somebody else has marked it as not ready.
    reconciliation: Option<Instant>,
    due: Option<(Instant, u64)>,
    /// Whether its final deletion was sent.
    deleted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    None,
    Queued,
    Busy,
}

/// A request has ended.
struct Done {
    uid: Uid,
    /// What a status write told; none for a deletion.
    told: Option<Shown>,
    result: Result<(), Error>,
}

pub(super) struct Kubelets {
    api: Api,
    hosts: BTreeMap<Arc<str>, Host>,
    tenants: HashMap<Uid, Tenant>,
    agenda: BTreeMap<(Instant, u64), Uid>,
    entries: u64,
    queue: VecDeque<Uid>,
    requests: FuturesUnordered<BoxFuture<'static, Done>>,
    addresses: address::Pool,
    /// Whether Pods have an address of each family.
    is_dual_stack: bool,
    /// From running to ready, where no script states it.
    ready_after: Duration,
    waits: Waits,
}

impl Kubelets {
    pub(super) fn new(api: Api, is_dual_stack: bool, ready_after: Duration, waits: Waits) -> Self {
        Self {
            api,
            hosts: BTreeMap::new(),
            tenants: HashMap::default(),
            agenda: BTreeMap::new(),
            entries: 0,
            queue: VecDeque::new(),
            requests: FuturesUnordered::new(),
            addresses: address::Pool::default(),
            is_dual_stack,
            ready_after,
            waits,
        }
    }

    /// Runs Pods until nobody can send news any more.
    pub(super) async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut batch = Vec::with_capacity(CONCURRENCY);
        loop {
            let due = self.agenda.first_key_value().map(|((at, _), _)| *at);
            tokio::select! {
                biased;
                Some(done) = self.requests.next(), if !self.requests.is_empty() => self.settle(done),
                received = news.recv_many(&mut batch, CONCURRENCY) => {
                    if received == 0 {
                        return;
                    }
                    for one in batch.drain(..) {
                        self.hear(one);
                    }
                }
                () = wait(due) => self.meet_agenda(),
            }
            while self.requests.len() < CONCURRENCY {
                let Some(uid) = self.queue.pop_front() else { break };
                self.send(&uid);
            }
        }
    }

    fn now(&self) -> Now {
        let clock = self.api.clock();
        Now { instant: clock.monotonic_now(), wall: clock.now() }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Pod(pod, at) => self.see(pod, at),
            News::PodGone(pod) => self.forget(&pod.metadata.uid),
            News::Node(name, power) => self.switch(&name, power),
        }
    }

    fn switch(&mut self, name: &Arc<str>, power: Power) {
        if let Power::Added(index) | Power::TakenOver(index) = power {
            let keeps = matches!(power, Power::TakenOver(_));
            let host = Host { address: address::host(index), talks: true, lost: false, keeps };
            self.hosts.insert(Arc::clone(name), host);
            return;
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        match power {
            Power::Added(_) | Power::TakenOver(_) => {}
            Power::Silent => host.talks = false,
            Power::Off => {
                host.talks = false;
                host.lost = true;
            }
            Power::On => {
                host.talks = true;
                let lost = std::mem::take(&mut host.lost);
                let now = self.now();
                for uid in self.tenants_of(name) {
                    if let Some(tenant) = self.tenants.get_mut(&uid) {
                        if lost {
                            tenant.life.lose(&tenant.pod, tenant.script.as_deref(), now);
                        }
                        tenant.set_right();
                    }
                    self.look(&uid, now.instant);
                }
            }
            Power::Removed => {
                self.hosts.remove(name);
                for uid in self.tenants_of(name) {
                    self.forget(&uid);
                }
            }
        }
    }

    /// The Pods of a node, in the order of their names.
    fn tenants_of(&self, node: &str) -> Vec<Uid> {
        let mut tenants: Vec<_> = self
            .tenants
            .iter()
            .filter(|(_, t)| t.pod.spec.node_name == *node)
            .map(|(uid, t)| (t.pod.metadata.key(), uid.clone()))
            .collect();
        tenants.sort();
        tenants.into_iter().map(|(_, uid)| uid).collect()
    }

    fn see(&mut self, pod: Arc<Pod>, at: Instant) {
        let uid = pod.metadata.uid.clone();
        let now = self.now();
        if let Some(tenant) = self.tenants.get_mut(&uid) {
            tenant.pod = pod;
            let due = tenant.is_marked().then(|| tenant.reconciliation.unwrap_or(now.instant + RECONCILIATION));
            tenant.reconciliation = due;
        } else {
            let Some(host) = self.hosts.get(&*pod.spec.node_name) else { return };
            let kept = host.keeps && pod.status.start_time.is_some();
            let mut script = Script::of(&pod, |annotation, value| {
                tracing::warn!(pod = %pod.metadata.key(), annotation, value, "Not understood, ignored");
            });
            if !self.ready_after.is_zero() && script.as_ref().is_none_or(|script| script.ready_after.is_zero()) {
                script.get_or_insert_default().ready_after = self.ready_after;
            }
            let life = Life::begin(&pod, script.as_deref(), now);
            let address = self.addresses.take(pod.status.pod_ip.as_deref());
            let told = pod.is_terminal().then(|| Shown::of(&pod, &life));
            let tenant = Tenant {
                pod,
                address,
                script,
                life,
                kept,
                told,
                request: Request::None,
                needed: at,
                failures: 0,
                hold: None,
                reconciliation: None,
                due: None,
                deleted: false,
            };
            self.tenants.insert(uid.clone(), tenant);
        }
        self.look(&uid, at);
    }

    fn forget(&mut self, uid: &Uid) {
        if let Some(tenant) = self.tenants.remove(uid) {
            if let Some(due) = tenant.due {
                self.agenda.remove(&due);
            }
            self.addresses.give_back(tenant.address);
        }
    }

    fn meet_agenda(&mut self) {
        let now = self.api.clock().monotonic_now();
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) {
            let ((at, _), uid) = entry.remove_entry();
            if let Some(tenant) = self.tenants.get_mut(&uid) {
                tenant.due = None;
            }
            self.look(&uid, at);
        }
    }

    /// Brings a Pod's life up to now, and queues a request if the API server is to be told something, which is needed since `at`.
    fn look(&mut self, uid: &Uid, at: Instant) {
        let now = self.now();
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        if tenant.request != Request::None {
            return;
        }
        let talks = self.hosts.get(&*tenant.pod.spec.node_name).is_some_and(|h| h.talks);
        if !talks || (tenant.kept && !tenant.pod.metadata.is_deleting()) {
            return;
        }
        let mut next = tenant.life.advance(&tenant.pod, tenant.script.as_deref(), now);
        if tenant.reconciliation.is_some_and(|at| at <= now.instant) {
            tenant.set_right();
        }
        next = [next, tenant.reconciliation].into_iter().flatten().min();
        if tenant.wants().is_some() {
            match tenant.hold.filter(|at| *at > now.instant) {
                Some(at) => next = [next, Some(at)].into_iter().flatten().min(),
                None => {
                    tenant.request = Request::Queued;
                    tenant.needed = at;
                    self.queue.push_back(uid.clone());
                }
            }
        }
        if tenant.due.map(|(at, _)| at) != next {
            if let Some(due) = tenant.due.take() {
                self.agenda.remove(&due);
            }
            if let Some(at) = next {
                self.entries += 1;
                tenant.due = Some((at, self.entries));
                self.agenda.insert((at, self.entries), uid.clone());
            }
        }
    }

    fn send(&mut self, uid: &Uid) {
        let now = self.now();
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        tenant.request = Request::None;
        let Some(host) = self.hosts.get(&*tenant.pod.spec.node_name).filter(|h| h.talks) else { return };
        tenant.life.advance(&tenant.pod, tenant.script.as_deref(), now);
        let (api, pod, uid) = (self.api.clone(), Arc::clone(&tenant.pod), uid.clone());
        let request: BoxFuture<'static, Done> = match tenant.wants() {
            None => return,
            Some(Wish::Tell(shown)) => {
                let place = Place { host: host.address, pod: tenant.address, is_dual_stack: self.is_dual_stack };
                let patch = report::patch(&tenant.pod, &tenant.life, tenant.script.as_deref(), place);
                Box::pin(async move {
                    let target = RequestTarget::status(PODS, &pod.metadata.namespace, &pod.metadata.name);
                    let result = api.patch(target, PatchFormat::Strategic, &patch).await.map(|_| ());
                    Done { uid, told: Some(shown), result }
                })
            }
            Some(Wish::Delete) => {
                tenant.deleted = true;
                Box::pin(async move {
                    let target = RequestTarget::object(PODS, &pod.metadata.namespace, &pod.metadata.name);
                    let options = DeleteOptions {
                        uid: Some(uid.clone()),
                        grace_period_seconds: Some(0),
                        ..DeleteOptions::default()
                    };
                    let result = api.delete(target, &options).await.map(|_| ());
                    Done { uid, told: None, result }
                })
            }
        };
        self.waits.record(now.instant.saturating_duration_since(tenant.needed));
        tenant.request = Request::Busy;
        self.requests.push(request);
    }

    fn settle(&mut self, done: Done) {
        let now = self.api.clock().monotonic_now();
        let Some(tenant) = self.tenants.get_mut(&done.uid) else { return };
        tenant.request = Request::None;
        match done.result {
            Ok(()) => {
                tenant.failures = 0;
                tenant.hold = None;
                if done.told.is_some() {
                    tenant.told = done.told;
                }
            }
            // Gone, or another Pod of the same name: the watch says the rest.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                self.forget(&done.uid);
                return;
            }
            Err(error) => {
                if !is_transient(&error) {
                    tracing::warn!(pod = %tenant.pod.metadata.key(), err = %error, "Status or deletion refused");
                }
                if done.told.is_none() {
                    tenant.deleted = false;
                }
                tenant.hold = Some(now + backoff(tenant.failures));
                tenant.failures += 1;
            }
        }
        self.look(&done.uid, now);
    }
}

/// What the API server is to be told of a Pod.
enum Wish {
    Tell(Shown),
    Delete,
}

impl Tenant {
    /// Whether somebody else has marked the Pod as not ready, although its kubelet has reported it as ready.
    fn is_marked(&self) -> bool {
        self.life.ready.value && self.told.is_some() && !self.pod.is_terminal() && !self.pod.has_condition(READY)
    }

    /// Reports the Pod anew if it is marked.
    fn set_right(&mut self) {
        self.reconciliation = None;
        if self.is_marked() {
            self.told = None;
        }
    }

    fn wants(&self) -> Option<Wish> {
        let shown = Shown::of(&self.pod, &self.life);
        let deleting = self.pod.metadata.is_deleting();
        if self.told.as_ref() != Some(&shown) && !self.deleted {
            return Some(Wish::Tell(shown));
        }
        (deleting && self.life.has_ended() && !self.deleted).then_some(Wish::Delete)
    }
}

/// Waits until `due`; forever if nothing is.
async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
