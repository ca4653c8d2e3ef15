//! What volume-controller promises, on any cluster whose kube-controller-manager protects no storage.

use common::object::Resource;
use testkit::scene::prelude::*;

const VOLUMES: Resource = Resource::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume");
const CLASSES: Resource =
    Resource::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";

suite! {
    Suite::new("volume").without_storage_protection().controller(&volume_controller::DEFINITION, &[]);
    EVERYWHERE.sample() => a_claim_in_use_outlives_its_deletion;
    SIMULATED =>
        a_pod_in_the_api_keeps_its_claim ephemeral_claims_belong_to_their_pods a_foreign_claim_is_refused
        a_missing_finalizer_comes_back volumes_and_classes_go_when_they_are_not_used claims_at_rest_are_left_alone;
}

fn claim(name: &str) -> Value {
    // A class that does not exist, so that no binder or provisioner takes part.
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {"storageClassName": "none",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Returns a Pod on the node `no-node`, which does not exist, so that no kubelet starts it.
fn pod_on_a_node(name: &str, volumes: Value) -> Value {
    let mut object: Value = pod(name, name).into();
    object["spec"]["nodeName"] = json!("no-node");
    object["spec"]["terminationGracePeriodSeconds"] = json!(0);
    object["spec"]["volumes"] = volumes;
    object
}

fn claim_volume(claim: &str) -> Value {
    json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
}

fn ephemeral(name: &str) -> Value {
    let spec = claim("any")["spec"].clone();
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"from": "template"}}, "spec": spec}}})
}

/// Asserts that an object has not gone after a while.
async fn stays(c: &Context, resource: Resource, name: &str) -> Outcome {
    let exists = async || c.get(resource.clone(), name).await.is_ok();
    c.stays(&format!("{name} exists"), Duration::from_secs(2), exists).await
}

/// VOLUME-8, VOLUME-14, VOLUME-17.
async fn a_claim_in_use_outlives_its_deletion(c: Context) -> Outcome {
    c.create(CLAIMS, claim("data")).await?;
    c.create(PODS, pod_on_a_node("web", json!([claim_volume("data")]))).await?;
    c.delete(CLAIMS, "data", "Background").await?;
    stays(&c, CLAIMS, "data").await?;
    c.delete(PODS, "web", "Background").await?;
    c.until_gone(CLAIMS, "data").await
}

/// VOLUME-17, VOLUME-20.
async fn a_pod_in_the_api_keeps_its_claim(c: Context) -> Outcome {
    c.create(CLAIMS, claim("data")).await?;
    let mut pod = pod_on_a_node("web", json!([claim_volume("data"), ephemeral("scratch")]));
    pod["metadata"]["finalizers"] = json!(["example.com/kept"]);
    c.create(PODS, pod).await?;
    c.until_object(CLAIMS, "web-scratch", "the claim", |_| true).await?;
    c.merge_status(PODS, "web", json!({"status": {"phase": "Succeeded"}})).await?;
    c.delete(CLAIMS, "data", "Background").await?;
    c.delete(PODS, "web", "Background").await?;
    c.delete(CLAIMS, "web-scratch", "Background").await?;
    c.until_gone(CLAIMS, "web-scratch").await?;
    stays(&c, CLAIMS, "data").await?;
    c.merge(PODS, "web", json!({"metadata": {"finalizers": null}})).await?;
    c.until_gone(CLAIMS, "data").await
}

/// VOLUME-36, VOLUME-40, VOLUME-41.
async fn ephemeral_claims_belong_to_their_pods(c: Context) -> Outcome {
    let pod = c.create(PODS, pod_on_a_node("web", json!([ephemeral("a"), ephemeral("b")]))).await?;
    let first = c.until_object(CLAIMS, "web-a", "the claim", |_| true).await?;
    c.until_object(CLAIMS, "web-b", "the claim", |_| true).await?;
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["blockOwnerDeletion"]), (&pod["metadata"]["uid"], &json!(true)));
    assert_eq!(first["metadata"]["labels"], json!({"from": "template"}));
    // A claim whose finalizers are removed by hand is replaced.
    c.merge(CLAIMS, "web-a", json!({"metadata": {"ownerReferences": first["metadata"]["ownerReferences"]}})).await?;
    c.delete(CLAIMS, "web-a", "Background").await?;
    stays(&c, CLAIMS, "web-a").await?;
    c.merge(CLAIMS, "web-a", json!({"metadata": {"finalizers": null}})).await?;
    let is_new = |claim: &Value| claim["metadata"]["uid"] != first["metadata"]["uid"];
    c.until_object(CLAIMS, "web-a", "a new claim", is_new).await?;
    c.delete(PODS, "web", "Background").await?;
    Ok(())
}

