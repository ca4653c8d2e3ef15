//! The cache of Pods, shared by the loops of both kinds.

use std::ops::Deref;

use common::{
    head::ObjectHead,
    pods::{PODS, Pod},
    prelude::*,
    wire::MessageSchema,
};
use serde::Deserialize;

use crate::kind::{ReplicaSets, ReplicationControllers, SetKind};

/// A Pod that may concern this crate: it has not finished, and its controller is a ReplicaSet or ReplicationController, or it
/// has no controller. Other Pods are not cached.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct CachedPod(Pod);

impl Deref for CachedPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.0
    }
}

impl CachedPod {
    /// Returns the metadata of the Pod, which has no finalizers in the cache.
    pub fn meta(&self) -> &Meta {
        &self.0.meta
    }
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByController, OrphansByNamespace);

    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Pod::PROTOBUF_SCHEMA;

    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> = Some(|head| {
        let ours = [ReplicaSets::RESOURCE, ReplicationControllers::RESOURCE];
        head.controller_kind().is_none_or(|kind| ours.iter().any(|resource| resource.kind() == kind))
    });

    fn meta(&self) -> &Meta {
        &self.0.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.0.drop_unneeded_fields();
        self.0.meta.finalizers = Box::default();
    }

    fn is_cached(&self) -> bool {
        self.can_concern_controller() && !self.0.phase.is_terminal()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(owner: Option<&str>, phase: &str) -> CachedPod {
        let owners: Vec<Value> =
            owner.map(|kind| json!({"kind": kind, "name": "o", "uid": "u", "controller": true})).into_iter().collect();
        let json = json!({"metadata": {"name": "p", "ownerReferences": owners}, "status": {"phase": phase}});
        serde_json::from_value(json).unwrap()
    }

    /// REPLICASET-2.
    #[test]
    fn only_unfinished_pods_of_sets_and_orphans_are_cached() {
        for (owner, phase, keep) in [
            (Some("ReplicaSet"), "Running", true),
            (Some("ReplicationController"), "Pending", true),
            (None, "Running", true),
            (None, "", true),
            (Some("ReplicaSet"), "Succeeded", false),
            (None, "Failed", false),
            (Some("Job"), "Running", false),
            (Some("Node"), "Running", false),
        ] {
            assert_eq!(pod(owner, phase).is_cached(), keep, "{owner:?} {phase}");
        }
    }
}
