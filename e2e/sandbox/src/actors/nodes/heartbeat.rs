//! Nodes towards the API server: registration, Leases and status.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::{Api, Error, PatchFormat, RequestTarget, WrittenObject},
    clock::Instant,
    conditions::seconds,
    meta::{ResourceVersion, Uid},
};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{
    address,
    objects::{LEASES, NODES},
    request::{CONCURRENCY, backoff, insist},
};

/// Where kubelets keep their Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long a Lease is good for. Upstream: `nodeLeaseDurationSeconds`.
const LEASE_SECONDS: u64 = 40;
/// How often an unchanged status is reported. Upstream: `nodeStatusReportFrequency`.
const REPORT_EVERY: Duration = Duration::from_secs(300);
/// What the runtime of our nodes is called, and what tells them from others.
pub const RUNTIME: &str = "sim://";
/// The taint the API server gives to new Nodes.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What the task is told.
pub(super) enum News {
    /// A node is to be registered; the number is its place among all nodes.
    Add(Arc<str>, u32),
    /// A node stops or goes on reporting.
    Talk(Arc<str>, Contact),
    /// A condition of a node changes.
    Condition(Arc<str>, Box<str>, bool),
    /// A node is to be deleted.
    Remove(Arc<str>),
}

/// What a node says to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    None,
    /// It renews its Lease. Its status is not reported.
    Renewals,
    Full,
}

/// How nodes behave towards the API server.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// How often Leases are renewed; never if none.
    pub(super) every: Option<Duration>,
    pub(super) zones: u32,
}

/// A condition that is not as usual.
#[derive(Clone, Copy, Debug)]
struct Override {
    value: bool,
    since: Timestamp,
}

#[derive(Clone, Debug)]
struct Host {
    name: Arc<str>,
    index: u32,
    since: Timestamp,
    uid: Option<Uid>,
    lease: Option<ResourceVersion>,
    reported: Option<Instant>,
    conditions: BTreeMap<Box<str>, Override>,
    contact: Contact,
    /// Whether a request is on its way.
    busy: bool,
    /// Whether there is something to say besides the heartbeat.
    dirty: bool,
    failures: u32,
    due: Option<(Instant, u32)>,
}

struct Done {
    name: Arc<str>,
    uid: Option<Uid>,
    lease: Option<ResourceVersion>,
    reported: Option<Instant>,
    result: Result<(), Error>,
}

pub(super) struct Heartbeat {
    api: Api,
    settings: Settings,
    hosts: BTreeMap<Arc<str>, Host>,
    agenda: BTreeMap<(Instant, u32), Arc<str>>,
    requests: FuturesUnordered<BoxFuture<'static, Done>>,
    registered: watch::Sender<usize>,
}

impl Heartbeat {
    pub(super) fn new(api: Api, settings: Settings, registered: watch::Sender<usize>) -> Self {
        Self {
            api,
            settings,
            hosts: BTreeMap::new(),
            agenda: BTreeMap::new(),
            requests: FuturesUnordered::new(),
            registered,
        }
    }

