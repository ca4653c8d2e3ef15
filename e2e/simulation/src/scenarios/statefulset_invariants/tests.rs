//! Every oracle is violated by the deed that it forbids, and not by the one that it allows.

use common::clock::Clock;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use sandbox::{Sandbox, Write};

/// A set `web` with its revision and Pods, as a user would see them who made all of them.
struct Ground {
    sandbox: Sandbox,
    world: World,
    feed: UnboundedReceiver<Arc<Write>>,
    set: Value,
}

const OWN: Option<&str> = Some(NAMESPACE);

fn set(replicas: i64, spec: Value) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    for (field, value) in spec.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    set
}

fn claims() -> Value {
    json!({"volumeClaimTemplates": [{"metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}})
}

impl Ground {
    async fn new(replicas: i64, pods: i64, spec: Value) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let feed = sandbox.writes().subscribe();
        let world = World::new(clock.monotonic_now(), Duration::ZERO, Duration::ZERO);
        let made = sandbox.create(set(replicas, spec)).await.unwrap();
        let mut ground = Self { sandbox, world, feed, set: made };
        let mut template = ground.set["spec"]["template"].clone();
        template["$patch"] = json!("replace");
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"name": "web-a", "labels": {"app": "web"}, "ownerReferences": ground.owner()},
            "data": {"spec": {"template": template}}});
        ground.sandbox.create(revision).await.unwrap();
        for ordinal in 0..pods {
            ground.sandbox.create(ground.pod(ordinal)).await.unwrap();
            ground.ready(ordinal, true).await;
        }
        ground.learn(None);
        ground
    }

    fn owner(&self) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid(&self.set),
            "controller": true, "blockOwnerDeletion": true}])
    }

    fn pod(&self, ordinal: i64) -> Value {
        let labels = json!({"app": "web", "controller-revision-hash": "web-a"});
        let volumes: Vec<Value> = claim_names(&self.set, ordinal)
            .map(|claim| json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("web-{ordinal}"), "labels": labels, "ownerReferences": self.owner()},
            "spec": {"containers": [{"name": "c", "image": "img:1"}], "volumes": volumes}})
    }

    async fn ready(&self, ordinal: i64, ready: bool) {
        let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
        let status = json!({"status": {"phase": "Running", "conditions": conditions}});
        self.sandbox.merge(PODS, OWN, &format!("web-{ordinal}"), Some("status"), status).await.unwrap();
    }

    async fn change(&self, spec: Value) {
        self.sandbox.merge(STATEFUL_SETS, OWN, "web", None, json!({ "spec": spec })).await.unwrap();
    }

    async fn roll_out(&self) {
        let containers = json!([{"name": "c", "image": "img:2"}]);
        self.change(json!({"template": {"spec": {"containers": containers}}})).await;
    }

    /// Takes in what was written, by users or under the name of the controller, and says what that violates, each oracle once: a
    /// deletion may be two writes.
    fn learn(&mut self, writer: Option<&str>) -> Vec<&'static str> {
        let mut violated: Vec<&'static str> = Vec::new();
        while let Ok(write) = self.feed.try_recv() {
            let mut write = (*write).clone();
            if let Some(writer) = writer {
                writer.clone_into(&mut write.identity);
            }
            let logged = Logged { at: self.sandbox.clock().monotonic_now(), write: Arc::new(write) };
            self.world.apply(logged.clone());
            for invariant in INVARIANTS.iter().chain(ONE_BY_ONE).chain(LIMITED) {
                if (invariant.check)(&self.world, &logged).is_err() && !violated.contains(&invariant.name) {
                    violated.push(invariant.name);
                }
            }
        }
        violated
    }

    /// What the controller would violate that does this.
    async fn deed(&mut self, deed: impl AsyncFnOnce(&Sandbox)) -> Vec<&'static str> {
        assert!(self.learn(None).is_empty(), "nobody else is asked");
        deed(&self.sandbox).await;
        self.learn(Some("statefulset-controller#1"))
    }

    async fn create(&mut self, ordinal: i64) -> Vec<&'static str> {
        let pod = self.pod(ordinal);
        self.deed(async |sandbox| drop(sandbox.create(pod).await.unwrap())).await
    }

    async fn delete(&mut self, resource: &str, name: &str) -> Vec<&'static str> {
        self.deed(async |sandbox| drop(sandbox.delete(resource, OWN, name).await.unwrap())).await
    }

    async fn merge(&mut self, resource: &str, name: &str, sub: Option<&str>, patch: Value) -> Vec<&'static str> {
        self.deed(async |sandbox| drop(sandbox.merge(resource, OWN, name, sub, patch).await.unwrap())).await
    }
}

