//! A running cluster: an API server in memory with a paused clock, nodes, and the loops under test.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    ops::RangeBounds,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use common::{clock::Clock, runtime::LoopDefinition};
use http::Method;
use jiff::Timestamp;
use sandbox::{
    Action, Change, Operation, Rule, Sandbox, Webhook, Write, loops::Loops, nodes::Nodes, replica_sets::ReplicaSets,
};
use serde_json::{Value, json};

use crate::{
    CONTROLLER, Cluster, NAMESPACE, answers,
    objects::{condition, has_finished, is_terminating, name, new_image, text, true_conditions},
};

/// Returns a fault for requests of the loops under test. An empty verb or resource stands for all.
pub fn rule(action: Action, verb: &str, resource: &str) -> Rule {
    let mut rule = Rule::new(action).identity(CONTROLLER);
    rule.matcher.verb = Some(verb.to_owned()).filter(|verb| !verb.is_empty());
    rule.matcher.resource = Some(resource.to_owned()).filter(|resource| !resource.is_empty());
    rule
}

/// Returns a duration of so many seconds.
pub fn in_seconds(seconds: impl Into<f64>) -> Duration {
    Duration::from_secs_f64(seconds.into())
}

/// A running cluster. Objects are in the namespace of the tests unless their resource has no namespaces.
pub struct World {
    /// The API server. Its own methods act as the administrator.
    pub sandbox: Sandbox,
    /// The clock of everything in the cluster.
    pub clock: Clock,
    nodes: Option<Nodes>,
    replica_sets: Option<ReplicaSets>,
    loops: Option<Loops>,
    cluster: Cluster,
}

impl World {
    pub(crate) fn new(
        cluster: Cluster,
        sandbox: Sandbox,
        clock: Clock,
        nodes: Option<Nodes>,
        replica_sets: Option<ReplicaSets>,
    ) -> Self {
        Self { sandbox, clock, nodes, replica_sets, loops: None, cluster }
    }

    /// Starts the loops with empty caches and memories, as a new process does.
    pub fn start(&mut self) {
        let told = Arc::clone(&self.cluster.told);
        let client = answers::client(&self.sandbox, self.cluster.filtered(), self.cluster.lies, told);
        self.loops = Some(Loops::start(&client, &self.clock, self.cluster.settings.clone(), self.cluster.loops));
    }

    /// Starts the loops in shadow mode, as a new process does, and clears the log.
    pub fn start_shadow(&mut self) {
        self.cluster = self.cluster.clone().shadow();
        self.start();
        self.clear_log();
    }

    /// Starts loops that are ready to take over and do not write before [`Loops::lead`].
    pub fn stand_by(&self, identity: &str) -> Loops {
        let client = self.sandbox.client(identity);
        Loops::stand_by(&client, &self.clock, self.cluster.settings.clone(), self.cluster.loops)
    }

    /// Drops the loops as a crash of the process does: no sync is finished, and no Lease is released.
    pub fn crash(&mut self) {
        self.loops = None;
    }

    /// Replaces the process by a new one without a shutdown.
    pub fn restart(&mut self) {
        self.crash();
        self.start();
    }