/// VOLUME-42, VOLUME-44, VOLUME-45.
async fn a_foreign_claim_is_refused(c: Context) -> Outcome {
    c.create(CLAIMS, claim("web-a")).await?;
    c.create(PODS, pod_on_a_node("web", json!([ephemeral("a")]))).await?;
    let namespace = c.namespace();
    let text = format!("PVC {namespace}/web-a was not created for pod {namespace}/web (pod is not owner)");
    c.until_event("Pod", "web", &format!("Warning FailedBinding ephemeral volume a: {text}")).await?;
    c.delete(CLAIMS, "web-a", "Background").await?;
    let is_owned = |claim: &Value| claim["metadata"]["ownerReferences"][0]["name"] == "web";
    c.until_object(CLAIMS, "web-a", "a claim of the Pod", is_owned).await?;
    Ok(())
}

/// VOLUME-7, VOLUME-9.
async fn a_missing_finalizer_comes_back(c: Context) -> Outcome {
    c.create(CLAIMS, claim("data")).await?;
    c.merge(CLAIMS, "data", json!({"metadata": {"finalizers": ["example.com/kept"]}})).await?;
    let expected = json!(["example.com/kept", CLAIM_FINALIZER]);
    c.until_object(CLAIMS, "data", "both finalizers", |claim| claim["metadata"]["finalizers"] == expected).await?;
    c.delete(CLAIMS, "data", "Background").await?;
    let expected = json!(["example.com/kept"]);
    c.until_object(CLAIMS, "data", "one finalizer", |claim| claim["metadata"]["finalizers"] == expected).await?;
    c.merge(CLAIMS, "data", json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

/// VOLUME-29, VOLUME-32, VOLUME-33.
async fn volumes_and_classes_go_when_they_are_not_used(c: Context) -> Outcome {
    let (class, volume) = (format!("{}-fast", c.namespace()), format!("{}-disk", c.namespace()));
    let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": class},
        "driverName": "csi.example.com", "parameters": {"iops": "1"}});
    c.client().create(CLASSES, "", &object).await?;
    let csi = json!({"driver": "csi.example.com", "volumeHandle": "disk"});
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi, "storageClassName": "none",
        "persistentVolumeReclaimPolicy": "Retain", "volumeAttributesClassName": class});
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec});
    c.client().create(VOLUMES, "", &object).await?;
    c.merge_status(VOLUMES, &volume, json!({"status": {"phase": "Bound"}})).await?;
    c.delete(CLASSES, &class, "Background").await?;
    c.delete(VOLUMES, &volume, "Background").await?;
    stays(&c, VOLUMES, &volume).await?;
    stays(&c, CLASSES, &class).await?;
    c.merge_status(VOLUMES, &volume, json!({"status": {"phase": "Released"}})).await?;
    c.until_gone(VOLUMES, &volume).await?;
    c.until_gone(CLASSES, &class).await
}

/// VOLUME-13, VOLUME-15.
async fn claims_at_rest_are_left_alone(c: Context) -> Outcome {
    c.create(CLAIMS, claim("data")).await?;
    c.create(PODS, pod_on_a_node("web", json!([claim_volume("data"), ephemeral("a")]))).await?;
    c.until_object(CLAIMS, "web-a", "the claim", |_| true).await?;
    c.left_alone(&[CLAIMS], async || {
        c.merge_status(PODS, "web", json!({"status": {"phase": "Failed"}})).await?;
        Ok(())
    })
    .await
}