    /// Keeps the nodes alive until nobody can send news any more.
    pub(super) async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        loop {
            let due =
                self.agenda.first_key_value().map(|((at, _), _)| *at).filter(|_| self.requests.len() < CONCURRENCY);
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(done) = self.requests.next(), if !self.requests.is_empty() => self.settle(done),
                received = news.recv() => match received {
                    None => return,
                    Some(news) => self.hear(news),
                },
                () = wait => self.beat(),
            }
        }
    }

    fn hear(&mut self, news: News) {
        let clock = self.api.clock().clone();
        match news {
            News::Add(name, index) => {
                let host = Host {
                    name: Arc::clone(&name),
                    index,
                    since: clock.now(),
                    uid: None,
                    lease: None,
                    reported: None,
                    conditions: BTreeMap::new(),
                    contact: Contact::Full,
                    busy: false,
                    dirty: true,
                    failures: 0,
                    due: None,
                };
                self.hosts.insert(Arc::clone(&name), host);
                self.plan(&name, clock.monotonic_now());
            }
            News::Talk(name, contact) => {
                let Some(host) = self.hosts.get_mut(&name) else { return };
                host.contact = contact;
                host.dirty |= contact == Contact::Full;
                if contact != Contact::None {
                    self.plan(&name, clock.monotonic_now());
                }
            }
            News::Condition(name, kind, value) => {
                let Some(host) = self.hosts.get_mut(&name) else { return };
                let usual = &*kind == "Ready";
                let before = host.conditions.get(&kind).map_or(usual, |o| o.value);
                if before != value {
                    host.conditions.insert(kind, Override { value, since: clock.now() });
                    host.dirty = true;
                    self.plan(&name, clock.monotonic_now());
                }
            }
            News::Remove(name) => {
                if let Some(host) = self.hosts.remove(&name)
                    && let Some(due) = host.due
                {
                    self.agenda.remove(&due);
                }
                let api = self.api.clone();
                self.requests.push(Box::pin(async move {
                    let options = common::api::DeleteOptions::default();
                    let lease = RequestTarget::object(LEASES, LEASE_NAMESPACE, &name);
                    let _ = insist(&api, || api.delete(lease.clone(), &options)).await;
                    let node = RequestTarget::object(NODES, "", &name);
                    let result = insist(&api, || api.delete(node.clone(), &options)).await.map(|_| ());
                    Done { name, uid: None, lease: None, reported: None, result }
                }));
            }
        }
    }

    /// Puts a node on the agenda, in the place of what stood there for it.
    fn plan(&mut self, name: &Arc<str>, at: Instant) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if let Some(due) = host.due.take() {
            self.agenda.remove(&due);
        }
        host.due = Some((at, host.index));
        self.agenda.insert((at, host.index), Arc::clone(name));
    }

    fn beat(&mut self) {
        let now = self.api.clock().monotonic_now();
        while self.requests.len() < CONCURRENCY {
            let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) else { return };
            let name = entry.remove();
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            host.due = None;
            if host.contact == Contact::None || host.busy {
                continue;
            }
            host.busy = true;
            let is_old = |at| self.settings.every.is_some() && now - at >= REPORT_EVERY;
            let report = host.contact == Contact::Full && (host.dirty || host.reported.is_none_or(is_old));
            host.dirty &= !report;
            self.requests.push(Box::pin(report_node(self.api.clone(), host.clone(), self.settings.clone(), report)));
        }
    }

    fn settle(&mut self, done: Done) {
        let now = self.api.clock().monotonic_now();
        let Some(host) = self.hosts.get_mut(&done.name) else {
            if let Err(error) = done.result
                && !error.is_not_found()
            {
                tracing::warn!(node = &*done.name, err = %error, "Node could not be removed");
            }
            return;
        };
        host.busy = false;
        let new = host.uid.is_none() && done.uid.is_some();
        host.uid = done.uid;
        host.lease = done.lease;
        host.reported = done.reported;
        let next = match done.result {
            Ok(()) => {
                host.failures = 0;
                if host.dirty && host.contact == Contact::Full {
                    Some(now)
                } else {
                    self.settings.every.map(|every| now + every)
                }
            }
            Err(error) => {
                tracing::debug!(node = &*done.name, err = %error, "Heartbeat failed, trying again");
                host.failures += 1;
                host.dirty = true;
                Some(now + backoff(host.failures))
            }
        };
        if new {
            self.registered.send_modify(|n| *n += 1);
        }
        if let Some(at) = next {
            self.plan(&done.name, at);
        }
    }
}

/// One heartbeat: registers the node if that has not been done, reports its status if `report`, renews its Lease.
async fn report_node(api: Api, mut host: Host, settings: Settings, report: bool) -> Done {
    let result = async {
        if host.uid.is_none() {
            let uid = register(&api, &host, &settings).await?;
            host.uid = Some(uid);
            host.reported = Some(api.clock().monotonic_now());
        } else if report {
            let status = json!({"status": {"conditions": conditions(&host, api.clock().now())}});
            api.patch(RequestTarget::status(NODES, "", &host.name), PatchFormat::Strategic, &status).await?;
            host.reported = Some(api.clock().monotonic_now());
        }
        if settings.every.is_some() {
            host.lease = Some(renew(&api, &host).await?);
        }
        Ok(())
    }
    .await;
    if result.is_err() {
        host.lease = None;
    }
    Done { name: host.name, uid: host.uid, lease: host.lease, reported: host.reported, result }
}

/// Creates the Node, or takes over the one that is there.
async fn register(api: &Api, host: &Host, settings: &Settings) -> Result<Uid, Error> {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Spec {
        taints: Vec<Value>,
    }
    #[derive(serde::Deserialize)]
    struct Node {
        metadata: common::meta::Meta,
        #[serde(default)]
        spec: Spec,
    }
    let node = object(host, settings.zones, api.clock().now());
    let answer = match api.create(RequestTarget::object(NODES, "", ""), &node).await {
        Err(error) if error.is_already_exists() => {
            let labels = json!({"metadata": {"labels": node["metadata"]["labels"]}});
            api.patch(RequestTarget::object(NODES, "", &host.name), PatchFormat::Strategic, &labels).await?;
            let status = json!({"status": node["status"]});
            api.patch(RequestTarget::status(NODES, "", &host.name), PatchFormat::Strategic, &status).await?
        }
        answer => answer?,
    };
    let node: Node = serde_json::from_slice(&answer)?;
    let is_new_taint = |t: &Value| t["key"] == NOT_READY;
    if node.spec.taints.iter().any(is_new_taint) {
        let rest: Vec<_> = node.spec.taints.into_iter().filter(|t| !is_new_taint(t)).collect();
        let taints = json!({"spec": {"taints": if rest.is_empty() { Value::Null } else { Value::Array(rest) }}});
        api.patch(RequestTarget::object(NODES, "", &host.name), PatchFormat::Merge, &taints).await?;
    }
    Ok(node.metadata.uid)
}