const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn creations() {
    let mut ground = Ground::new(3, 0, json!({})).await;
    assert_eq!(ground.create(0).await, NOTHING);
    assert_eq!(ground.create(1).await, ["ordinals-come-in-order"], "the first is not ready");
    ground.ready(0, true).await;
    assert_eq!(ground.create(2).await, ["ordinals-come-in-order"], "the second is not ready");
    let mut parallel = Ground::new(3, 0, json!({"podManagementPolicy": "Parallel"})).await;
    assert_eq!(parallel.create(2).await, NOTHING);
    assert_eq!(parallel.create(3).await, ["only-wanted-ordinals-are-created"]);
    let mut with_claims = Ground::new(1, 0, claims()).await;
    let mut pod = with_claims.pod(0);
    pod["spec"]["volumes"] = json!([]);
    let violated = with_claims.deed(async |sandbox| drop(sandbox.create(pod).await.unwrap())).await;
    assert_eq!(violated, ["only-wanted-ordinals-are-created"], "its claim is not mounted");
}

#[tokio::test(start_paused = true)]
async fn scaling_down() {
    let mut ground = Ground::new(3, 5, json!({})).await;
    assert_eq!(ground.delete(PODS, "web-3").await, ["surplus-goes-from-the-highest"]);
    assert_eq!(ground.delete(PODS, "web-4").await, NOTHING);
    let mut ground = Ground::new(3, 4, json!({})).await;
    ground.ready(0, false).await;
    assert_eq!(ground.delete(PODS, "web-3").await, ["surplus-goes-from-the-highest"], "one in range is not ready");
    let mut claimed = Ground::new(1, 2, claims()).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    claimed.sandbox.create(claim).await.unwrap();
    let pod = claimed.sandbox.get(PODS, OWN, "web-1").await.unwrap();
    assert_eq!(claimed.delete(PODS, "web-1").await, ["claims-know-before-their-pods-go"]);
    let mut claimed = Ground::new(1, 2, claims()).await;
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "earlier", "controller": true}]);
    assert_ne!(uid(&pod), "earlier");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-1", "ownerReferences": owner},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    claimed.sandbox.create(claim).await.unwrap();
    assert_eq!(claimed.delete(PODS, "web-1").await, NOTHING, "the claim goes with an earlier Pod");
}

#[tokio::test(start_paused = true)]
async fn updates() {
    let mut ground = Ground::new(3, 3, json!({})).await;
    assert_eq!(ground.delete(PODS, "web-2").await, ["only-the-outdated-are-updated"]);
    let mut ground = Ground::new(3, 3, json!({})).await;
    ground.roll_out().await;
    assert_eq!(ground.delete(PODS, "web-2").await, NOTHING);
    assert_eq!(ground.delete(PODS, "web-1").await, ["updates-go-one-by-one", "updates-keep-to-their-limit"]);
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut ground = Ground::new(3, 3, partition).await;
    ground.roll_out().await;
    assert_eq!(ground.delete(PODS, "web-1").await, ["only-the-outdated-are-updated"]);
    let mut ground = Ground::new(3, 3, json!({"updateStrategy": {"type": "OnDelete"}})).await;
    ground.roll_out().await;
    assert_eq!(ground.delete(PODS, "web-2").await, ["only-the-outdated-are-updated"]);
    let mut ground = Ground::new(3, 3, json!({})).await;
    let failed = json!({"status": {"phase": "Failed"}});
    ground.sandbox.merge(PODS, OWN, "web-1", Some("status"), failed).await.unwrap();
    assert_eq!(ground.delete(PODS, "web-1").await, NOTHING, "it is replaced whatever its revision");
}

