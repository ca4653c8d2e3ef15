//! The requests for one Pod: its claims, the Pod itself, the owner references of its claims.

use std::sync::Arc;

use common::{
    api::Patch,
    events::EventType,
    io::{Class, Failed, Refusal, Request},
    meta::{Meta, OwnerRef, Uid},
    pods::PODS,
};
use serde_json::{Value, json};

use super::{
    body,
    note::{Io, Namesake, Note},
    request::{refused, retried, role},
    templates::Templates,
};
use crate::{
    decide::{
        retention::Owners,
        scaling::{MAX_CLAIM_WRITES, ownership},
    },
    objects::{CLAIMS, CachedPod},
    plan::{Claims, Occasion, Ownership, Repair, Why, Work, Wrong, revisions::RevisionRole},
    snapshot::{PodRef, Snapshot},
};

/// The greatest number of claims that one error names. The error is logged, kept for diagnostics, and reported in an Event.
const MAX_NAMED_PROBLEMS: usize = 10;

/// The verb in the text of an Event about a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn reasons(self) -> [&'static str; 2] {
        match self {
            Self::Create => ["SuccessfulCreate", "FailedCreate"],
            Self::Update => ["SuccessfulUpdate", "FailedUpdate"],
            Self::Delete => ["SuccessfulDelete", "FailedDelete"],
        }
    }
}

/// The failed work on a Pod's claims, and the class of the refusal if a request was refused.
struct Trouble {
    failed: Failed,
    class: Option<Class>,
}

/// Returns whether an Event reports a refusal of this class. A terminating namespace refuses Events as well, so none is sent.
fn is_worth_an_event(class: Option<Class>) -> bool {
    class != Some(Class::NamespaceTerminating)
}

/// Sends the requests of one piece of work on a Pod.
pub(super) async fn work_on_pod(
    snapshot: &Snapshot,
    work: &Work,
    templates: &Templates<'_>,
    io: Io<'_>,
) -> Result<(), Failed> {
    let name = match work {
        Work::Create { ordinal, .. } | Work::CreateClaims { ordinal, .. } => snapshot.set.pod_name(*ordinal).into(),
        Work::Delete { pod, .. } | Work::Repair(Repair { pod, .. }) => Arc::clone(&pod.meta().name),
    };
    let on_pod = WorkOnPod { snapshot, name, io };
    match work {
        Work::Create { ordinal, claims, role } => {
            on_pod.create_claims_of_new_pod(claims).await?;
            on_pod.create(*ordinal, *role, templates).await
        }
        Work::CreateClaims { claims, .. } => on_pod.create_claims_of_new_pod(claims).await,
        Work::Delete { pod, why } => on_pod.delete(pod, *why).await,
        Work::Repair(repair) => on_pod.repair(repair).await,
    }
}

struct WorkOnPod<'a> {
    snapshot: &'a Snapshot,
    name: Arc<str>,
    io: Io<'a>,
}

