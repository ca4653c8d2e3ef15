//! The removal of a Pod without the help of its kubelet.

use std::sync::Arc;

use common::{
    api::{self, Delete, Patch, Target, Written},
    conditions::{TRUE, seconds},
    object::Object as _,
    pods::PODS,
};
use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::{
    decide::garbage::{Reason, Victim},
    error::Error,
    garbage::PodCollector,
    objects::{CachedPod, DISRUPTION_TARGET, NODES, Node},
};

/// How many requests of one pass are in flight at once.
const IN_FLIGHT: usize = 50;
/// How many removals are prepared at once; bounds the memory of a pass that removes many Pods.
const CHUNK: usize = 500;
/// How often a removal is attempted when the Pod changes meanwhile.
const ATTEMPTS: usize = 3;

impl PodCollector {
    /// Whether the server has no node of that name either. If the node cannot be read, its Pods stay.
    pub(crate) async fn is_gone(&self, node: &str) -> Result<bool, Error> {
        match self.live_node(node).await? {
            Err(error) if error.is_not_found() => Ok(true),
            _ => Ok(false),
        }
    }

    /// Whether the node is out of service at the server, too. If it cannot be read, its Pods stay.
    pub(crate) async fn is_out_of_service(&self, node: &str) -> Result<bool, Error> {
        Ok(self.live_node(node).await?.is_ok_and(|node| node.is_out_of_service()))
    }

    /// The node as the server has it. Only the loss of leadership ends the pass.
    async fn live_node(&self, name: &str) -> Result<Result<Node, api::Error>, Error> {
        let answer = match self.context.api.get(Target::object(NODES, "", name)).await {
            Err(error @ api::Error::NotLeader) => return Err(Error::new(format!("read Node {name}"), error)),
            answer => answer,
        };
        let node = answer.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        if let Err(error) = &node
            && !error.is_not_found()
        {
            tracing::warn!(logger = "podgc", node = name, err = %error, "Error getting node from apiserver");
        }
        Ok(node)
    }

    /// Removes all of them; a Pod whose removal failed is found again by the next pass.
    pub(crate) async fn remove_all(&self, victims: &[Victim]) -> Result<(), Error> {
        for chunk in victims.chunks(CHUNK) {
            let removals: Vec<_> = chunk.iter().map(|victim| self.remove(victim)).collect();
            let results: Vec<_> = stream::iter(removals).buffered(IN_FLIGHT).collect().await;
            for (victim, result) in chunk.iter().zip(results) {
                self.count(victim, result)?;
            }
        }
        Ok(())
    }

    fn count(&self, Victim { pod, reason }: &Victim, result: Result<(), api::Error>) -> Result<(), Error> {
        let labels = [pod.meta.namespace.as_str(), reason.as_str()];
        match result {
            Err(error @ api::Error::NotLeader) => {
                return Err(Error::new(format!("remove Pod {}", pod.meta.key()), error));
            }
            Err(error) => {
                self.failed.with(&labels).inc();
                tracing::error!(logger = "podgc", pod = %pod.meta.key(), err = %error, "Failed to delete pod");
            }
            Ok(()) => {}
        }
        self.deleted.with(&labels).inc();
        Ok(())
    }

    /// Removes a Pod. A Pod that changed since it was judged is read again, and removed only if the reason still holds.
    async fn remove(&self, Victim { pod, reason }: &Victim) -> Result<(), api::Error> {
        tracing::info!(logger = "podgc", pod = %pod.meta.key(), reason = reason.as_str(), "PodGC is force deleting Pod");
        let mut judged = Arc::clone(pod);
        let mut attempt = 1;
        loop {
            match self.attempt(&judged, *reason).await {
                Err(error) if error.is_not_found() || error.is_another() => return Ok(()),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                other => return other,
            }
            attempt += 1;
            let target = Target::object(PODS, &pod.meta.namespace, &pod.meta.name);
            let live: CachedPod = match self.context.api.get(target).await {
                Err(error) if error.is_not_found() => return Ok(()),
                answer => serde_json::from_slice(&answer?)?,
            };
            if !reason.still_holds(pod, &live) {
                return Ok(());
            }
            judged = Arc::new(live);
        }
    }

    /// Writes the phase of a Pod that has not ended, and deletes this version of the Pod without grace.
    async fn attempt(&self, pod: &CachedPod, reason: Reason) -> Result<(), api::Error> {
        let meta = pod.meta();
        let mut version = meta.resource_version;
        if !pod.phase.is_terminal() {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if reason == Reason::Orphaned {
                let since = pod.disrupted.get().unwrap_or_else(|| self.context.clock.now());
                let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds::text(since)});
                if meta.generation > 0 {
                    condition["observedGeneration"] = json!(meta.generation);
                }
                status["conditions"] = json!([condition]);
            }
            let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": version}, "status": status});
            let target = Target::status(PODS, &meta.namespace, &meta.name);
            let answer = self.context.api.patch(target, Patch::Strategic, &patch).await?;
            version = serde_json::from_slice::<Written>(&answer)?.metadata.resource_version;
        }
        let options =
            Delete { uid: Some(meta.uid.clone()), version: Some(version), grace_seconds: Some(0), ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        self.context.api.delete(target, &options).await.map(drop)
    }
}
