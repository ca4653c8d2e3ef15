//! What always holds of taint eviction and Pod garbage collection, and what holds in the end, read off the API server's true
//! state.
//!
//! A Pod is deleted on what the server said of it and of its node, not on what a cache showed: the allowance for stale views
//! covers only the time between these reads and the deletion.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;
use serde_json::Value;

use crate::{
    json::{at, condition, is_deleting, name, number, text},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "node-lifecycle-controller";
const NODES: &str = "nodes";
const PODS: &str = "pods";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The time between the live read of a node and the deletion of a Pod because of it: the second for which the read counts, and
/// two writes, each of which the server may send away for two seconds.
const LIVE: Duration = Duration::from_secs(6);
/// How long a node is missing before its Pods are removed.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How many ended Pods are kept in these scenarios.
pub(super) const THRESHOLD: usize = 3;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "writes-nothing-but-pods", claims: "NODE-91", check: writes_nothing_but_pods },
    Invariant { name: "few-ended-pods-are-kept", claims: "NODE-65", check: few_ended_pods_are_kept },
];

/// What holds whoever taints the nodes.
pub(super) const OF_EVICTION: &[Invariant] = &[
    Invariant { name: "evictions-have-a-taint", claims: "NODE-49, NODE-51, NODE-56", check: evictions_have_a_taint },
    Invariant { name: "tolerated-time-is-granted", claims: "NODE-48", check: tolerated_time_is_granted },
    Invariant { name: "evictions-give-a-reason", claims: "NODE-55", check: evictions_give_a_reason },
    Invariant {
        name: "only-lost-pods-are-failed",
        claims: "NODE-66, NODE-67, NODE-68, NODE-70",
        check: only_lost_pods_are_failed,
    },
    Invariant { name: "ended-pods-keep-their-phase", claims: "NODE-69", check: ended_pods_keep_their_phase },
    Invariant { name: "finalizers-of-pods-stay", claims: "NODE-69", check: finalizers_stay },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise { name: "no-pod-stays-untolerated", claims: "NODE-48", check: no_pod_stays_untolerated },
    Promise { name: "no-orphan-is-left", claims: "NODE-67", check: no_orphan_is_left },
    Promise { name: "no-pod-terminates-for-ever", claims: "NODE-66, NODE-68", check: no_pod_terminates_for_ever },
    Promise { name: "few-ended-pods-are-left", claims: "NODE-65", check: few_ended_pods_are_left },
];

/// How long the tolerations of a Pod let it stay on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stay {
    No,
    For(i64),
    Always,
}

fn evicting(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = at(node, "/spec/taints").and_then(Value::as_array).into_iter().flatten();
    taints.filter(|taint| taint["effect"] == "NoExecute")
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let any_or = |field: &str| {
        let own = toleration[field].as_str().unwrap_or_default();
        own.is_empty() || own == taint[field].as_str().unwrap_or_default()
    };
    let values = toleration["value"].as_str().unwrap_or_default() == taint["value"].as_str().unwrap_or_default();
    any_or("key") && any_or("effect") && (toleration["operator"] == "Exists" || values)
}

fn stay(pod: &Value, node: &Value) -> Stay {
    let tolerations: Vec<&Value> =
        at(pod, "/spec/tolerations").and_then(Value::as_array).into_iter().flatten().collect();
    let one = |taint: &Value| match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
        None => Stay::No,
        Some(toleration) => toleration["tolerationSeconds"].as_i64().map_or(Stay::Always, Stay::For),
    };
    evicting(node).map(one).min().unwrap_or(Stay::Always)
}

fn node_name(pod: &Value) -> &str {
    text(pod, "/spec/nodeName")
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn is_out_of_service(node: &Value) -> bool {
    let taints = at(node, "/spec/taints").and_then(Value::as_array).into_iter().flatten();
    condition(node, "Ready", "status") != "True" && taints.into_iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// The states of the Pod's node that the server may have answered a live read with.
fn live_nodes<'a>(world: &'a World, pod: &Value) -> Vec<Option<&'a Arc<Value>>> {
    world.within(NODES, "", node_name(pod), LIVE)
}