impl WorkOnPod<'_> {
    /// Records an Event about the Pod. Upstream: `recordPodEvent`.
    fn report(&self, verb: Verb, error: Option<&str>) {
        let what = format!("{verb:?} Pod {} in StatefulSet {}", self.name, self.snapshot.set.metadata.name);
        let [good, bad] = verb.reasons();
        match error {
            None => self.io.event(EventType::Normal, good, format!("{what} successful")),
            Some(error) => self.io.event(EventType::Warning, bad, format!("{what} failed error: {error}")),
        }
    }

    /// Returns the failure of a refused request for the Pod itself. A conflict is not reported: the cache will soon show the
    /// newer Pod, and the next sync decides again.
    fn refused(&self, verb: Verb, what: &str, refusal: &Refusal) -> Failed {
        if refusal.class != Class::Changed && is_worth_an_event(Some(refusal.class)) {
            self.report(verb, Some(&refusal.error.to_string()));
        }
        refused(&format!("{what} Pod {}", self.name), refusal)
    }

    /// Returns the failure of the work on claims. Records an Event about the failure if `is_reported`.
    fn failed(&self, verb: Verb, Trouble { failed, .. }: Trouble, is_reported: bool) -> Failed {
        if is_reported {
            self.report(verb, Some(&failed.to_string()));
        }
        failed
    }

    async fn create_claims_of_new_pod(&self, claims: &Claims) -> Result<(), Failed> {
        self.create_claims(claims).await.map_err(|trouble| {
            let is_reported = is_worth_an_event(trouble.class);
            self.failed(Verb::Create, trouble, is_reported)
        })
    }

    /// Creates the missing claims. Every claim is tried; the error names all claims that failed or are terminating.
    ///
    /// Upstream: `pkg/controller/statefulset`, `createPersistentVolumeClaims`.
    async fn create_claims(&self, claims: &Claims) -> Result<(), Trouble> {
        let Self { snapshot, name: pod, io } = self;
        let set = &snapshot.set;
        let set_name = &set.metadata.name;
        let mut problems = Vec::new();
        let mut first_refusal = None;
        for (template, name) in &claims.missing {
            let Some(claim) = set.claims.get(*template).and_then(|template| body::claim(set, template, name)) else {
                return Err(Trouble {
                    failed: Failed::new("template", format!("cannot make claim {name}")),
                    class: None,
                });
            };
            let body = io.body(|| claim);
            let request = Request::create(CLAIMS, &set.metadata.namespace, &name.as_str().into(), body);
            let Err(refusal) = io.send(request.role(role(snapshot))).await else {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set_name} success");
                io.event(EventType::Normal, "SuccessfulCreate", message);
                continue;
            };
            let error = &refusal.error;
            if refusal.class != Class::Taken && is_worth_an_event(Some(refusal.class)) {
                let message =
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error}");
                io.event(EventType::Warning, "FailedCreate", message);
            }
            problems.push(format!("failed to create PVC {name}: {error}"));
            first_refusal.get_or_insert(refusal);
        }
        problems.extend(claims.terminating.iter().map(|name| format!("pvc {name} is being deleted")));

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
        let label = first_refusal.as_ref().map_or("gone", |refusal| refusal.error.label());
        let class = first_refusal.map(|refusal| refusal.class);
        Err(Trouble { failed: retried(Failed::new(label, text), class), class })
    }

    /// Creates the Pod, and writes the owner references of the claims that existed before.
    ///
    /// The owner references are written even if the server refuses the Pod: if a quota refuses the Pod permanently, the claims
    /// must still be deleted with the set. Upstream: `CreateStatefulPod`.
    async fn create(&self, ordinal: i32, revision: RevisionRole, templates: &Templates<'_>) -> Result<(), Failed> {
        let Self { snapshot, name, io } = self;
        let Snapshot { set, owner, .. } = snapshot;
        let usable = templates.get(revision, name);
        let (from, template) = usable.inspect_err(|failed| self.report(Verb::Create, Some(&failed.to_string())))?;
        let body = io.body(|| body::pod(set, owner, ordinal, template.clone(), from));
        let why = match revision {
            RevisionRole::Current => "from the current revision",
            RevisionRole::Update => "from the update revision",
        };
        let request = Request::create(PODS, &owner.namespace, name, body).role(role(snapshot)).because(why);
        let (uid, created) = match io.send(request).await {
            Ok(created) => {
                // The creation is reported first, because the owner references may meet a conflict with the volume binder.
                self.report(Verb::Create, None);
                (created.fields.uid, Ok(()))
            }
            Err(refusal) if refusal.class == Class::Taken => {
                self.examine_namesake(&refusal).await;
                return Err(refused(&format!("cannot create Pod {name}"), &refusal));
            }
            Err(refusal) => {
                if is_worth_an_event(Some(refusal.class)) {
                    self.report(Verb::Create, Some(&refusal.error.to_string()));
                }
                (Uid::default(), Err(refused(&format!("cannot create Pod {name}"), &refusal)))
            }
        };
        // Claims that this sync created get their owner references in a later sync, after the first event of the Pod. The
        // volume binder writes the claims now, and either write could meet a conflict.
        let mut ownership = ownership(snapshot, ordinal, &Owners::new(set, name, &uid, false));
        // The remaining claims get their owner references at the next event of the Pod.
        ownership.owners.truncate(MAX_CLAIM_WRITES);
        let owned = self.own_claims(&ownership).await.map_err(|trouble| {
            let is_reported = trouble.class != Some(Class::Changed) && is_worth_an_event(trouble.class);
            self.failed(Verb::Update, trouble, is_reported)
        });
        created.and(owned)
    }

    /// Examines the Pod that has the name of the Pod to create.
    ///
    /// In most cases the cache is merely late. A Pod that the cache does not hold is read from the server, because it may lack
    /// the label by which Pods are watched and be a Pod of the set or an orphan. Upstream watches all Pods, and only returns the
    /// refusal.
    async fn examine_namesake(&self, refusal: &Refusal) {
        let Self { snapshot, name, io } = self;
        let Some(Namesake { cached, taken }) = io.observe_again(Arc::clone(name)) else { return };
        let at = io.now();
        let is_reported = taken.is_some_and(|taken| taken.is_due(at));
        io.note(Note::NameTaken { pod: Arc::clone(name), at, examined: is_reported });
        let report = |namesake: &Meta| {
            if let Some(holder) = self.holder(namesake).filter(|_| is_reported) {
                self.report(Verb::Create, Some(&format!("{} and {holder}", refusal.error)));
            }
        };
        if let Some(pod) = cached {
            return report(pod.meta());
        }
        let request = Request::get(PODS, &snapshot.owner.namespace, name).because("its name is taken");
        let Ok(Some(pod)) = io.send_and_read::<CachedPod>(request).await else { return };
        report(pod.meta());
        let is_foreign = |controller: &OwnerRef| controller.uid != snapshot.owner.uid;
        if pod.is_unlabelled() && !pod.meta().controller().is_some_and(is_foreign) {
            io.note(Note::HiddenPod(Box::new(pod)));
        }
    }

    /// Describes the Pod that has the name of the Pod to create; `None` if the set controls it or will adopt it.
    fn holder(&self, namesake: &Meta) -> Option<String> {
        let Snapshot { set, owner, .. } = self.snapshot;
        match namesake.controller() {
            Some(controller) if controller.uid == owner.uid => None,
            Some(controller) => Some(format!("is controlled by {} {}", controller.kind, controller.name)),
            None if set.selector.matches_orphan(&namesake.labels) => None,
            None => Some("is not selected by the StatefulSet".to_owned()),
        }
    }

    /// Writes the owner references of claims in order, up to the first failure.
    ///
    /// Each write has the version of the cached claim as a precondition, so a reference that another client added since is not
    /// lost.
    async fn own_claims(&self, Ownership { owners, conflicting }: &Ownership) -> Result<(), Trouble> {
        let Self { snapshot, io, .. } = self;
        for claim in conflicting {
            let message = format!(
                "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            io.event(EventType::Warning, "ConflictingController", message);
        }
        for (claim, owners) in owners {
            let body = io.body(|| {
                let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
                json!({"metadata": {"ownerReferences": owners}})
            });
            let request = Request::patch(CLAIMS, &claim.metadata, Patch::Merge, body).role(role(snapshot));
            if let Err(refusal) = io.send(request.doing("change the owner references of")).await {
                let what = format!("could not update claim {} for delete policy ownerRefs", claim.metadata.name);
                return Err(Trouble { failed: refused(&what, &refusal), class: Some(refusal.class) });
            }
        }
        Ok(())
    }

    async fn repair(&self, repair: &Repair) -> Result<(), Failed> {
        let Repair { pod, ordinal, claims, ownership, wrong, occasion } = repair;
        self.create_claims(claims).await.map_err(|trouble| {
            let is_reported = *occasion == Occasion::Wanted && trouble.class != Some(Class::Changed);
            self.failed(Verb::Update, trouble, is_reported)
        })?;
        self.own_claims(ownership).await.map_err(|trouble| {
            // A denial blocks the scale-down until a right is granted or a policy is changed. Upstream records no Event about
            // the denial.
            let is_reported = (*occasion != Occasion::Condemned || trouble.failed.is_denied())
                && trouble.class != Some(Class::Changed);
            self.failed(Verb::Update, trouble, is_reported)
        })?;
        match wrong {
            Some(wrong) => self.update(pod, *ordinal, wrong).await,
            None => {
                // If only owner references were wrong, the Pod is not written, but the Event is the same as upstream's.
                if *occasion == Occasion::Wanted && !ownership.owners.is_empty() {
                    self.report(Verb::Update, None);
                }
                Ok(())
            }
        }
    }

    /// Writes the identity labels of a Pod, and its volumes, which the server refuses. Upstream: `UpdateStatefulPod`.
    async fn update(&self, pod: &PodRef, ordinal: i32, wrong: &Wrong) -> Result<(), Failed> {
        let Self { snapshot, name, io } = self;
        if wrong.name {
            // Upstream updates a Pod with the name that the Pod should have, and the server finds no such Pod.
            let wanted = snapshot.set.pod_name(ordinal);
            let text = format!("it has the ordinal of Pod {wanted}, and a Pod cannot be renamed");
            self.report(Verb::Update, Some(&text));
            return Err(Failed::new("name", format!("cannot update Pod {name}: {text}")));
        }
        let body = io.body(|| mended(pod.meta(), ordinal, wrong));
        let lacks = if wrong.labels { "it lacks labels of its identity" } else { "it lacks volumes of its claims" };
        let request = Request::patch(PODS, pod.meta(), Patch::Strategic, body).role(role(snapshot));
        let updated = io.send(request.doing("update").because(lacks)).await;
        updated.map_err(|refusal| self.refused(Verb::Update, "cannot update", &refusal))?;
        self.report(Verb::Update, None);
        Ok(())
    }

    /// Deletes the Pod with its uid and version as preconditions; upstream deletes any Pod of that name. A deleted Pod is no
    /// error. Upstream: `DeleteStatefulPod`.
    async fn delete(&self, pod: &PodRef, why: Why) -> Result<(), Failed> {
        match self.io.send(Request::delete(PODS, pod.meta()).because(why.to_string())).await {
            Err(refusal) if !refusal.error.is_not_found() => Err(self.refused(Verb::Delete, "cannot delete", &refusal)),
            _ => {
                self.report(Verb::Delete, None);
                Ok(())
            }
        }
    }
}

/// Returns the patch that corrects labels and volumes of a Pod.
fn mended(meta: &Meta, ordinal: i32, wrong: &Wrong) -> Value {
    let mut patch = json!({});
    if wrong.labels {
        patch["metadata"]["labels"] = body::identity(&meta.name, Some(ordinal));
    }
    if !wrong.volumes.is_empty() {
        let volume = |(name, claim): &(String, String)| {
            json!({"name": name, "$retainKeys": ["name", "persistentVolumeClaim"],
                "persistentVolumeClaim": {"claimName": claim}})
        };
        patch["spec"]["volumes"] = wrong.volumes.iter().map(volume).collect();
    }
    patch
}
