//! The claims of Pods: creating them, and writing their owner references.

use common::{
    api::{Patch, Target, Written},
    events::EventType,
    meta::{Key, OwnerRef, Uid},
    queue::Priority,
};
use serde_json::{Value, json};

use crate::{
    StatefulSetController,
    decide::{body, retention::Owners, scaling::MAX_CLAIM_WRITES},
    error::Error,
    objects::CLAIMS,
    plan::{Claims, Reconcile},
    snapshot::{ClaimRef, Snapshot},
};

/// The most claims that one error names. The error is logged, kept for diagnostics, and told in an Event.
const MAX_NAMED_PROBLEMS: usize = 10;

impl StatefulSetController {
    /// Creates the claims that are missing. Every one is tried; the error names all that failed or are terminating.
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
                    let tells = !error.is_already_exists() && super::pods::is_worth_telling(&error);
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
        problems.extend(claims.terminating.iter().map(|name| format!("pvc {name} is being deleted")));
        let unnamed = problems.len().saturating_sub(MAX_NAMED_PROBLEMS);
        problems.truncate(MAX_NAMED_PROBLEMS);
        if unnamed > 0 {
            problems.push(format!("{unnamed} more claims"));
        }
        // As Go writes several errors.
        match &problems[..] {
            [] => Ok(()),
            [problem] => Err(Error::Claims(problem.clone(), first)),
            _ => Err(Error::Claims(format!("[{}]", problems.join(", ")), first)),
        }
    }

    /// Writes the owner references of claims in order, up to the first failure.
    ///
    /// Each write names the version of the claim that was judged: a reference that somebody else has added since is not lost.
    pub(super) async fn own(&self, snapshot: &Snapshot, claims: &[(ClaimRef, Vec<OwnerRef>)]) -> Result<(), Error> {
        for (claim, owners) in claims {
            let meta = &claim.metadata;
            let failed = |source| Error::Owners { claim: meta.name.to_string(), source };
            let patch = json!({"metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "ownerReferences": if owners.is_empty() { Value::Null } else { json!(owners) },
            }});
            let target = Target::object(CLAIMS, &meta.namespace, &meta.name);
            let answer = self.context.api.patch(target, Patch::Merge, &patch).await;
            let answer = answer.map_err(failed)?;
            let written: Written = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
            self.wrote(snapshot, CLAIMS, &written.metadata);
        }
        Ok(())
    }

    /// Writes the owner references of an ordinal's claims after its Pod was created, as far as the cache has the claims. `pod` is
    /// empty if the Pod could not be created.
    ///
    /// Claims that were created just before are left to the sync that the event of the Pod brings: the volume binder writes them now,
    /// and would meet a conflict or cause one.
    pub(super) async fn own_those_of(
        &self,
        snapshot: &Snapshot,
        ordinal: i32,
        pod: &Uid,
        ensured: &Claims,
    ) -> Result<(), Error> {
        let set = &snapshot.set;
        let owners = Owners::new(set, &set.pod_name(ordinal), pod, false);
        let mut changes = Vec::new();
        for (at, template) in set.claims.iter().enumerate() {
            // Missing claims are listed by ascending position of their template.
            if ensured.missing.binary_search_by_key(&at, |(template, _)| *template).is_ok() {
                continue;
            }
            let name = set.claim_name(template, ordinal);
            let Some(claim) = self.claims.store().get_readable(&set.metadata.namespace, &name) else { continue };
            let verdict = owners.judge(&claim.metadata.owners);
            if verdict.conflicting {
                self.tell_conflict(snapshot, &name);
            }
            changes.extend(verdict.change.map(|change| (claim, change)));
        }
        // The others get theirs at the next event of the Pod.
        changes.truncate(MAX_CLAIM_WRITES);
        self.own(snapshot, &changes).await
    }

    /// Reports a claim that another controller manages.
    pub(super) fn tell_conflict(&self, snapshot: &Snapshot, claim: &str) {
        let message = format!(
            "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
        );
        self.event(snapshot, EventType::Warning, "ConflictingController", message);
    }

    /// Has the set synced again once one of the claims is gone that it waits for.
    pub(super) fn await_claims(&self, snapshot: &Snapshot, plan: &Reconcile) {
        let set = &snapshot.set.metadata;
        let claims: Vec<Key> = plan.claims_to_await.iter().map(|name| Key::new(&set.namespace, name)).collect();
        self.awaited.replace(&set.key(), claims.clone());
        // The event of a claim that has gone in between found nobody waiting for it.
        let gone = |claim: &Key| self.claims.store().peek(&claim.namespace, &claim.name, |_| ()).is_none();
        for claim in claims.iter().filter(|claim| gone(claim)) {
            self.awaited.take(claim);
            self.queue.add(set.key(), Priority::Normal);
        }
        // Neither does the event of a set that has gone in between find its entries.
        if self.sets.store().peek(&set.namespace, &set.name, |_| ()).is_none() {
            self.awaited.forget(&set.key());
        }
    }
}