/// The Pod as it was when the controller deleted it.
fn deleted(logged: &Logged) -> Option<Arc<Value>> {
    logged.before().filter(|_| logged.by(CONTROLLER) && logged.resource() == PODS && logged.deletes())
}

/// The same of a Pod that the eviction deleted: the garbage collector lets Pods end first.
fn evicted(logged: &Logged) -> Option<Arc<Value>> {
    deleted(logged).filter(|pod| !has_ended(pod))
}

fn writes_nothing_but_pods(_: &World, logged: &Logged) -> Result<(), String> {
    let allowed =
        matches!(logged.resource().as_str(), PODS | "events") && !(logged.creates() && logged.resource() == PODS);
    if logged.by(CONTROLLER) && !allowed {
        return Err(format!("{} {} is written", logged.resource(), logged.write.name));
    }
    Ok(())
}

fn evictions_have_a_taint(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(pod) = evicted(logged) else { return Ok(()) };
    // A timer outlives its node.
    let may_leave = |node: Option<&Arc<Value>>| node.is_none_or(|node| stay(&pod, node) != Stay::Always);
    if live_nodes(world, &pod).into_iter().any(may_leave) {
        return Ok(());
    }
    Err(format!("{} is evicted and tolerates every taint of {}", name(&pod), node_name(&pod)))
}

/// Since when something is true of a node. Interruptions that are too short to be seen do not count.
fn since(world: &World, node: &str, is_true: impl Fn(Option<&Value>) -> bool) -> Option<Instant> {
    let unseen = world.lag() + LIVE;
    let mut since: Option<Instant> = is_true(None).then(|| world.log().first().map(|logged| logged.at)).flatten();
    let mut ended: Option<Instant> = None;
    for logged in world.log().iter().filter(|logged| logged.resource() == NODES && logged.write.name == node) {
        if !is_true(logged.after().as_deref()) {
            ended.get_or_insert(logged.at);
            continue;
        }
        if ended.take().is_some_and(|ended| logged.at.saturating_duration_since(ended) > unseen) {
            since = None;
        }
        since.get_or_insert(logged.at);
    }
    since
}

fn tolerated_time_is_granted(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(pod) = evicted(logged) else { return Ok(()) };
    let stays = live_nodes(world, &pod).into_iter().flatten().map(|node| stay(&pod, node));
    let Some(Stay::For(seconds)) = stays.min() else { return Ok(()) };
    let is_tainted = |node: Option<&Value>| node.is_none_or(|node| evicting(node).next().is_some());
    let Some(since) = since(world, node_name(&pod), is_tainted) else { return Ok(()) };
    let stayed = world.now().saturating_duration_since(since);
    // The node may be missing before it exists: then nothing is known of the time.
    if stayed + Duration::from_secs(1) < Duration::from_secs(seconds.unsigned_abs()) {
        return Err(format!("{} is evicted after {stayed:?} and tolerates its node for {seconds} s", name(&pod)));
    }
    Ok(())
}

fn evictions_give_a_reason(_: &World, logged: &Logged) -> Result<(), String> {
    let Some(pod) = evicted(logged) else { return Ok(()) };
    let said = |field: &str| condition(&pod, "DisruptionTarget", field);
    if said("status") == "True" && said("reason") == "DeletionByTaintManager" {
        return Ok(());
    }
    Err(format!("{} is evicted with the reason {:?}", name(&pod), said("reason")))
}

/// Whether the garbage collector may remove a Pod that has not ended.
fn is_lost(world: &World, pod: &Value) -> bool {
    if node_name(pod).is_empty() {
        return is_deleting(pod);
    }
    let nodes = live_nodes(world, pod);
    if is_deleting(pod) && nodes.iter().flatten().any(|node| is_out_of_service(node)) {
        return true;
    }
    let missing = since(world, node_name(pod), |node| node.is_none());
    let missing_for = missing.map_or(Duration::ZERO, |since| world.now().saturating_duration_since(since));
    nodes.iter().any(Option::is_none) && missing_for >= QUARANTINE
}

