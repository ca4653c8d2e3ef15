//! The requests for one Pod: its claims, the Pod itself, the owner references of its claims.

use std::sync::Arc;

use common::{api::PatchFormat, pods::PODS, prelude::*, wire::messages};
use serde_json::{Value, json};

use super::{SetIo, body, templates::PhaseTemplates, write_role};
use crate::{
    decide::{
        retention::VolumeClaimOwners,
        scaling::{MAX_VOLUME_CLAIM_WRITES_PER_POD, ownership_changes},
    },
    objects::{CachedPod, PERSISTENT_VOLUME_CLAIMS},
    plan::{
        DeletionReason, OwnershipChanges, PodErrors, PodRepair, PodWork, RepairOccasion, UnusableVolumeClaims,
        revisions::RevisionRole,
    },
    snapshot::{SharedPod, Snapshot},
};

/// The greatest number of claims that one error names. The error is logged, kept for diagnostics, and reported in an Event.
const MAX_NAMED_PROBLEMS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventVerb {
    Create,
    Update,
    Delete,
}

impl EventVerb {
    fn reasons(self) -> [&'static str; 2] {
        match self {
            Self::Create => ["SuccessfulCreate", "FailedCreate"],
            Self::Update => ["SuccessfulUpdate", "FailedUpdate"],
            Self::Delete => ["SuccessfulDelete", "FailedDelete"],
        }
    }
}

/// The failed work on a Pod's claims, and the class of the refusal if a request was refused.
struct ClaimFailure {
    error: SyncError,
    class: Option<RefusalClass>,
}

/// Returns whether an Event reports a refusal of this class. A terminating namespace refuses Events as well, so none is sent.
fn is_worth_an_event(class: Option<RefusalClass>) -> bool {
    class != Some(RefusalClass::NamespaceTerminating)
}

pub(super) async fn work_on_pod(
    snapshot: &Snapshot,
    work: &PodWork,
    templates: &PhaseTemplates<'_>,
    io: SetIo<'_>,
) -> Result<(), SyncError> {
    let name = match work {
        PodWork::Create { ordinal, .. } | PodWork::CreateClaims { ordinal, .. } => {
            snapshot.set.pod_name(*ordinal).into()
        }
        PodWork::Delete { pod, .. } | PodWork::Repair(PodRepair { pod, .. }) => Arc::clone(&pod.meta().name),
    };
    let on_pod = WorkOnPod { snapshot, name, io };
    match work {
        PodWork::Create { ordinal, claims, revision_role: role } => {
            on_pod.create_claims_of_new_pod(claims).await?;
            on_pod.create(*ordinal, *role, templates).await
        }
        PodWork::CreateClaims { claims, .. } => on_pod.create_claims_of_new_pod(claims).await,
        PodWork::Delete { pod, why } => on_pod.delete(pod, *why).await,
        PodWork::Repair(repair) => on_pod.repair(repair).await,
    }
}

struct WorkOnPod<'a> {
    snapshot: &'a Snapshot,
    name: Arc<str>,
    io: SetIo<'a>,
}

