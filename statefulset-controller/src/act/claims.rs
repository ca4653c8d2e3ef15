//! The claims of Pods: making them, and saying who owns them.

use common::{
    api::{Patch, Target, Written},
    events::EventType,
    meta::OwnerRef,
};
use serde_json::{Value, json};

use crate::{
    StatefulSetController,
    decide::{body, retention::Owners},
    error::Error,
    objects::CLAIMS,
    plan::{Claims, Reconcile},
    snapshot::{ClaimRef, PodRef, Snapshot},
};

impl StatefulSetController {
    /// Makes the claims that are missing; fails if one cannot be made, or is going. Each is tried.
    ///
    /// Upstream: `pkg/controller/statefulset`, `createPersistentVolumeClaims`.
    pub(super) async fn ensure(&self, snapshot: &Snapshot, pod: &str, claims: &Claims) -> Result<(), Error> {
        let set = &snapshot.set;
        let (mut problems, mut first) = (Vec::new(), None);
        for (template, name) in &claims.missing {
            let claim = set.claims.get(*template).and_then(|template| body::claim(set, template, name));
            let claim = claim.ok_or_else(|| Error::Template(format!("claim {name}")))?;
            let target = Target::object(CLAIMS, &set.metadata.namespace, "");
            let answer = self.context.api.create(target, &claim).await;
            match answer.and_then(|answer| Ok(serde_json::from_slice::<Written>(&answer)?)) {
                Ok(made) => {
                    self.wrote(snapshot, CLAIMS, &made.metadata);
                    let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.metadata.name);
                    self.event(snapshot, EventType::Normal, "SuccessfulCreate", message);
                }
                Err(error) => {
                    let tells = !error.is_already_exists() && super::pods::is_news(&error);
                    if tells {
                        let who = format!("Claim {name} for Pod {pod} in StatefulSet {}", set.metadata.name);
                        let message = format!("Create {who} failed error: {error}");
                        self.event(snapshot, EventType::Warning, "FailedCreate", message);
                    }
                    problems.push(format!("failed to create PVC {name}: {error}"));
                    first = first.or(Some(error));
                }
            }
        }
        problems.extend(claims.going.iter().map(|name| format!("pvc {name} is being deleted")));
        if problems.is_empty() { Ok(()) } else { Err(Error::Claims(problems.join(", "), first)) }
    }

    /// Writes the owners of claims, in their order; the first failure is the last.
    pub(super) async fn own(&self, snapshot: &Snapshot, claims: &[(ClaimRef, Vec<OwnerRef>)]) -> Result<(), Error> {
        for (claim, owners) in claims {
            let meta = &claim.metadata;
            let what = || format!("update claim {} for delete policy ownerRefs", meta.name);
            let patch = json!({"metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "ownerReferences": if owners.is_empty() { Value::Null } else { json!(owners) },
            }});
            let target = Target::object(CLAIMS, &meta.namespace, &meta.name);
            let answer = self.context.api.patch(target, Patch::Merge, &patch).await;
            let answer = answer.map_err(|error| Error::request(what(), error))?;
            let written: Written = serde_json::from_slice(&answer).map_err(|error| Error::request(what(), error))?;
            self.wrote(snapshot, CLAIMS, &written.metadata);
        }
        Ok(())
    }

    /// Writes the owners of the claims of a Pod that was made just now, as far as the cache has them.
    pub(super) async fn own_those_of(
        &self,
        snapshot: &Snapshot,
        ordinal: i32,
        pod: &common::meta::Meta,
    ) -> Result<(), Error> {
        let set = &snapshot.set;
        let owners = Owners::new(set, &pod.name, &pod.uid, false);
        let mut changes = Vec::new();
        for template in &set.claims {
            let name = set.claim_name(template, ordinal);
            let Some(claim) = self.claims.store().get_readable(&set.metadata.namespace, &name) else { continue };
            let verdict = owners.judge(&claim.metadata.owners);
            if verdict.conflicting {
                self.tell_conflict(snapshot, &name);
            }
            changes.extend(verdict.change.map(|change| (claim, change)));
        }
        self.own(snapshot, &changes).await
    }

    /// Tells of a claim that somebody else manages.
    pub(super) fn tell_conflict(&self, snapshot: &Snapshot, claim: &str) {
        let message = format!(
            "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
        );
        self.event(snapshot, EventType::Warning, "ConflictingController", message);
    }

    /// Has the set looked at again once a claim that it waits for is gone.
    pub(super) fn await_claims(&self, snapshot: &Snapshot, plan: &Reconcile) {
        let set = &snapshot.set.metadata;
        for name in &plan.claims_to_go {
            let claim = common::meta::Key::new(&set.namespace, name);
            self.awaited.lock().insert(claim, set.key());
            // It may be gone already.
            if self.claims.store().peek(&set.namespace, name, |_| ()).is_none() {
                self.queue.add(set.key(), common::queue::Priority::Normal);
            }
        }
    }

    /// The claims of all Pods that are there or wanted, as far as the cache has them.
    pub(crate) fn claims_of(
        &self,
        set: &crate::objects::StatefulSet,
        pods: &[&PodRef],
    ) -> Result<std::collections::BTreeMap<String, ClaimRef>, Error> {
        let mut claims = std::collections::BTreeMap::new();
        if set.claims.is_empty() {
            return Ok(claims);
        }
        let wanted = (0..set.replicas).map_while(|at| set.start.checked_add(at));
        let number = |pod: &&&PodRef| crate::objects::ordinal_of(&set.metadata.name, &pod.meta().name).flatten();
        let others = pods.iter().filter_map(|pod| number(&pod)).filter(|ordinal| !set.wants(*ordinal));
        for ordinal in wanted.chain(others) {
            for template in &set.claims {
                let name = set.claim_name(template, ordinal);
                if let Some(claim) = self.claims.store().get(&set.metadata.namespace, &name)? {
                    claims.insert(name, claim);
                }
            }
        }
        Ok(claims)
    }
}