fn only_lost_pods_are_failed(world: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    let fails = logged.by(CONTROLLER) && logged.resource() == PODS && !has_ended(&before) && has_ended(&after);
    if !fails || is_lost(world, &before) {
        return Ok(());
    }
    Err(format!("{} is failed and its node {:?} is there", name(&before), node_name(&before)))
}

fn ended_pods_keep_their_phase(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    let phases = [text(&before, "/status/phase"), text(&after, "/status/phase")];
    if logged.by(CONTROLLER) && logged.resource() == PODS && has_ended(&before) && phases[0] != phases[1] {
        return Err(format!("{} was {} and is {}", name(&before), phases[0], phases[1]));
    }
    Ok(())
}

fn few_ended_pods_are_kept(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(pod) = deleted(logged).filter(|pod| has_ended(pod)) else { return Ok(()) };
    let count = world.list_recent(PODS).filter(|pod| has_ended(pod)).count();
    if count > THRESHOLD || is_lost(world, &pod) {
        return Ok(());
    }
    Err(format!("{} has ended and is deleted, one of {count}", name(&pod)))
}

fn finalizers_stay(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    let finalizers = |pod: &Value| at(pod, "/metadata/finalizers").cloned();
    if logged.by(CONTROLLER) && logged.resource() == PODS && finalizers(&before) != finalizers(&after) {
        return Err(format!("the finalizers of {} change", name(&before)));
    }
    Ok(())
}

fn no_pod_stays_untolerated(world: &World) -> Result<(), String> {
    for pod in world.list(PODS).filter(|pod| !is_deleting(pod) && !node_name(pod).is_empty()) {
        let Some(node) = world.get(NODES, "", node_name(pod)) else { continue };
        if stay(pod, node) != Stay::Always {
            return Err(format!("{} is on {} and does not tolerate its taints", name(pod), name(node)));
        }
    }
    Ok(())
}

