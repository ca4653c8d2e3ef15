//! From a key to a snapshot: reads of caches by index, and nothing else.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::{Observed, RECHECK},
    intern::Text,
    io::Failed,
    map::{HashMap, HashSet},
    meta::{Key, Uid, Version},
    pods::Phase,
    refs::{self, Claims, Owner},
    selector::Selector,
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use super::{
    JobController,
    gangs::Gangs,
    snapshot::{Blocked, PodRef, Record, Snapshot},
};
use crate::objects::{JOBS, Job};

impl JobController {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let store = self.jobs.store();
        let known = store.peek(&key.namespace, &key.name, |meta| meta.uid.clone());
        let mut blocked = None;
        if let Some(uid) = &known {
            let behind = self.behind(&key.namespace, uid);
            let awaited = match &behind {
                Some((Behind::Write { resource, written, .. }, _)) => Some((*resource, *written)),
                // Any event of a Pod may be the one that shows the change.
                Some((Behind::Conflicts { resource, .. }, _)) => Some((*resource, Version::UNKNOWN)),
                _ => None,
            };
            self.memory.wait_for(uid, awaited);
            if let Some((behind, left)) = behind {
                let is_stale = matches!(behind, Behind::Write { .. });
                if matches!(behind, Behind::Conflicts { .. }) || (is_stale && self.reads_own_writes) {
                    return Ok(Observed::behind((behind, left)));
                }
                let at_most = if is_stale { left.min(RECHECK) } else { left };
                blocked = Some(Blocked { why: behind.to_string(), at_most, is_stale });
            }
        }
        // Read after the check: what is older than own writes is not looked at.
        let Some(job) = store.get(&key.namespace, &key.name)? else { return Ok(Observed::Gone) };
        let uid = &job.metadata.uid;
        if known.as_ref() != Some(uid) {
            // Another one of that name came just now.
            return self.observe(key, now);
        }
        let mut snapshot = Snapshot {
            owner: Owner::new(JOBS, &job.metadata),
            job: job.clone(),
            claims: Claims::default(),
            unselected: Vec::new(),
            processed: Arc::default(),
            ends: Arc::default(),
            backoff: Record::default(),
            scheduling: None,
            terminating_namespace: false,
            blocked: None,
            limits: self.limits,
            now,
        };
        if job.is_finished() || job.managed_by.is_some() {
            return Ok(Observed::Ready(snapshot));
        }
        if self.memory.read(uid, |known| known.finished) == Some(true) {
            return Ok(Observed::wait("the cache does not show yet that the Job has finished", RECHECK));
        }
        let owned = self.pods.store().by_index(ByController, &IndexValue::controlled_by(&job.metadata))?;
        let tracked = || owned.iter().filter(|pod| pod.tracked).map(|pod| pod.meta().uid.clone()).collect();
        snapshot.processed = self.memory.processed(uid, tracked);
        let uids = |pod: &PodRef| pod.meta().uid.clone();
        let ahead: Vec<Uid> = owned.iter().filter(|pod| !pod.is_active() && pod.finished > now).map(uids).collect();
        snapshot.ends = self.memory.ends(uid, &ahead, now, || owned.iter().map(uids).collect());
        snapshot.backoff = self
            .memory
            .read(uid, |known| known.backoff)
            .flatten()
            .unwrap_or_else(|| recollect(&job, &owned, &snapshot.ends));
        let orphans = self.orphans_of(&job);
        (snapshot.claims, snapshot.unselected) = claim(&snapshot.owner, &job.selector, owned, orphans);
        snapshot.scheduling = self.gangs.as_ref().map(|gangs| gangs.scheduling(&job)).transpose()?;
        let is_recent = |at| self.context.clock.instant().saturating_duration_since(at) < self.expectations_timeout;
        snapshot.terminating_namespace = self.memory.read(uid, |known| known.refused).flatten().is_some_and(is_recent);
        snapshot.blocked = blocked;
        Ok(Observed::Ready(snapshot))
    }

    /// What of this process's own writes the caches do not show yet.
    pub(crate) fn behind(&self, namespace: &Text, uid: &Uid) -> Option<(Behind, Duration)> {
        let mut caches: Vec<&dyn Cache> = vec![&**self.pods.store(), &**self.jobs.store()];
        caches.extend(self.gangs.iter().flat_map(Gangs::caches));
        self.ledger.behind(uid, &caches, || self.children(namespace, uid))
    }

    /// The uids of the Pods a Job controls, selected or not.
    pub(crate) fn children(&self, namespace: &Text, uid: &Uid) -> HashSet<Uid> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        let pods = self.pods.store().readable_by_index(ByController, &owner);
        pods.iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// The Pods of the Job's namespace that nobody controls; none that cannot be read, since none can be adopted unread.
    fn orphans_of(&self, job: &Job) -> Vec<PodRef> {
        let namespace = IndexValue::Text(job.metadata.namespace.clone());
        self.pods.store().readable_by_index(OrphansByNamespace, &namespace)
    }
}

