//! What a PersistentVolumeClaim waits for.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::{
    scope::{Scope, name, uid},
    tree::{Branch, Weight},
};

/// Returns the branch of a claim.
pub(super) async fn branch(scope: &Scope, claim: &PersistentVolumeClaim) -> Branch {
    let called = name(&claim.metadata);
    let mut branch = Branch::new("PersistentVolumeClaim", called);
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if let Some(at) = &claim.metadata.deletion_timestamp {
        branch.say(
            "metadata",
            format!(
                "terminating since {}; finalizers: {}",
                scope.since(at.0),
                claim.metadata.finalizers.clone().unwrap_or_default().join(", ")
            ),
        );
        let pods = scope.list::<Pod>().await;
        let users: Vec<&str> = pods.iter().filter(|pod| uses(pod, called)).map(|pod| name(&pod.metadata)).collect();
        if let Some(first) = users.first() {
            branch.say("list", format!("used by {}", list(&users)));
            branch.blame(
                Weight::Fails,
                format!("PersistentVolumeClaim {called} is deleted when no Pod uses it: {}", list(&users)),
                [
                    "keep the data first: copy it, or set persistentVolumeReclaimPolicy of the volume to Retain".to_owned(),
                    format!(
                        "the claim goes, and with the policy Delete its data, when the Pods are gone: kubectl nonet why pod/{first} -n {}",
                        scope.namespace
                    ),
                ],
            );
        } else {
            super::objects::held_by_finalizers(&claim.metadata, "PersistentVolumeClaim", &mut branch);
        }
        return branch;
    }
    if phase == "Bound" {
        branch.say("status", "Bound");
        return branch;
    }
    branch.say("status", if phase.is_empty() { "Pending" } else { phase });
    if phase == "Lost" {
        branch.blame(
            Weight::Fails,
            format!("the volume of PersistentVolumeClaim {called} does not exist any more"),
            ["restore the data into a new claim".to_owned()],
        );
        return branch;
    }
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
    match scope.newest_event(
        uid(&claim.metadata),
        &["ProvisioningFailed", "FailedBinding", "WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning"],
    ) {
        Some(event) => {
            let reason = event.reason.clone().unwrap_or_default();
            let (message, quoted) = scope.quote(event);
            branch.say(quoted, &message);
            match reason.as_str() {
                "WaitForFirstConsumer" | "WaitForPodScheduled" => branch.blame(
                    Weight::Waits,
                    format!("PersistentVolumeClaim {called} is bound when a Pod that uses it is scheduled"),
                    ["wait, or see the Pod".to_owned()],
                ),
                "ExternalProvisioning" => branch.blame(
                    Weight::Fails,
                    format!("PersistentVolumeClaim {called} waits for its provisioner"),
                    [format!("see whether the provisioner of class {} runs", class.as_deref().unwrap_or("(default)"))],
                ),
                _ => branch.blame(
                    Weight::Fails,
                    format!("PersistentVolumeClaim {called} gets no volume: {message}"),
                    [remedy(class.as_deref())],
                ),
            }
        }
        None => branch.blame(
            Weight::Fails,
            format!("PersistentVolumeClaim {called} is not bound"),
            [remedy(class.as_deref())],
        ),
    }
    branch
}

/// Returns the branches of the claims of a Pod that are missing or not bound.
pub(super) async fn claims_of(scope: &Scope, pod: &Pod) -> Vec<Branch> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let names: Vec<String> = volumes
        .filter_map(|volume| volume.persistent_volume_claim.as_ref())
        .map(|claim| claim.claim_name.clone())
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let claims = scope.list::<PersistentVolumeClaim>().await;
    if scope.reader.is_unread("persistentvolumeclaims") {
        return Vec::new();
    }
    let mut out = Vec::new();
    for wanted in names {
        match claims.iter().find(|claim| name(&claim.metadata) == wanted) {
            Some(claim) => {
                let branch = branch(scope, claim).await;
                if !branch.causes.is_empty() {
                    out.push(branch);
                }
            }
            None => {
                let mut branch = Branch::new("PersistentVolumeClaim", &wanted);
                branch.say("list", "does not exist");
                branch.blame(
                    Weight::Fails,
                    format!("Pod {} needs PersistentVolumeClaim {wanted}, which does not exist", name(&pod.metadata)),
                    ["create the claim, or correct its name in the volumes of the Pod".to_owned()],
                );
                out.push(branch);
            }
        }
    }
    out
}

fn remedy(class: Option<&str>) -> String {
    match class {
        Some("") => "create a PersistentVolume that fits, because storageClassName is empty".to_owned(),
        Some(class) => format!(
            "create the StorageClass {class}, or see its provisioner; a claim with another class has to be created anew"
        ),
        None => "set storageClassName, or make one class the default: kubectl get storageclass".to_owned(),
    }
}

fn uses(pod: &Pod, claim: &str) -> bool {
    let is_terminal = matches!(super::pod::phase(pod), "Succeeded" | "Failed");
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    !is_terminal
        && volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).any(|source| source.claim_name == claim)
}

/// Lists the first three names, and counts the others.
pub(super) fn list(names: &[&str]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        n => format!("{} and {} more", names[..3].join(", "), n - 3),
    }
}
