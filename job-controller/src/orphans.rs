//! Removes the tracking finalizer from Pods that no Job counts any more, so that they can be deleted.
//!
//! This loop has its own queue (`job_orphan_pod`) and workers. The event handlers of the Job loop enqueue its keys, and it
//! reads the caches of the Job loop.

pub mod key;

mod decide;

use std::sync::Arc;

use common::{consistency::STALE_CACHE_RECHECK_INTERVAL, prelude::*};
use jiff::Timestamp;

use self::{
    decide::{Plan, PossibleOrphan, Snapshot},
    key::OrphanKey,
};
use crate::jobs::{JobController, act::finalizers::finalizer_removal_request, snapshot::SharedPod};

/// The controller that removes leftover finalizers. It reads the caches of the Job controller.
pub(crate) struct OrphanController(pub(crate) Arc<JobController>);

impl OrphanController {
    /// Whether the Job with this UID exists, and has not finished or is managed by another controller. True if the Job cannot
    /// be decoded.
    fn job_counts_pods(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        let jobs = &self.0.watch.job_store;
        match jobs.get(namespace, name) {
            Ok(Some(job)) => job.metadata.uid == *uid && (job.managed_by.is_some() || !job.is_finished()),
            Ok(None) => false,
            Err(_) => jobs.with_metadata(namespace, name, |meta| meta.uid == *uid).unwrap_or(false),
        }
    }
}

impl Controller for OrphanController {
    type Key = OrphanKey;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &OrphanKey, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let Self(job_controller) = self;
        let (pods, finished_or_deleted_job_uid) = match key {
            OrphanKey::Pod { namespace, name } => {
                (job_controller.watch.pod_store.get_decoded(namespace, name).into_iter().collect(), None)
            }
            OrphanKey::Job { namespace, name, uid } => {
                // The sync waits until the cache shows the last removals of finalizers, so that no finalizer is removed twice.
                let child_uids = || job_controller.child_pod_uids(namespace, uid);
                if let Some((unseen, max_wait)) = job_controller.watch.ledger.first_unseen_write(uid, child_uids) {
                    let max_wait = max_wait.min(STALE_CACHE_RECHECK_INTERVAL);
                    return Err(NoSnapshot::waiting_because(unseen.to_string(), max_wait));
                }
                let pods = job_controller.child_pods(namespace, uid);
                (pods, (!self.job_counts_pods(namespace, name, uid)).then(|| uid.clone()))
            }
        };
        if pods.is_empty() && finished_or_deleted_job_uid.is_none() {
            return Err(NoSnapshot::Gone);
        }
        let possible_orphan = |pod: SharedPod| {
            let meta = pod.meta();
            let is_counted_by = |owner: &OwnerRef| self.job_counts_pods(&meta.namespace, &owner.name, &owner.uid);
            PossibleOrphan { is_counted_by_job: meta.controller().is_some_and(is_counted_by), pod }
        };
        Ok(Snapshot { possible_orphans: pods.into_iter().map(possible_orphan).collect(), finished_or_deleted_job_uid })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Removes the finalizer from every Pod of the plan. Tries all Pods before it returns the first failure.
    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let send = |pod: &SharedPod| io.send(finalizer_removal_request(pod, "no Job counts it any more", io));
        let answers = io.run_group(GroupConcurrency::AllConcurrent, &plan.pods_to_remove_finalizer_from, send).await;
        for (pod, answer) in plan.pods_to_remove_finalizer_from.iter().zip(answers) {
            if let Err(refusal) = answer
                && refusal.class != RefusalClass::NotFound
            {
                let doing = format!("removing the finalizer of orphaned pod {}", pod.meta().key());
                return Err(SyncError::from_refusal(&doing, &refusal));
            }
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn record_plan(&self, snapshot: &Snapshot, _: &Plan) {
        if let Some(job) = &snapshot.finished_or_deleted_job_uid {
            self.0.memory.forget_job(job);
            self.0.pod_creation_pauses.forget(job);
            self.0.watch.ledger.forget_owner(job);
        }
    }
}