/// What the Job claims, and which of the Pods it controls it neither keeps nor releases.
///
/// Every Pod is kept or released as long as the Job lives. A selector that breaks the rules claims nothing; the plan says so.
pub(crate) fn claim(
    owner: &Owner,
    selector: &Selector,
    owned: Vec<PodRef>,
    orphans: Vec<PodRef>,
) -> (Claims<PodRef>, Vec<PodRef>) {
    let candidates = owned.iter().cloned().chain(orphans);
    let claims = refs::claim(owner, selector, candidates, |_| true).unwrap_or_default();
    if !owner.deleting {
        return (claims, Vec::new());
    }
    let kept: HashSet<Uid> = claims.keep.iter().map(|pod| pod.meta().uid.clone()).collect();
    let is_unselected = |pod: &PodRef| {
        let meta = pod.meta();
        meta.controller().is_some_and(|controller| controller.uid == owner.uid) && !kept.contains(&meta.uid)
    };
    (claims, owned.into_iter().filter(is_unselected).collect())
}

/// What a predecessor must have known of failures since the last success, as far as Pods still tell.
///
/// Only of a Job of which nothing has succeeded yet: Pods that have succeeded are not kept, and might have been the last
/// to end. Upstream forgets all of it (kubernetes/kubernetes#114650).
fn recollect(job: &Job, owned: &[PodRef], ends: &HashMap<Uid, Timestamp>) -> Record {
    if job.status.succeeded > 0 || job.status.failed == 0 {
        return Record::default();
    }
    let counted = owned.iter().filter(|pod| !pod.tracked && pod.phase == Phase::Failed);
    let ends: Vec<Timestamp> =
        counted.map(|pod| ends.get(&pod.meta().uid).map_or(pod.finished, |seen| pod.finished.min(*seen))).collect();
    let failures = u32::try_from(job.status.failed).unwrap_or(0).min(u32::try_from(ends.len()).unwrap_or(u32::MAX));
    Record { failures, last: ends.into_iter().max() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::{at, job};

    fn failed(name: &str, second: i64, finalizers: &Value) -> PodRef {
        let pod = json!({"metadata": {"name": name, "finalizers": finalizers}, "status": {"phase": "Failed",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}}}]}});
        Arc::new(serde_json::from_str(&pod.to_string()).unwrap())
    }

    #[test]
    fn failures_before_a_restart_are_recollected_from_counted_pods() {
        let pods = [
            failed("a", -30, &json!([])),
            failed("b", -10, &json!(null)),
            failed("c", -5, &json!([crate::objects::JOB_TRACKING])),
        ];
        let ends = HashMap::default();
        let with = |status: Value| {
            let mut json = job("j").0;
            json["status"] = status;
            recollect(&serde_json::from_str(&json.to_string()).unwrap(), &pods, &ends)
        };
        assert_eq!(with(json!({"failed": 2})), Record { failures: 2, last: Some(at(-10)) });
        assert_eq!(with(json!({"failed": 1})), Record { failures: 1, last: Some(at(-10)) });
        assert_eq!(with(json!({"failed": 2, "succeeded": 1})), Record::default());
        assert_eq!(with(json!({})), Record::default());
    }
}
