//! Deletions of storage, in virtual time.

use super::*;
use crate::Sandbox;

struct World {
    sandbox: Sandbox,
    protection: Option<Protection>,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let protection = Some(Protection::start(sandbox.client("protection"), clock));
        Self { sandbox, protection }
    }

    async fn claim(&self, name: &str, more: Value) {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        for (field, value) in more.as_object().unwrap() {
            claim["metadata"][field] = value.clone();
        }
        self.sandbox.create(claim).await.unwrap();
    }

    async fn pod(&self, name: &str, node: &str, volume: Value) -> Value {
        let meta = json!({"name": name, "namespace": "default", "finalizers": ["example.com/hold"]});
        let mut volume = volume;
        volume["name"] = json!("data");
        let mut spec = json!({"containers": [{"name": "c", "image": "img:1"}], "volumes": [volume]});
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        self.sandbox.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})).await.unwrap()
    }

    /// Lets a Pod go at once.
    async fn end(&self, pod: &str) {
        self.sandbox.delete("pods", Some("default"), pod).await.unwrap();
        self.sandbox
            .merge("pods", Some("default"), pod, None, json!({"metadata": {"finalizers": null}}))
            .await
            .unwrap();
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        let path = format!("/api/v1/namespaces/default/pods/{pod}");
        drop(self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&now)).await);
    }

    async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.sandbox.delete(resource, namespace, name).await.unwrap();
        self.wait().await;
    }

    async fn wait(&self) {
        self.sandbox.clock().sleep(Duration::from_secs(1)).await;
    }

    async fn has_claim(&self, name: &str) -> bool {
        self.sandbox.get("persistentvolumeclaims", Some("default"), name).await.is_ok()
    }
}

fn mounted(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim}})
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_waits_for_its_pods() {
    let world = World::new();
    world.claim("data", json!({})).await;
    world.wait().await;
    for pod in ["a", "b"] {
        world.pod(pod, "n", mounted("data")).await;
    }
    world.delete("persistentvolumeclaims", Some("default"), "data").await;
    assert!(world.has_claim("data").await);
    world.end("a").await;
    world
        .sandbox
        .merge("pods", Some("default"), "b", Some("status"), json!({"status": {"phase": "Failed"}}))
        .await
        .unwrap();
    world.wait().await;
    assert!(world.has_claim("data").await, "a Pod that has ended and is there still counts");
    world.end("b").await;
    world.wait().await;
    assert!(!world.has_claim("data").await);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_no_pod_on_a_node_mounts_goes_at_once() {
    let world = World::new();
    for claim in ["unscheduled", "other-name", "elsewhere"] {
        world.claim(claim, json!({})).await;
    }
    world.pod("a", "", mounted("unscheduled")).await;
    world.pod("b", "n", mounted("another")).await;
    world.pod("c", "n", json!({"emptyDir": {}})).await;
    for claim in ["unscheduled", "other-name", "elsewhere"] {
        world.delete("persistentvolumeclaims", Some("default"), claim).await;
        assert!(!world.has_claim(claim).await, "{claim}");
    }
    let requests = world.sandbox.requests().count(Some("protection"), Some("list"), Some("pods"));
    world.sandbox.clock().sleep(Duration::from_secs(60)).await;
    assert_eq!(world.sandbox.requests().count(Some("protection"), Some("list"), Some("pods")), requests, "at rest");
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_an_ephemeral_volume_is_that_of_its_own_pod_until_it_is_shut_down() {
    let world = World::new();
    let template = json!({"ephemeral": {"volumeClaimTemplate": {"spec":
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}});
    let pod = world.pod("p", "n", template.clone()).await;
    world.pod("q", "n", template).await;
    let owner =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": true}]);
    world.claim("p-data", json!({ "ownerReferences": owner })).await;
    world.claim("q-data", json!({})).await;
    for claim in ["p-data", "q-data"] {
        world.delete("persistentvolumeclaims", Some("default"), claim).await;
    }
    assert!(world.has_claim("p-data").await && !world.has_claim("q-data").await);
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = "/api/v1/namespaces/default/pods/p";
    world.sandbox.send(http::Method::DELETE, path, "application/json", Some(&now)).await.unwrap();
    world.wait().await;
    assert!(!world.has_claim("p-data").await, "the Pod has only its own finalizer left");
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_stay_and_deletions_from_before_the_start_are_found() {
    let mut world = World::new();
    world.claim("held", json!({"finalizers": ["example.com/hold"]})).await;
    world.delete("persistentvolumeclaims", Some("default"), "held").await;
    let held = world.sandbox.get("persistentvolumeclaims", Some("default"), "held").await.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/hold"]));
    world.protection = None;
    world.claim("late", json!({})).await;
    world.delete("persistentvolumeclaims", Some("default"), "late").await;
    assert!(world.has_claim("late").await);
    world.protection = Some(Protection::start(world.sandbox.client("protection"), world.sandbox.clock().clone()));
    world.wait().await;
    assert!(!world.has_claim("late").await, "what was deleted before is found");
}

#[tokio::test(start_paused = true)]
async fn volumes_and_their_attributes_go_when_nothing_refers_to_them() {
    let world = World::new();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"},
        "driverName": "csi.example.com", "parameters": {"iops": "3000"}});
    world.sandbox.create(class).await.unwrap();
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "volumeAttributesClassName": "gold",
        "csi": {"driver": "csi.example.com", "volumeHandle": "v"}}});
    world.sandbox.create(volume).await.unwrap();
    let phase = async |phase: &str| {
        let status = json!({"status": {"phase": phase}});
        world.sandbox.merge("persistentvolumes", None, "v", Some("status"), status).await.unwrap();
    };
    phase("Bound").await;
    let classes = "volumeattributesclasses.storage.k8s.io";
    world.delete(classes, None, "gold").await;
    world.delete("persistentvolumes", None, "v").await;
    let are_there = async || {
        let volume = world.sandbox.get("persistentvolumes", None, "v").await.is_ok();
        (volume, world.sandbox.get(classes, None, "gold").await.is_ok())
    };
    assert_eq!(are_there().await, (true, true));
    phase("Released").await;
    world.wait().await;
    world.wait().await;
    assert_eq!(are_there().await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_claims_goes() {
    let world = World::new();
    world.sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await.unwrap();
    for n in 0..3 {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("data-{n}"), "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        world.sandbox.create(claim).await.unwrap();
    }
    world.delete("namespaces", None, "shop").await;
    assert!(world.sandbox.get("namespaces", None, "shop").await.is_err());
    assert_eq!(world.sandbox.requests().count(Some("protection"), Some("list"), Some("pods")), 1, "one list for all");
}
