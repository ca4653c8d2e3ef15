//! ReplicaSets that are kept at their size, for tests of the controllers that write them.
//!
//! This stands in for the ReplicaSet controller as the nodes stand in for kubelets: it creates the Pods that are missing,
//! deletes those that are too many, and writes the status. It adopts nothing, has no back-off and records no Events; what a
//! Deployment does with the real controller beside it is tried in the simulation and in the suites.

use std::{collections::BTreeMap, time::Duration};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    Refused, Sandbox,
    actors::nodes::{condition, is_ready},
};

const SETS: &str = "replicasets.apps";
/// The pause after a request that the server did not answer well.
const RETRY: Duration = Duration::from_secs(1);
/// How long changes are gathered before the ReplicaSets are compared with their Pods.
const BATCH: Duration = Duration::from_millis(10);

/// A task that keeps all ReplicaSets of a sandbox at their size. It ends when this is dropped; what it has written stays.
#[derive(Debug)]
pub struct ReplicaSets {
    task: JoinHandle<()>,
}

impl ReplicaSets {
    /// Starts it as a client of that identity. Must be called inside a tokio runtime.
    pub fn start(sandbox: &Sandbox, identity: &str) -> Self {
        Self { task: tokio::spawn(run(sandbox.acting_as(identity))) }
    }
}

impl Drop for ReplicaSets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(sandbox: Sandbox) {
    let mut writes = sandbox.writes().subscribe();
    loop {
        let due = reconcile(&sandbox).await.unwrap_or(Some(RETRY));
        let due = async {
            match due {
                Some(after) => sandbox.clock().sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            while let Some(write) = writes.recv().await {
                if ["replicasets", "pods"].contains(&write.resource.as_str()) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = changed => {
                sandbox.clock().sleep(BATCH).await;
                while writes.try_recv().is_ok() {}
            }
            () = due => {}
        }
    }
}

/// Compares each ReplicaSet with its Pods once, and says when to look again without a change.
async fn reconcile(sandbox: &Sandbox) -> Result<Option<Duration>, Refused> {
    let (sets, pods) = (sandbox.list(SETS, None).await?, sandbox.list("pods", None).await?);
    let mut by_owner: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in &pods {
        by_owner.entry(controller(pod)).or_default().push(pod);
    }
    let mut families: Vec<_> = sets
        .iter()
        .map(|set| {
            let owned = by_owner.get(text(&set["metadata"]["uid"])).into_iter().flatten().copied();
            let (active, terminating): (Vec<&Value>, Vec<&Value>) =
                owned.filter(|pod| !has_ended(pod)).partition(|pod| !is_terminating(pod));
            (set, set["spec"]["replicas"].as_u64().unwrap_or(1) as usize, active, terminating)
        })
        .collect();
    // What is too much goes first: a Deployment that moves Pods from one set to another has never more than it allows.
    families.sort_by_key(|(_, wanted, active, _)| active.len() <= *wanted);
    let mut due: Option<Duration> = None;
    for (set, wanted, mut active, terminating) in families {
        let (namespace, name) = (text(&set["metadata"]["namespace"]), text(&set["metadata"]["name"]));
        if !is_terminating(set) && active.len() != wanted {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            for _ in active.len()..wanted {
                sandbox.send(Method::POST, &path, "application/json", Some(&new_pod(set))).await?;
            }
            active.sort_by_key(|pod| (is_ready(pod), std::cmp::Reverse(created(pod))));
            for pod in active.iter().take(active.len().saturating_sub(wanted)) {
                sandbox.delete("pods", Some(namespace), text(&pod["metadata"]["name"])).await?;
            }
            // The status follows from the Pods that there are then.
            continue;
        }
        let min_ready = SignedDuration::from_secs(set["spec"]["minReadySeconds"].as_i64().unwrap_or(0));
        let now = sandbox.clock().now();
        let waits: Vec<SignedDuration> = active
            .iter()
            .filter_map(|pod| Some(ready_since(pod)? + min_ready))
            .map(|at| at.duration_since(now))
            .collect();
        let next = waits.iter().filter(|wait| wait.is_positive()).min();
        due = due.into_iter().chain(next.map(|wait| wait.unsigned_abs())).min();
        let ready = active.iter().filter(|pod| is_ready(pod)).count();
        let available = waits.iter().filter(|wait| !wait.is_positive()).count();
        let status = json!({
            "replicas": active.len(),
            "fullyLabeledReplicas": positive(active.len()),
            "readyReplicas": positive(ready),
            "availableReplicas": positive(available),
            "terminatingReplicas": terminating.len(),
            "observedGeneration": set["metadata"]["generation"],
        });
        let differs = |(field, value): (&String, &Value)| set["status"].get(field).unwrap_or(&Value::Null) != value;
        if status.as_object().is_some_and(|status| status.iter().any(differs)) {
            sandbox.merge(SETS, Some(namespace), name, Some("status"), json!({"status": status})).await?;
        }
    }
    Ok(due)
}

/// A number as the server stores it: nothing instead of zero.
fn positive(number: usize) -> Option<usize> {
    (number > 0).then_some(number)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// The uid of the object that controls a Pod, empty if there is none.
fn controller(pod: &Value) -> &str {
    let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.find(|owner| owner["controller"] == true).map_or("", |owner| text(&owner["uid"]))
}

fn created(pod: &Value) -> &str {
    text(&pod["metadata"]["creationTimestamp"])
}

/// The time at which a Pod became ready, if it is.
fn ready_since(pod: &Value) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|_| is_ready(pod))?;
    text(&ready["lastTransitionTime"]).parse().ok()
}

fn new_pod(set: &Value) -> Value {
    let (meta, template) = (&set["metadata"], &set["spec"]["template"]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", text(&meta["name"])),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;

    use super::*;
    use crate::actors::nodes::Nodes;

    async fn status(sandbox: &Sandbox) -> Value {
        sandbox.get(SETS, Some("default"), "web").await.unwrap()["status"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn sets_get_their_pods_and_lose_those_that_are_too_many() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let _nodes = Nodes::builder().heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        let _sets = ReplicaSets::start(&sandbox, "replicasets");
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels, "annotations": {"sim/terminate-after": "20"}},
            "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 3, "minReadySeconds": 10, "selector": {"matchLabels": labels}, "template": template}});
        sandbox.create(set).await.unwrap();
        clock.sleep(Duration::from_secs(5)).await;
        let expected = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "terminatingReplicas": 0,
            "observedGeneration": 1});
        assert_eq!(status(&sandbox).await, expected);
        clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(status(&sandbox).await["availableReplicas"], 3);
        sandbox.merge(SETS, Some("default"), "web", None, json!({"spec": {"replicas": 1}})).await.unwrap();
        clock.sleep(Duration::from_secs(5)).await;
        let status = status(&sandbox).await;
        assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &json!(2)));
        let writes = sandbox.writes().count();
        clock.sleep(Duration::from_secs(100)).await;
        assert_eq!(sandbox.count("pods"), 1);
        clock.sleep(Duration::from_secs(3600)).await;
        // Two Pods that end, and the counts that follow.
        assert!(sandbox.writes().count() - writes < 10, "it does not come to rest");
    }
}