/// Whether only the kubelet or the garbage collector is waited for.
fn is_held(pod: &Value) -> bool {
    is_deleting(pod) && at(pod, "/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

fn no_orphan_is_left(world: &World) -> Result<(), String> {
    let is_orphan = |pod: &&Arc<Value>| !node_name(pod).is_empty() && world.get(NODES, "", node_name(pod)).is_none();
    match world.list(PODS).filter(is_orphan).find(|pod| !is_held(pod)) {
        Some(pod) => Err(format!("{} is left and its node {} is gone", name(pod), node_name(pod))),
        None => Ok(()),
    }
}

fn no_pod_terminates_for_ever(world: &World) -> Result<(), String> {
    for pod in world.list(PODS).filter(|pod| is_deleting(pod) && !is_held(pod)) {
        let node = world.get(NODES, "", node_name(pod));
        if node_name(pod).is_empty() || node.is_some_and(|node| is_out_of_service(node)) {
            let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
            return Err(format!("{} is terminating, its grace is {grace} s, and no kubelet will end it", name(pod)));
        }
    }
    Ok(())
}

fn few_ended_pods_are_left(world: &World) -> Result<(), String> {
    let count = world.list(PODS).filter(|pod| has_ended(pod) && !is_held(pod)).count();
    if count > THRESHOLD { Err(format!("{count} ended Pods are left and {THRESHOLD} are kept")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;
    use http::{Method, Request};
    use serde_json::json;
    use tokio::sync::mpsc::UnboundedReceiver;

    use super::*;
    use sandbox::{Sandbox, Write};

    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const PATH: &str = "/api/v1/namespaces/default/pods/p";

    /// A controller that writes what a test says, and the model of what it writes.
    struct Rogue {
        sandbox: Sandbox,
        clock: Clock,
        client: kube::Client,
        writes: UnboundedReceiver<Arc<Write>>,
        world: World,
        violated: Vec<&'static str>,
    }

    impl Rogue {
        async fn new() -> Self {
            let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
            let sandbox = Sandbox::builder().clock(clock.clone()).build();
            let client = sandbox.client("node-lifecycle-controller#1");
            let writes = sandbox.writes().subscribe();
            let world = World::new(clock.monotonic_now(), Duration::from_secs(2), Duration::ZERO);
            let mut rogue = Self { sandbox, clock, client, writes, world, violated: Vec::new() };
            rogue.node(json!([])).await;
            rogue
        }

        /// Lets the model see what was written.
        fn see(&mut self) {
            while let Ok(write) = self.writes.try_recv() {
                let logged = Logged { at: self.clock.monotonic_now(), write };
                self.world.apply(logged.clone());
                let violated =
                    INVARIANTS.iter().chain(OF_EVICTION).filter(|i| (i.check)(&self.world, &logged).is_err());
                self.violated.extend(violated.map(|invariant| invariant.name));
            }
        }

        async fn wait(&mut self, seconds: u64) {
            self.see();
            self.clock.sleep(Duration::from_secs(seconds)).await;
        }

        async fn node(&mut self, taints: Value) {
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}});
            self.sandbox.create(node).await.unwrap();
            self.see();
        }

        async fn taint(&mut self, taints: Value) {
            self.sandbox.merge(NODES, None, "n", None, json!({"spec": {"taints": taints}})).await.unwrap();
            self.see();
        }

        async fn drop_node(&mut self) {
            self.sandbox.delete(NODES, None, "n").await.unwrap();
            self.see();
        }

        async fn pod(&mut self, name: &str, seconds: Option<i64>, status: Value) {
            let toleration = json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
            let tolerations = if seconds == Some(0) { json!([]) } else { json!([toleration]) };
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "finalizers": ["example.com/f"]},
                "spec": {"nodeName": "n", "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}});
            self.sandbox.create(pod).await.unwrap();
            let status = json!({ "status": status });
            self.sandbox.merge(PODS, Some("default"), name, Some("status"), status).await.unwrap();
            self.see();
        }

        /// A request of the controller.
        async fn send(&mut self, method: Method, path: &str, media: &str, body: &Value) {
            let request = Request::builder().method(method).uri(path).header("content-type", media);
            self.client.request_text(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
            self.see();
        }

        async fn delete(&mut self) {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            self.send(Method::DELETE, PATH, "application/json", &options).await;
        }

        async fn fail(&mut self) {
            let status = json!({"status": {"phase": "Failed"}});
            self.send(Method::PATCH, &format!("{PATH}/status"), STRATEGIC, &status).await;
        }

        fn broken_promises(&self) -> Vec<&'static str> {
            PROMISES
                .iter()
                .filter(|promise| (promise.check)(&self.world).is_err())
                .map(|promise| promise.name)
                .collect()
        }
    }

    fn leave() -> Value {
        json!([{"key": "k", "effect": "NoExecute"}])
    }

    fn running() -> Value {
        json!({"phase": "Running"})
    }

    fn with_reason() -> Value {
        json!({"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True",
            "reason": "DeletionByTaintManager"}]})
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_on_a_ground_are_allowed_and_others_are_noticed() {
        // Tolerated seconds (0: not tolerated), whether the node is tainted, for how long, with a reason; what is violated.
        let none: &[&str] = &[];
        for (seconds, tainted, waited, status, violated) in [
            (Some(0), true, 1, with_reason(), none),
            (Some(60), true, 61, with_reason(), none),
            (Some(60), true, 30, with_reason(), &["tolerated-time-is-granted"]),
            (Some(0), false, 61, with_reason(), &["evictions-have-a-taint"]),
            (None, true, 61, with_reason(), &["evictions-have-a-taint"]),
            (Some(0), true, 1, running(), &["evictions-give-a-reason"]),
        ] {
            let mut rogue = Rogue::new().await;
            rogue.pod("p", seconds, status).await;
            rogue.wait(30).await;
            if tainted {
                rogue.taint(leave()).await;
            }
            rogue.wait(waited).await;
            rogue.delete().await;
            assert_eq!(rogue.violated, violated, "{seconds:?} {tainted} {waited}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_for_a_taint_that_is_gone_is_noticed() {
        let mut rogue = Rogue::new().await;
        rogue.pod("p", Some(60), with_reason()).await;
        rogue.taint(leave()).await;
        rogue.wait(50).await;
        rogue.taint(json!([])).await;
        rogue.wait(10).await;
        rogue.delete().await;
        assert_eq!(rogue.violated, ["evictions-have-a-taint"]);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_are_failed_without_being_lost_are_noticed() {
        for (missing, violated) in [(None, true), (Some(20), true), (Some(45), false)] {
            let mut rogue = Rogue::new().await;
            rogue.pod("p", None, running()).await;
            rogue.wait(60).await;
            if let Some(seconds) = missing {
                rogue.drop_node().await;
                rogue.wait(seconds).await;
            }
            rogue.fail().await;
            let expected: &[&str] = if violated { &["only-lost-pods-are-failed"] } else { &[] };
            assert_eq!(rogue.violated, expected, "{missing:?}");
        }
        // A node that came back in between was not missing for the whole time.
        let mut rogue = Rogue::new().await;
        rogue.pod("p", None, running()).await;
        rogue.drop_node().await;
        rogue.wait(30).await;
        rogue.node(json!([])).await;
        rogue.wait(20).await;
        rogue.drop_node().await;
        rogue.wait(20).await;
        rogue.fail().await;
        assert_eq!(rogue.violated, ["only-lost-pods-are-failed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn other_wrong_writes_are_noticed() {
        let mut rogue = Rogue::new().await;
        rogue.send(Method::PATCH, "/api/v1/nodes/n", STRATEGIC, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(rogue.violated, ["writes-nothing-but-pods"]);

        let mut rogue = Rogue::new().await;
        rogue.pod("p", None, json!({"phase": "Succeeded"})).await;
        rogue.fail().await;
        assert_eq!(rogue.violated, ["ended-pods-keep-their-phase"]);

        let mut rogue = Rogue::new().await;
        rogue.pod("p", None, json!({"phase": "Succeeded"})).await;
        rogue.delete().await;
        assert_eq!(rogue.violated, ["few-ended-pods-are-kept"]);

        let mut rogue = Rogue::new().await;
        rogue.pod("p", None, running()).await;
        rogue
            .send(Method::PATCH, PATH, "application/merge-patch+json", &json!({"metadata": {"finalizers": null}}))
            .await;
        assert_eq!(rogue.violated, ["finalizers-of-pods-stay"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_does_nothing_breaks_each_promise() {
        let mut rogue = Rogue::new().await;
        rogue.pod("p", Some(60), running()).await;
        assert_eq!(rogue.broken_promises(), Vec::<&str>::new());
        rogue.taint(leave()).await;
        assert_eq!(rogue.broken_promises(), ["no-pod-stays-untolerated"]);
        rogue.drop_node().await;
        assert_eq!(rogue.broken_promises(), ["no-orphan-is-left"]);

        let mut rogue = Rogue::new().await;
        rogue.pod("p", None, running()).await;
        let free = json!({"metadata": {"finalizers": null}});
        rogue.sandbox.merge(PODS, Some("default"), "p", None, free).await.unwrap();
        rogue.sandbox.delete(PODS, Some("default"), "p").await.unwrap();
        rogue.see();
        assert_eq!(rogue.broken_promises(), Vec::<&str>::new(), "its kubelet may end it");
        rogue.taint(json!([{"key": OUT_OF_SERVICE, "effect": "NoSchedule"}])).await;
        assert_eq!(rogue.broken_promises(), ["no-pod-terminates-for-ever"]);

        let mut rogue = Rogue::new().await;
        for name in ["a", "b", "c"] {
            rogue.pod(name, None, json!({"phase": "Succeeded"})).await;
        }
        assert_eq!(rogue.broken_promises(), Vec::<&str>::new());
        rogue.pod("d", None, json!({"phase": "Failed"})).await;
        assert_eq!(rogue.broken_promises(), ["few-ended-pods-are-left"]);
    }
}