    /// Returns how many lies of the cluster have changed an answer.
    pub fn told_lies(&self) -> usize {
        self.cluster.told.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Asserts that each lie of the cluster has changed an answer.
    pub fn assert_all_lies_were_told(&self) {
        assert_eq!(self.told_lies(), self.cluster.lies.len(), "{:?}", self.cluster.lies);
    }

    /// Returns the running loops.
    pub fn loops(&self) -> &Loops {
        self.loops.as_ref().expect("the loops do not run")
    }

    /// Stops the loops in good order.
    pub async fn shut_down(&mut self) {
        self.loops.take().expect("the loops do not run").shutdown().await;
    }

    /// Returns the nodes of the cluster.
    pub fn nodes(&self) -> &Nodes {
        self.nodes.as_ref().expect("the cluster has no nodes")
    }

    /// Stops the stand-in for the ReplicaSet controller.
    pub fn stop_replica_sets(&mut self) {
        self.replica_sets = None;
    }

    /// Adds nodes and waits until they are ready.
    pub async fn add_nodes(&self, count: usize) {
        for _ in 0..count {
            drop(self.nodes().add());
        }
        self.nodes().ready().await;
    }

    /// Waits for so many seconds.
    pub async fn wait(&self, seconds: impl Into<f64>) {
        self.clock.sleep(in_seconds(seconds)).await;
    }

    /// Waits until nothing has been written for two seconds, or for [`Cluster::quiet_seconds`].
    pub async fn settle(&self) {
        for _ in 0..2000 {
            let writes = self.sandbox.writes().count();
            self.clock.sleep(self.cluster.quiet).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("the cluster does not settle: {:#?}", self.loops.as_ref().map(|loops| loops.explain(None)));
    }

    /// Waits until `is_done` returns true, and returns how long that took. Panics after so many seconds.
    pub async fn until(&self, most: u64, is_done: impl AsyncFn() -> bool) -> Duration {
        let began = self.clock.monotonic_now();
        while !is_done().await {
            assert!(self.clock.monotonic_now() - began < Duration::from_secs(most), "not within {most} s");
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        self.clock.monotonic_now() - began
    }

    /// Returns how many seconds have passed since a time.
    pub fn seconds_since(&self, time: Timestamp) -> i64 {
        self.clock.now().duration_since(time).as_secs()
    }

    // Faults.

    /// Adds a fault.
    pub fn fault(&self, rule: Rule) {
        self.sandbox.faults().add(rule);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.sandbox.faults().clear();
    }

    /// Withholds the watch events of a resource from the loops. The plural has no group.
    pub fn hold(&self, plural: &str) {
        self.sandbox.faults().hold_watch(CONTROLLER, plural);
    }

    /// Delivers the watch events that were withheld.
    pub fn release(&self, plural: &str) {
        self.sandbox.faults().release_watch(CONTROLLER, plural);
    }

    /// Delays the watch events of a resource by so many seconds.
    pub fn delay(&self, plural: &str, seconds: impl Into<f64>) {
        self.sandbox.faults().delay_watch(CONTROLLER, plural, in_seconds(seconds));
    }

    /// Removes a label from each Pod that the loops write, as a mutating webhook does.
    pub fn strip_label(&self, label: &str) {
        let path = format!("/metadata/labels/{}", label.replace('/', "~1"));
        let patch = json!([{"op": "add", "path": path, "value": ""}, {"op": "remove", "path": path}]);
        for operation in [Operation::Create, Operation::Update] {
            let webhook = Webhook::new("strips", operation, "pods").identity(CONTROLLER);
            self.sandbox.webhooks().install(webhook.patches(patch.clone()));
        }
    }

    // Objects.

    /// Creates an object.
    pub async fn create(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    /// Returns an object; `None` if it does not exist.
    pub async fn find(&self, resource: &str, name: &str) -> Option<Value> {
        self.sandbox.get(resource, namespace_of(resource), name).await.ok()
    }

    /// Returns an object.
    pub async fn get(&self, resource: &str, name: &str) -> Value {
        self.sandbox.get(resource, namespace_of(resource), name).await.unwrap()
    }

    /// Returns all objects of a resource.
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        self.sandbox.list(resource, namespace_of(resource)).await.unwrap()
    }

    /// Returns the names of all objects of a resource.
    pub async fn names(&self, resource: &str) -> Vec<String> {
        self.list(resource).await.iter().map(|object| name(object).to_owned()).collect()
    }

    /// Sends a merge patch.
    pub async fn patch(&self, resource: &str, name: &str, patch: Value) -> Value {
        self.sandbox.merge(resource, namespace_of(resource), name, None, patch).await.unwrap()
    }

    /// Sends a merge patch with these fields of the status.
    pub async fn patch_status(&self, resource: &str, name: &str, status: Value) -> Value {
        let patch = json!({ "status": status });
        self.sandbox.merge(resource, namespace_of(resource), name, Some("status"), patch).await.unwrap()
    }

    /// Merges these labels into those of an object; null removes all.
    pub async fn label(&self, resource: &str, name: &str, labels: Value) {
        self.patch(resource, name, json!({"metadata": {"labels": labels}})).await;
    }

    /// Deletes an object.
    pub async fn delete(&self, resource: &str, name: &str) {
        self.sandbox.delete(resource, namespace_of(resource), name).await.unwrap();
    }

    /// Deletes the object at a path, such as `/api/v1/namespaces/shop/pods/p`, with these fields in the options.
    pub async fn delete_with(&self, path: &str, options: Value) {
        let body = crate::objects::merged(json!({"kind": "DeleteOptions", "apiVersion": "v1"}), options);
        self.sandbox.send(Method::DELETE, path, "application/json", Some(&body)).await.unwrap();
    }

    /// Changes an annotation that nobody uses, so that the object is enqueued.
    pub async fn touch(&self, resource: &str, name: &str) {
        let now = self.clock.now().to_string();
        self.patch(resource, name, json!({"metadata": {"annotations": {"touched": now}}})).await;
    }

    /// Creates an object, and waits until the cluster has settled.
    pub async fn create_and_settle(&self, object: Value) -> Value {
        let created = self.create(object).await;
        self.settle().await;
        created
    }

    /// Sends a merge patch, and waits until the cluster has settled.
    pub async fn patch_and_settle(&self, resource: &str, name: &str, patch: Value) {
        self.patch(resource, name, patch).await;
        self.settle().await;
    }

    /// Deletes an object, and waits until the cluster has settled.
    pub async fn delete_and_settle(&self, resource: &str, name: &str) {
        self.delete(resource, name).await;
        self.settle().await;
    }

    // The subject.

    /// Returns the subject of the tests.
    pub async fn subject(&self) -> Value {
        self.get(self.cluster.subject.0, self.cluster.subject.1).await
    }

    /// Returns the status of the subject.
    pub async fn status(&self) -> Value {
        self.subject().await["status"].take()
    }

    /// Returns the status of an object.
    pub async fn status_of(&self, resource: &str, name: &str) -> Value {
        self.get(resource, name).await["status"].take()
    }

    /// Returns a condition of the subject; null if it is absent.
    pub async fn condition(&self, kind: &str) -> Value {
        condition(&self.subject().await, kind)
    }

    /// Returns all conditions of the subject.
    pub async fn conditions(&self) -> Vec<Value> {
        self.status().await["conditions"].as_array().cloned().unwrap_or_default()
    }

    /// Returns type and reason of each condition of the subject that is true.
    pub async fn true_conditions(&self) -> Vec<String> {
        true_conditions(&self.subject().await)
    }

    /// Runs other loops from the next start on.
    pub fn set_loops(&mut self, loops: &'static [LoopDefinition]) {
        self.cluster = self.cluster.clone().loops(loops);
    }

    /// Merges these fields into the `spec` of the subject.
    pub async fn change(&self, spec: Value) {
        self.patch(self.cluster.subject.0, self.cluster.subject.1, json!({ "spec": spec })).await;
    }

    /// Changes the size of the subject.
    pub async fn scale(&self, replicas: usize) {
        self.change(json!({ "replicas": replicas })).await;
    }

    /// Changes the image and the annotations in the Pod template of the subject.
    pub async fn roll_out(&self, image: &str, annotations: Value) {
        self.change(new_image(image, annotations)).await;
    }

    /// Merges these fields into the `spec` of the subject, and waits until the cluster has settled.
    pub async fn change_and_settle(&self, spec: Value) {
        self.change(spec).await;
        self.settle().await;
    }

    /// Changes the image of the subject, and waits until the cluster has settled.
    pub async fn roll_out_and_settle(&self, image: &str) {
        self.roll_out(image, json!({})).await;
        self.settle().await;
    }

    /// Changes an annotation of the subject that nobody uses, so that the subject is enqueued.
    pub async fn touch_subject(&self) {
        self.touch(self.cluster.subject.0, self.cluster.subject.1).await;
    }

    pub(crate) fn subject_resource_and_name(&self) -> (&'static str, &'static str) {
        self.cluster.subject
    }

    /// Touches the subject once a second for so many seconds.
    pub async fn touch_subject_for(&self, seconds: u32) {
        for _ in 0..seconds {
            self.wait(1).await;
            self.touch_subject().await;
        }
    }

    /// Returns the key of the subject: `NAMESPACE/NAME`, or `NAME` for a resource without namespaces.
    pub fn key(&self) -> String {
        let (resource, name) = self.cluster.subject;
        namespace_of(resource).map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// Returns what the first loop explains about the subject.
    pub fn explain(&self) -> Value {
        self.loops().explain(Some(&self.key()))[0].take()
    }

    /// Returns for what the first loop waits before it goes on with the subject, as one text.
    pub fn waiting(&self) -> String {
        self.explain()["waiting"].to_string()
    }

    /// Asserts that the first loop waits for something with this text before it goes on with the subject.
    pub fn assert_waits(&self, text: &str) {
        assert!(self.waiting().contains(text), "{text}: {}", self.waiting());
    }

    /// Returns the plans for the subject that contain requests, each with the time of its decision.
    pub fn plans(&self) -> Vec<(Timestamp, Vec<String>)> {
        self.loops().plans(&self.key())
    }

    /// Returns when an action of the subject that begins so was planned first, in seconds after a time.
    pub fn planned_after(&self, action: &str, since: Timestamp) -> Option<i64> {
        let plans = self.plans();
        let (at, _) = plans.iter().find(|(_, actions)| actions.iter().any(|planned| planned.starts_with(action)))?;
        Some(at.duration_since(since).as_secs())
    }

    // Pods.

    /// Returns all Pods.
    pub async fn pods(&self) -> Vec<Value> {
        self.list("pods").await
    }

    /// Returns the names of the Pods that are neither finished nor terminating.
    pub async fn active_pods(&self) -> BTreeSet<String> {
        let pods = self.pods().await;
        let active = pods.iter().filter(|pod| !is_terminating(pod) && !has_finished(pod));
        active.map(|pod| name(pod).to_owned()).collect()
    }

    /// Returns the first of the active Pods in the order of their names.
    pub async fn first_active_pod(&self) -> String {
        self.active_pods().await.into_iter().next().expect("no Pod is active")
    }

    /// Merges these fields into the status of a Pod, as its kubelet does.
    pub async fn patch_pod_status(&self, pod: &str, status: Value) {
        self.patch_status("pods", pod, status).await;
    }

    // What the loops did.

    /// Clears the counts of requests and the log of writes.
    pub fn clear_log(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the number of requests of the loops since the log was cleared.
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER), Some(verb), Some(resource))
    }

    /// Asserts how many requests of the loops there were since the log was cleared.
    pub fn assert_count(&self, verb: &str, resource: &str, range: impl RangeBounds<u64> + Debug) {
        let count = self.count(verb, resource);
        assert!(range.contains(&count), "{verb} {resource}: {count} requests, expected {range:?}");
    }

    /// Returns the number of all requests of the loops since the log was cleared.
    pub fn count_all(&self) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER), None, None)
    }

    /// Returns the pauses between the requests of the loops in the next so many seconds, in milliseconds.
    pub async fn pauses(&self, verb: &str, resource: &str, seconds: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let mut known = self.count(verb, resource);
        for millisecond in 0..seconds * 1000 {
            self.wait(0.001).await;
            let now = self.count(verb, resource);
            times.extend((known..now).map(|_| millisecond));
            known = now;
        }
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Returns the writes of the loops since the log was cleared, without Events.
    pub fn own_writes(&self) -> Vec<Arc<Write>> {
        self.sandbox.writes().all().into_iter().filter(|write| is_own(write)).collect()
    }

    /// Returns a line for each write of the loops, such as `patch deployments/status web`.
    pub fn own_write_lines(&self) -> Vec<String> {
        let line = |write: Arc<Write>| {
            let subresource = write.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
            format!("{} {}{subresource} {}", write.verb, write.resource, write.name)
        };
        self.own_writes().into_iter().map(line).collect()
    }

    /// Returns the number of writes of the loops by verb and resource, without Events.
    pub fn write_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for write in self.own_writes() {
            *counts.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
        }
        counts
    }

    /// Asserts that the loops have written nothing since the log was cleared. Events count, too.
    pub fn assert_wrote_nothing(&self) {
        let writes = self.sandbox.writes().all();
        let own: Vec<_> = writes.iter().filter(|write| write.identity == CONTROLLER).collect();
        assert!(own.is_empty(), "{own:?}");
    }

    /// Returns the maximum number of Pods that existed at one time and were not terminating.
    pub fn max_live_pods(&self) -> usize {
        self.pod_extremes(usize::MAX).0
    }

    /// Returns the maximum number of Pods at one time, and the minimum number of ready Pods after `replicas` were ready once.
    /// Terminating Pods do not count.
    pub fn pod_extremes(&self, replicas: usize) -> (usize, usize) {
        let (mut live, mut ready) = (BTreeSet::new(), BTreeSet::new());
        let (mut most, mut fewest, mut is_complete) = (0, usize::MAX, false);
        for write in self.sandbox.writes().all().iter().filter(|write| write.resource == "pods") {
            let pod = write.after().filter(|pod| write.change != Change::Deleted && !is_terminating(pod));
            live.remove(&write.name);
            ready.remove(&write.name);
            if let Some(pod) = pod {
                live.insert(write.name.clone());
                if sandbox::nodes::is_ready(&pod) {
                    ready.insert(write.name.clone());
                }
            }
            most = most.max(live.len());
            is_complete |= ready.len() >= replicas;
            if is_complete {
                fewest = fewest.min(ready.len());
            }
        }
        (most, fewest)
    }

    /// Returns all Events as type, reason and message, sorted. Repeated Events occur once.
    pub async fn events(&self) -> Vec<String> {
        self.events_in(NAMESPACE).await
    }

    /// Returns all Events in a namespace as [`World::events`] does.
    pub async fn events_in(&self, namespace: &str) -> Vec<String> {
        let events = self.sandbox.list("events", Some(namespace)).await.unwrap();
        let mut lines: Vec<String> = events.iter().map(event_line).collect();
        lines.sort();
        lines
    }

    /// Returns how many different Events begin with this text.
    pub async fn event_count(&self, start: &str) -> usize {
        self.events().await.iter().filter(|event| event.starts_with(start)).count()
    }

    /// Asserts that an Event begins with this text.
    pub async fn assert_event(&self, start: &str) {
        assert!(self.event_count(start).await > 0, "{start}: {:#?}", self.events().await);
    }

    /// Returns how many Events with this reason were recorded, with repetitions.
    pub async fn event_repetitions(&self, reason: &str) -> i64 {
        let events = self.list("events").await;
        let of_reason = events.iter().filter(|event| event["reason"] == reason);
        of_reason.map(|event| event["count"].as_i64().unwrap_or(1)).sum()
    }

    /// Returns how often Events were recorded that begin with this text, with repetitions.
    pub async fn repetitions_of(&self, start: &str) -> i64 {
        let events = self.list("events").await;
        let counted = events.iter().filter(|event| event_line(event).starts_with(start));
        counted.map(|event| event["count"].as_i64().unwrap_or(1)).sum()
    }

    /// Returns the metrics of the loops in the format of Prometheus.
    pub fn metrics(&self) -> String {
        self.loops().metrics().render_prometheus()
    }

    /// Returns the sum of a metric over all its labels.
    pub fn metric_sum(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let of_name = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Returns the value of a metric that is a whole number. The name includes the labels.
    pub fn metric(&self, name: &str) -> u64 {
        metric(self.loops(), name).parse().unwrap_or_else(|_| panic!("{name} is not a whole number"))
    }
}

/// Returns type, reason and message of an Event.
fn event_line(event: &Value) -> String {
    format!("{} {} {}", text(event, "type"), text(event, "reason"), text(event, "message"))
}

/// Returns the value of a metric of these loops as text. The name includes the labels.
pub fn metric(loops: &Loops, name: &str) -> String {
    let metrics = loops.metrics().render_prometheus();
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name}: {metrics}")).to_owned()
}

/// Whether the loops under test made the write, and it is not an Event.
pub(crate) fn is_own(write: &Write) -> bool {
    write.identity == CONTROLLER && write.resource != "events"
}

/// The resources without namespaces that tests work with.
const CLUSTER_SCOPED: [&str; 5] = [
    "nodes",
    "namespaces",
    "persistentvolumes",
    "clusterroles.rbac.authorization.k8s.io",
    "clustertrustbundles.certificates.k8s.io",
];

/// Returns the namespace of objects of a resource; `None` for resources without namespaces.
fn namespace_of(resource: &str) -> Option<&'static str> {
    Some(NAMESPACE).filter(|_| !CLUSTER_SCOPED.contains(&resource))
}
