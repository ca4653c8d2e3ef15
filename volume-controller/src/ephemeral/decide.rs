//! Decides which claims the ephemeral volumes of a Pod need, as pure functions.

use std::sync::Arc;

use common::prelude::*;
use serde_json::{Value, json};

use crate::objects::{Claim, EphemeralVolume, Pod};

/// What one sync reads from the caches.
pub struct Snapshot {
    /// The Pod, which is not terminating.
    pub pod: Arc<Pod>,
    /// The claim with the name for each ephemeral volume, in the order of the volumes; `None` if it is missing.
    pub claims: Vec<Option<Arc<Claim>>>,
}

/// What one sync does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The volumes whose claims are created, in order.
    pub created: Vec<EphemeralVolume>,
    /// The first volume whose claim belongs to another owner, with the error about it. It ends the sync after the creations.
    pub foreign: Option<(EphemeralVolume, String)>,
    owned: usize,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        format!("{} claims exist, and {} are missing", self.owned, self.created.len())
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.foreign.iter().map(|(_, error)| error.clone()).collect()
    }
}

/// Plans the creation of missing claims, up to the first claim of another owner.
///
/// Upstream: `pkg/controller/volume/ephemeral`, `handleVolume`.
pub fn decide(Snapshot { pod, claims }: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    for (volume, claim) in pod.ephemeral_volumes.iter().zip(claims) {
        match claim {
            None => plan.created.push(volume.clone()),
            Some(claim) if claim.is_controlled_by(pod) => plan.owned += 1,
            Some(_) => {
                plan.foreign = Some((volume.clone(), foreign_claim_error(pod, volume)));
                break;
            }
        }
    }
    plan
}

/// Returns the error about a claim of another owner.
///
/// Upstream: `staging/src/k8s.io/component-helpers/storage/ephemeral`, `VolumeIsForPod`.
fn foreign_claim_error(pod: &Pod, EphemeralVolume { claim_name, .. }: &EphemeralVolume) -> String {
    let Meta { namespace, name, .. } = &pod.metadata;
    format!("PVC {namespace}/{claim_name} was not created for pod {namespace}/{name} (pod is not owner)")
}

/// Returns the claim of an ephemeral volume, from its decoded template.
pub fn new_claim(pod: &Pod, claim_name: &str, mut template: Value) -> Value {
    let owner = Owner::new(Pod::RESOURCE, &pod.metadata).controller_reference();
    let mut metadata = json!({"name": claim_name, "namespace": pod.metadata.namespace, "ownerReferences": [owner]});
    for field in ["labels", "annotations"] {
        let value = template["metadata"][field].take();
        if !value.is_null() {
            metadata[field] = value;
        }
    }
    json!({"apiVersion": "v1", "kind": Claim::RESOURCE.kind(), "metadata": metadata, "spec": template["spec"].take()})
}

#[cfg(test)]
mod tests;