/// Renews the Lease with the version it had, or creates it, or takes over the one that is there.
async fn renew(api: &Api, host: &Host) -> Result<ResourceVersion, Error> {
    let now = api.clock().now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": host.name, "namespace": LEASE_NAMESPACE, "ownerReferences":
            [{"apiVersion": "v1", "kind": "Node", "name": host.name, "uid": host.uid}]},
        "spec": {"holderIdentity": host.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
    });
    let object = || RequestTarget::object(LEASES, LEASE_NAMESPACE, &host.name);
    let version = match host.lease {
        Some(version) => version,
        None => match api.create(RequestTarget::object(LEASES, LEASE_NAMESPACE, ""), &lease).await {
            Ok(answer) => return version_of(&answer),
            Err(error) if error.is_already_exists() => version_of(&api.get(object()).await?)?,
            // A server that has not made the namespace yet, or never does.
            Err(error) if error.is_not_found() => {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}});
                match api.create(RequestTarget::object(NAMESPACES, "", ""), &namespace).await {
                    Err(error) if !error.is_already_exists() => return Err(error),
                    _ => {
                        return version_of(
                            &api.create(RequestTarget::object(LEASES, LEASE_NAMESPACE, ""), &lease).await?,
                        );
                    }
                }
            }
            Err(error) => return Err(error),
        },
    };
    lease["metadata"]["resourceVersion"] = json!(version);
    version_of(&api.replace(object(), &lease).await?)
}

const NAMESPACES: common::object::Resource =
    common::object::Resource::cluster_scoped("", "v1", "namespaces", "Namespace");

fn version_of(answer: &[u8]) -> Result<ResourceVersion, Error> {
    Ok(serde_json::from_slice::<WrittenObject>(answer)?.metadata.resource_version)
}

/// The Node as its kubelet registers it.
fn object(host: &Host, zones: u32, now: Timestamp) -> Value {
    let capacity = json!({"cpu": "64", "memory": "256Gi", "pods": "20k", "ephemeral-storage": "1Ti"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.name, "labels": {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": host.name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "r",
            "topology.kubernetes.io/zone": format!("z{}", host.index % zones),
        }},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": address::host(host.index)},
                {"type": "Hostname", "address": host.name},
            ],
            "conditions": conditions(host, now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": format!("{RUNTIME}1"), "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "v1.36.2", "machineID": "", "operatingSystem": "linux",
                "osImage": "sandbox", "systemUUID": "",
            },
        },
    })
}

fn conditions(host: &Host, now: Timestamp) -> Value {
    const CONDITIONS: [(&str, [&str; 2], [&str; 2]); 4] = [
        (
            "MemoryPressure",
            ["KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"],
            ["kubelet has sufficient memory available", "kubelet has insufficient memory available"],
        ),
        (
            "DiskPressure",
            ["KubeletHasNoDiskPressure", "KubeletHasDiskPressure"],
            ["kubelet has no disk pressure", "kubelet has disk pressure"],
        ),
        (
            "PIDPressure",
            ["KubeletHasSufficientPID", "KubeletHasInsufficientPID"],
            ["kubelet has sufficient PID available", "kubelet has insufficient PID available"],
        ),
        ("Ready", ["KubeletNotReady", "KubeletReady"], ["kubelet is not ready", "kubelet is posting ready status"]),
    ];
    let all = CONDITIONS.iter().map(|(kind, reasons, messages)| {
        let changed = host.conditions.get(*kind);
        let value = changed.map_or(*kind == "Ready", |o| o.value);
        let since = changed.map_or(host.since, |o| o.since);
        json!({
            "type": kind,
            "status": if value { "True" } else { "False" },
            "reason": reasons[usize::from(value)],
            "message": messages[usize::from(value)],
            "lastHeartbeatTime": seconds::format_rfc3339(now),
            "lastTransitionTime": seconds::format_rfc3339(since),
        })
    });
    Value::Array(all.collect())
}