impl WorkOnPod<'_> {
    /// Records an Event about the Pod. Upstream: `recordPodEvent`.
    fn report(&self, verb: EventVerb, error: Option<&str>) {
        let what = format!("{verb:?} Pod {} in StatefulSet {}", self.name, self.snapshot.set.metadata.name);
        let [good, bad] = verb.reasons();
        match error {
            None => self.io.record_event(EventType::Normal, good, format!("{what} successful")),
            Some(error) => self.io.record_event(EventType::Warning, bad, format!("{what} failed error: {error}")),
        }
    }

    /// Returns the failure of a refused request for the Pod. A conflict is not reported: the next sync decides again.
    fn refused(&self, verb: EventVerb, what: &str, refusal: &Refusal) -> SyncError {
        if refusal.class != RefusalClass::VersionConflict && is_worth_an_event(Some(refusal.class)) {
            self.report(verb, Some(&refusal.error.to_string()));
        }
        SyncError::from_refusal_in_namespace(&format!("{what} Pod {}", self.name), refusal)
    }

    /// Returns the failure of the work on claims. Records an Event about the failure if `is_reported`.
    fn failed(&self, verb: EventVerb, ClaimFailure { error, .. }: ClaimFailure, is_reported: bool) -> SyncError {
        if is_reported {
            self.report(verb, Some(&error.to_string()));
        }
        error
    }

    async fn create_claims_of_new_pod(&self, claims: &UnusableVolumeClaims) -> Result<(), SyncError> {
        self.create_claims(claims).await.map_err(|failure| {
            let is_reported = is_worth_an_event(failure.class);
            self.failed(EventVerb::Create, failure, is_reported)
        })
    }

    /// Creates the missing claims. Every claim is tried; the error names all claims that failed or are terminating.
    /// Upstream: `pkg/controller/statefulset`, `createPersistentVolumeClaims`.
    async fn create_claims(&self, claims: &UnusableVolumeClaims) -> Result<(), ClaimFailure> {
        let Self { snapshot, name: pod_name, io } = self;
        let set = &snapshot.set;
        let set_name = &set.metadata.name;
        let mut problems = Vec::new();
        let mut first_refusal = None;
        for (template, name) in &claims.missing_claims {
            let template = set.volume_claim_templates.get(*template);
            let Some(claim) = template.and_then(|template| body::build_volume_claim(set, template, name)) else {
                let error = SyncError::new(SyncErrorClass::Template, format!("cannot make claim {name}"));
                return Err(ClaimFailure { error, class: None });
            };
            let body = io.encode_object(&PERSISTENT_VOLUME_CLAIMS, &messages::PERSISTENT_VOLUME_CLAIM, || claim);
            let request =
                Request::create(PERSISTENT_VOLUME_CLAIMS, &set.metadata.namespace, &name.as_str().into(), body);
            let Err(refusal) = io.send(request.with_role(write_role(snapshot))).await else {
                let message = format!("Create Claim {name} Pod {pod_name} in StatefulSet {set_name} success");
                io.record_event(EventType::Normal, "SuccessfulCreate", message);
                continue;
            };
            let error = &refusal.error;
            if refusal.class != RefusalClass::NameTaken && is_worth_an_event(Some(refusal.class)) {
                let message =
                    format!("Create Claim {name} for Pod {pod_name} in StatefulSet {set_name} failed error: {error}");
                io.record_event(EventType::Warning, "FailedCreate", message);
            }
            problems.push(format!("failed to create PVC {name}: {error}"));
            first_refusal.get_or_insert(refusal);
        }
        problems.extend(claims.terminating_claims.iter().map(|name| format!("pvc {name} is being deleted")));

        let unnamed = problems.len().saturating_sub(MAX_NAMED_PROBLEMS);
        problems.truncate(MAX_NAMED_PROBLEMS);
        if unnamed > 0 {
            problems.push(format!("{unnamed} more claims"));
        }
        // Go prints several errors in this format.
        let text = match &problems[..] {
            [] => return Ok(()),
            [problem] => problem.clone(),
            _ => format!("[{}]", problems.join(", ")),
        };
        let Some(Refusal { class, error }) = first_refusal else {
            return Err(ClaimFailure { error: SyncError::new(SyncErrorClass::Gone, text), class: None });
        };
        let mut error = SyncError::new(SyncErrorClass::Request(error.metric_label()), text);
        if class == RefusalClass::NamespaceTerminating {
            error = error.with_retry_policy(RetryPolicy::NextEvent);
        }
        Err(ClaimFailure { error, class: Some(class) })
    }

    /// Creates the Pod, and writes the owner references of the claims that existed before.
    ///
    /// The owner references are written even if the server refuses the Pod: if a quota refuses the Pod permanently, the claims
    /// must still be deleted with the set. Upstream: `CreateStatefulPod`.
    async fn create(&self, ordinal: i32, role: RevisionRole, templates: &PhaseTemplates<'_>) -> Result<(), SyncError> {
        let Self { snapshot, name, io } = self;
        let Snapshot { set, owner, .. } = snapshot;
        let usable = templates.get(role, name);
        let (revision, template) =
            usable.inspect_err(|error| self.report(EventVerb::Create, Some(&error.to_string())))?;
        let body = io
            .encode_object(&PODS, &messages::POD, || body::build_pod(set, owner, ordinal, template.clone(), revision));
        let why = match role {
            RevisionRole::Current => "from the current revision",
            RevisionRole::Update => "from the update revision",
        };
        let request =
            Request::create(PODS, &owner.namespace, name, body).with_role(write_role(snapshot)).with_reason(why);
        let (uid, created) = match io.send(request).await {
            Ok(created) => {
                // The Event comes first, because the write of the owner references may conflict with the volume binder.
                self.report(EventVerb::Create, None);
                (created.metadata.uid, Ok(()))
            }
            Err(refusal) => {
                let error = SyncError::from_refusal_in_namespace(&format!("cannot create Pod {name}"), &refusal);
                if refusal.class == RefusalClass::NameTaken {
                    self.examine_namesake(&refusal).await;
                    return Err(error);
                }
                if is_worth_an_event(Some(refusal.class)) {
                    self.report(EventVerb::Create, Some(&refusal.error.to_string()));
                }
                (Uid::default(), Err(error))
            }
        };
        // Claims that this sync created get their owner references in a later sync, after the first event of the Pod. The
        // volume binder writes these claims now, so a write by this sync could end in a conflict.
        let mut ownership = ownership_changes(snapshot, ordinal, &VolumeClaimOwners::new(set, name, &uid, false));
        // The remaining claims get their owner references at the next event of the Pod.
        ownership.new_owners_by_volume_claim.truncate(MAX_VOLUME_CLAIM_WRITES_PER_POD);
        let owned = self.write_claim_owners(&ownership).await.map_err(|failure| {
            let is_reported = failure.class != Some(RefusalClass::VersionConflict) && is_worth_an_event(failure.class);
            self.failed(EventVerb::Update, failure, is_reported)
        });
        created.and(owned)
    }

    /// Examines the Pod that has the name of the Pod to create.
    ///
    /// In most cases, the Pod is a Pod of the set that the cache does not show yet. A Pod that the cache does not hold is read
    /// from the server, because it may lack the label by which Pods are watched and be a Pod of the set or an orphan. Upstream
    /// watches all Pods, and only returns the refusal.
    async fn examine_namesake(&self, refusal: &Refusal) {
        let Self { snapshot, name, io } = self;
        let Some((cached_pod, refused_creations)) = io.observe_again(|controller| {
            let cached_pod = controller.pods.store().get_decoded(&snapshot.owner.namespace, name);
            Some((cached_pod, controller.watch.report_times.refused_creations(&snapshot.owner.uid, name)))
        }) else {
            return;
        };
        let now = io.now();
        let is_reported = refused_creations.is_some_and(|refused_creations| refused_creations.is_report_due(now));
        io.update_memory(|controller| {
            let report_times = &controller.watch.report_times;
            report_times.add_refused_creation(&snapshot.owner.uid, Arc::clone(name), now, is_reported);
        });
        let report = |namesake: &Meta| {
            if let Some(holder) = self.describe_holder(namesake).filter(|_| is_reported) {
                self.report(EventVerb::Create, Some(&format!("{} and {holder}", refusal.error)));
            }
        };
        if let Some(pod) = cached_pod {
            return report(pod.meta());
        }
        let request = Request::get(PODS, &snapshot.owner.namespace, name).with_reason("its name is taken");
        let Ok(Some(pod)) = io.send_and_decode::<CachedPod>(request).await else { return };
        report(pod.meta());
        let is_foreign = |pod_owner: &OwnerRef| pod_owner.uid != snapshot.owner.uid;
        if pod.lacks_name_label() && !pod.meta().controller().is_some_and(is_foreign) {
            io.update_memory(|controller| controller.pods.add_object_hidden_from_watch(pod));
        }
    }

    /// Describes the Pod that has the name of the Pod to create; `None` if the set controls it or will adopt it.
    fn describe_holder(&self, namesake: &Meta) -> Option<String> {
        let Snapshot { set, owner, .. } = self.snapshot;
        match namesake.controller() {
            Some(pod_owner) if pod_owner.uid == owner.uid => None,
            Some(OwnerRef { kind, name, .. }) => Some(format!("is controlled by {kind} {name}")),
            None if set.selector.matches_orphan(&namesake.labels) => None,
            None => Some("is not selected by the StatefulSet".to_owned()),
        }
    }

    /// Writes the owner references of claims in order, up to the first failure. Each write has the version of the cached claim
    /// as a precondition, so that no reference of another client is lost.
    async fn write_claim_owners(
        &self,
        OwnershipChanges { new_owners_by_volume_claim, conflicting_volume_claims }: &OwnershipChanges,
    ) -> Result<(), ClaimFailure> {
        let Self { snapshot, io, .. } = self;
        for claim in conflicting_volume_claims {
            let message = format!(
                "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            io.record_event(EventType::Warning, "ConflictingController", message);
        }
        for (claim, owners) in new_owners_by_volume_claim {
            let body = io.encode_body(|| {
                let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
                json!({"metadata": {"ownerReferences": owners}})
            });
            let request = Request::patch(PERSISTENT_VOLUME_CLAIMS, &claim.metadata, PatchFormat::Merge, body)
                .with_role(write_role(snapshot));
            if let Err(refusal) = io.send(request.with_verb_text("change the owner references of")).await {
                let what = format!("could not update claim {} for delete policy ownerRefs", claim.metadata.name);
                return Err(ClaimFailure {
                    error: SyncError::from_refusal_in_namespace(&what, &refusal),
                    class: Some(refusal.class),
                });
            }
        }
        Ok(())
    }

    async fn repair(&self, repair: &PodRepair) -> Result<(), SyncError> {
        let PodRepair { pod, ordinal, unusable_volume_claims, ownership_changes, pod_errors, occasion } = repair;
        self.create_claims(unusable_volume_claims).await.map_err(|failure| {
            let is_reported =
                *occasion == RepairOccasion::InRange && failure.class != Some(RefusalClass::VersionConflict);
            self.failed(EventVerb::Update, failure, is_reported)
        })?;
        self.write_claim_owners(ownership_changes).await.map_err(|failure| {
            // A denial blocks the scale-down until a right is granted or a policy is changed. Upstream does not report it.
            let is_reported = (*occasion != RepairOccasion::Condemned || failure.error.is_denied())
                && failure.class != Some(RefusalClass::VersionConflict);
            self.failed(EventVerb::Update, failure, is_reported)
        })?;
        if let Some(pod_errors) = pod_errors {
            return self.update(pod, *ordinal, pod_errors).await;
        }
        // If only owner references were wrong, the Pod is not written, but the Event is the same as upstream's.
        if *occasion == RepairOccasion::InRange && !ownership_changes.new_owners_by_volume_claim.is_empty() {
            self.report(EventVerb::Update, None);
        }
        Ok(())
    }

    /// Writes the identity labels of a Pod, and its volumes, which the server refuses. Upstream: `UpdateStatefulPod`.
    async fn update(&self, pod: &SharedPod, ordinal: i32, pod_errors: &PodErrors) -> Result<(), SyncError> {
        let Self { snapshot, name, io } = self;
        if pod_errors.has_wrong_name {
            // Upstream updates a Pod with the name that the Pod should have, and the server finds no such Pod.
            let wanted = snapshot.set.pod_name(ordinal);
            let text = format!("it has the ordinal of Pod {wanted}, and a Pod cannot be renamed");
            self.report(EventVerb::Update, Some(&text));
            return Err(SyncError::new(SyncErrorClass::Name, format!("cannot update Pod {name}: {text}")));
        }
        let body = io.encode_body(|| repair_patch(pod.meta(), ordinal, pod_errors));
        let lacks = if pod_errors.lacks_identity_labels {
            "it lacks labels of its identity"
        } else {
            "it lacks volumes of its claims"
        };
        let request = Request::patch(PODS, pod.meta(), PatchFormat::Strategic, body).with_role(write_role(snapshot));
        let updated = io.send(request.with_verb_text("update").with_reason(lacks)).await;
        updated.map_err(|refusal| self.refused(EventVerb::Update, "cannot update", &refusal))?;
        self.report(EventVerb::Update, None);
        Ok(())
    }

    /// Deletes the Pod with its uid and version as preconditions; upstream deletes any Pod of that name. A deleted Pod is no
    /// error. Upstream: `DeleteStatefulPod`.
    async fn delete(&self, pod: &SharedPod, reason: DeletionReason) -> Result<(), SyncError> {
        match self.io.send(Request::delete(PODS, pod.meta()).with_reason(reason.to_string())).await {
            Err(refusal) if !refusal.error.is_not_found() => {
                Err(self.refused(EventVerb::Delete, "cannot delete", &refusal))
            }
            _ => {
                self.report(EventVerb::Delete, None);
                Ok(())
            }
        }
    }
}

fn repair_patch(meta: &Meta, ordinal: i32, pod_errors: &PodErrors) -> Value {
    let mut patch = json!({});
    if pod_errors.lacks_identity_labels {
        patch["metadata"]["labels"] = body::identity_labels(&meta.name, Some(ordinal));
    }
    if !pod_errors.wrong_volumes.is_empty() {
        let volume = |(name, claim): &(String, String)| {
            json!({"name": name, "$retainKeys": ["name", "persistentVolumeClaim"],
                "persistentVolumeClaim": {"claimName": claim}})
        };
        patch["spec"]["volumes"] = pod_errors.wrong_volumes.iter().map(volume).collect();
    }
    patch
}
