//! A cluster without nodes, with claims and Pods that tests assign to a node.

pub(crate) use testkit::prelude::*;

pub(crate) const CLAIMS: &str = "persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "persistentvolumes";
pub(crate) const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";
pub(crate) const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
pub(crate) const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
pub(crate) const CLASS_FINALIZER: &str = "kubernetes.io/vac-protection";
/// A finalizer of another controller.
pub(crate) const FOREIGN: &str = "example.com/foreign";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(volume_controller::LOOPS, CLAIMS, "data")
}

pub(crate) fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

pub(crate) fn claim(name: &str) -> Value {
    object("v1", "PersistentVolumeClaim", name, claim_spec())
}

pub(crate) fn volume(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}})
}

pub(crate) fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
        "driverName": "csi.example.com", "parameters": {"iops": "1"}})
}

/// Returns a Pod on a node with these volumes.
pub(crate) fn pod(name: &str, volumes: Value) -> Value {
    with_spec(orphan_pod(name, "web"), json!({"nodeName": "node-1", "volumes": volumes}))
}

/// Returns a Pod on a node with a volume for each of these claims.
pub(crate) fn pod_with_claims(name: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod(name, claims.iter().map(volume).collect())
}

/// Returns the object without a node.
pub(crate) fn without_node(mut pod: Value) -> Value {
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod
}

/// Returns an ephemeral volume with this name.
pub(crate) fn ephemeral(name: &str) -> Value {
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}})
}

/// Deletes a Pod at once, as its kubelet does in the end.
pub(crate) async fn remove_pod(world: &World, name: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    world.delete_with(&path, json!({"gracePeriodSeconds": 0})).await;
}

/// Returns the finalizers of an object, without its own if there are none.
pub(crate) async fn finalizers_of(world: &World, resource: &str, name: &str) -> Vec<String> {
    finalizers(&world.get(resource, name).await).into_iter().map(str::to_owned).collect()
}

/// Replaces the finalizers of an object.
pub(crate) async fn set_finalizers(world: &World, resource: &str, name: &str, finalizers: &[&str]) {
    world.patch(resource, name, json!({"metadata": {"finalizers": finalizers}})).await;
}

/// Whether an object exists.
pub(crate) async fn exists(world: &World, resource: &str, name: &str) -> bool {
    world.find(resource, name).await.is_some()
}

/// Returns the number of lists of Pods. The caches are filled by streams.
pub(crate) fn pod_lists(world: &World) -> u64 {
    world.count("list", "pods")
}