#[tokio::test(start_paused = true)]
async fn revisions_claims_and_statuses() {
    let mut ground = Ground::new(1, 1, json!({})).await;
    assert_eq!(ground.delete(REVISIONS, "web-a").await, ["used-revisions-stay"]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-0",
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "b"}]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    ground.sandbox.create(claim).await.unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(ground.merge(CLAIMS, "data-web-0", None, label).await, ["claims-only-get-owners"]);
    let owners = json!({"metadata": {"ownerReferences": null}});
    assert_eq!(ground.merge(CLAIMS, "data-web-0", None, owners).await, ["claims-only-get-owners"]);
    assert_eq!(ground.delete(CLAIMS, "data-web-0").await, ["claims-only-get-owners"]);
    let status = |generation: i64, replicas: i64| json!({"status": {"observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas}});
    assert_eq!(ground.merge(STATEFUL_SETS, "web", Some("status"), status(1, 1)).await, NOTHING);
    assert_eq!(
        ground.merge(STATEFUL_SETS, "web", Some("status"), status(9, 1)).await,
        ["stateful-statuses-make-sense"]
    );
    let earlier = json!({"status": {"observedGeneration": 1}});
    assert_eq!(ground.merge(STATEFUL_SETS, "web", Some("status"), earlier).await, ["stateful-statuses-make-sense"]);
}

#[tokio::test(start_paused = true)]
async fn ownership() {
    let mut ground = Ground::new(2, 2, json!({})).await;
    let other = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}]);
    let taken = json!({"metadata": {"ownerReferences": other}});
    ground.sandbox.merge(PODS, OWN, "web-1", None, taken).await.unwrap();
    assert_eq!(ground.delete(PODS, "web-1").await, ["pods-of-others-stay"]);
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    ground.sandbox.merge(PODS, OWN, "web-0", None, orphaned).await.unwrap();
    let owner = json!({"metadata": {"ownerReferences": ground.owner()}});
    assert_eq!(ground.merge(PODS, "web-0", None, owner.clone()).await, NOTHING);
    ground.sandbox.merge(PODS, OWN, "web-0", None, json!({"metadata": {"ownerReferences": null}})).await.unwrap();
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    ground.sandbox.merge(STATEFUL_SETS, OWN, "web", None, held).await.unwrap();
    ground.sandbox.delete(STATEFUL_SETS, OWN, "web").await.unwrap();
    ground.learn(None);
    ground.sandbox.clock().sleep(RECHECKED * 2).await;
    assert_eq!(ground.merge(PODS, "web-0", None, owner).await, ["only-living-sets-adopt"]);
    assert_eq!(ground.create(1).await, ["deleted-sets-write-nothing"]);
    assert!(ground.delete(PODS, "web-0").await.contains(&"deleted-sets-write-nothing"));
}

#[tokio::test(start_paused = true)]
async fn the_end() {
    let mut ground = Ground::new(2, 2, json!({})).await;
    let status = |ready: i64| {
        json!({"status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "availableReplicas": ready,
            "updatedReplicas": 2, "currentReplicas": 2, "currentRevision": "web-a", "updateRevision": "web-a"}})
    };
    assert!(stateful_sets_get_there(&ground.world).is_err(), "the generation is not observed");
    ground.merge(STATEFUL_SETS, "web", Some("status"), status(1)).await;
    assert!(stateful_sets_get_there(&ground.world).is_err(), "one is not counted");
    ground.merge(STATEFUL_SETS, "web", Some("status"), status(2)).await;
    assert_eq!(stateful_sets_get_there(&ground.world), Ok(()));
    ground.sandbox.delete(PODS, OWN, "web-1").await.unwrap();
    ground.learn(None);
    assert!(stateful_sets_get_there(&ground.world).is_err(), "one is missing");
}
