//! Creating, repairing and deleting Pods.

use std::sync::OnceLock;

use common::{
    api::{self, Delete, Patch, Target, Written},
    events::EventType,
    meta::{Meta, Uid},
    pods::PODS,
};
use serde_json::{Value, json};

use crate::{
    StatefulSetController,
    decide::{body, revisions::Revisions},
    error::Error,
    objects::{POD_INDEX_LABEL, POD_NAME_LABEL},
    plan::{Claims, Occasion, RevisionRole, Why, Work, Wrong},
    snapshot::{PodRef, Snapshot},
};

/// The revisions that one sync creates Pods from. Each is parsed once, and only if a Pod is created from it.
pub(super) struct PodSources<'a> {
    revisions: &'a Revisions,
    current: OnceLock<Option<Value>>,
    update: OnceLock<Option<Value>>,
}

impl<'a> PodSources<'a> {
    pub(super) fn new(revisions: &'a Revisions) -> Self {
        Self { revisions, current: OnceLock::new(), update: OnceLock::new() }
    }

    /// The name of the revision in that role, and a copy of its template; no template if the revision holds none.
    fn get(&self, role: RevisionRole) -> (&str, Option<Value>) {
        let revision = self.revisions.get(role);
        let parsed = match role {
            RevisionRole::Current => &self.current,
            RevisionRole::Update => &self.update,
        };
        (&revision.name, parsed.get_or_init(|| revision.template()).clone())
    }
}

/// What an Event says was done with a Pod.
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

impl StatefulSetController {
    /// Does the work on one Pod; says whether a Pod of the current revision was deleted.
    pub(super) async fn work_on(
        &self,
        snapshot: &Snapshot,
        sources: &PodSources<'_>,
        work: &Work,
    ) -> Result<bool, Error> {
        if self.ends() {
            return Ok(false);
        }
        match work {
            Work::Create { ordinal, claims, role } => {
                self.create(snapshot, sources, *ordinal, claims, *role).await.map(|()| false)
            }
            Work::CreateClaims { ordinal, claims } => {
                let name = snapshot.set.pod_name(*ordinal);
                let created = self.ensure(snapshot, &name, claims).await;
                created.map(|()| false).inspect_err(|error| self.tell_create(snapshot, &name, error))
            }
            Work::Delete { pod, why } => self.delete(snapshot, pod, *why).await,
            Work::Repair { pod, ordinal, claims, conflicting, owners, wrong, occasion } => {
                self.ensure(snapshot, &pod.meta().name, claims)
                    .await
                    .inspect_err(|error| self.tell_repair(snapshot, pod, error, *occasion == Occasion::Wanted))?;
                for claim in conflicting {
                    self.tell_conflict(snapshot, claim);
                }
                self.own(snapshot, owners)
                    .await
                    .inspect_err(|error| self.tell_repair(snapshot, pod, error, *occasion != Occasion::Condemned))?;
                match wrong {
                    Some(wrong) => self.mend(snapshot, pod, *ordinal, wrong).await.map(|()| false),
                    None => Ok(false),
                }
            }
        }
    }

    fn tell_repair(&self, snapshot: &Snapshot, pod: &PodRef, error: &Error, tells: bool) {
        if tells && !error.is_not_leader() && !error.is_conflict() {
            self.tell(snapshot, Verb::Update, &pod.meta().name, Some(&error.to_string()));
        }
    }

    fn tell_create(&self, snapshot: &Snapshot, pod: &str, error: &Error) {
        if error.is_worth_telling() {
            self.tell(snapshot, Verb::Create, pod, Some(&error.cause()));
        }
    }

    /// Upstream: `recordPodEvent`.
    fn tell(&self, snapshot: &Snapshot, verb: Verb, pod: &str, error: Option<&str>) {
        let what = format!("{verb:?} Pod {pod} in StatefulSet {}", snapshot.set.metadata.name);
        let [good, bad] = verb.reasons();
        match error {
            None => self.event(snapshot, EventType::Normal, good, format!("{what} successful")),
            Some(error) => self.event(snapshot, EventType::Warning, bad, format!("{what} failed error: {error}")),
        }
    }

    /// Creates a Pod after its claims. Upstream: `CreateStatefulPod`.
    ///
    /// The owner references of its claims are written even if the server refuses the Pod: where a quota forbids it for good, the
    /// claims must still be deleted with the set.
    async fn create(
        &self,
        snapshot: &Snapshot,
        sources: &PodSources<'_>,
        ordinal: i32,
        claims: &Claims,
        role: RevisionRole,
    ) -> Result<(), Error> {
        let set = &snapshot.set;
        let name = set.pod_name(ordinal);
        let failed = |error: Error| {
            self.tell_create(snapshot, &name, &error);
            error
        };
        self.ensure(snapshot, &name, claims).await.map_err(failed)?;
        let (revision, template) = sources.get(role);
        let body = template.and_then(|template| body::pod(set, &snapshot.owner, ordinal, template, revision));
        let body = body.ok_or_else(|| Error::Template(format!("Pod {name} from revision {revision}")));
        let body = body.map_err(failed)?;
        let target = Target::object(PODS, &set.metadata.namespace, "");
        let answer = self.context.api.create(target, &body).await;
        let created = answer.and_then(|answer| Ok(serde_json::from_slice::<Written>(&answer)?.metadata));
        let request = |error| Error::request(format!("create Pod {name}"), error);
        let created = match created {
            Ok(created) => {
                self.wrote(snapshot, PODS, &created);
                // Told at once: the owner references may meet a conflict with the volume binder.
                self.tell(snapshot, Verb::Create, &name, None);
                Ok(created.uid)
            }
            Err(error) if error.is_already_exists() => {
                if self.is_taken(snapshot, &name).await {
                    self.tell(snapshot, Verb::Create, &name, Some(&error.to_string()));
                }
                return Err(request(error));
            }
            Err(api::Error::NotLeader) => return Err(request(api::Error::NotLeader)),
            Err(error) => Err(failed(request(error))),
        };
        let nobody = Uid::default();
        let owned = self.own_those_of(snapshot, ordinal, created.as_ref().unwrap_or(&nobody), claims).await;
        let owned = owned.inspect_err(|error| {
            if error.is_worth_telling() && !error.is_conflict() {
                self.tell(snapshot, Verb::Update, &name, Some(&error.to_string()));
            }
        });
        created.and(owned)
    }

    /// Whether the name of a Pod is taken by a Pod that this set neither controls nor can adopt. Read live, because the cache holds
    /// no Pods of other controllers.
    async fn is_taken(&self, snapshot: &Snapshot, name: &str) -> bool {
        let live = self.context.api.get(Target::object(PODS, &snapshot.owner.namespace, name)).await;
        let live = live.ok().and_then(|live| serde_json::from_slice::<Written>(&live).ok());
        live.is_some_and(|Written { metadata }| match metadata.controller() {
            Some(controller) => controller.uid != snapshot.owner.uid,
            None => !snapshot.set.selector.matches_orphan(&metadata.labels),
        })
    }

    /// Deletes a Pod, if it is still as it was when that was decided. A Pod that is gone is no error. Upstream: `DeleteStatefulPod`,
    /// which deletes whatever has the name.
    async fn delete(&self, snapshot: &Snapshot, pod: &PodRef, why: Why) -> Result<bool, Error> {
        let meta = pod.meta();
        self.note_deletion(snapshot, PODS, meta);
        let options = Delete { uid: Some(meta.uid.clone()), version: Some(meta.resource_version), ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.delete(target, &options).await {
            Err(error) if !error.is_not_found() => {
                self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
                // After a conflict the cache will soon show the newer Pod, on which the next sync decides.
                if !error.is_conflict() && is_worth_telling(&error) {
                    self.tell(snapshot, Verb::Delete, &meta.name, Some(&error.to_string()));
                }
                Err(Error::request(format!("delete Pod {}", meta.name), error))
            }
            Ok(_) | Err(_) => {
                self.tell(snapshot, Verb::Delete, &meta.name, None);
                Ok(why.lowers_current())
            }
        }
    }

    /// Writes the labels of a Pod's identity, and its volumes, which the server refuses. Upstream: `UpdateStatefulPod`.
    async fn mend(&self, snapshot: &Snapshot, pod: &PodRef, ordinal: i32, wrong: &Wrong) -> Result<(), Error> {
        let meta = pod.meta();
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let answer = self.context.api.patch(target, Patch::Strategic, &mended(meta, ordinal, wrong)).await;
        match answer.and_then(|answer| Ok(serde_json::from_slice::<Written>(&answer)?)) {
            Ok(written) => {
                self.wrote(snapshot, PODS, &written.metadata);
                self.tell(snapshot, Verb::Update, &meta.name, None);
                Ok(())
            }
            Err(error) => {
                if !error.is_conflict() && !error.is_not_found() && is_worth_telling(&error) {
                    self.tell(snapshot, Verb::Update, &meta.name, Some(&error.to_string()));
                }
                Err(Error::request(format!("update Pod {}", meta.name), error))
            }
        }
    }
}

/// Whether an error is worth an Event. The loss of leadership concerns this process, and a terminating namespace refuses Events.
pub(super) fn is_worth_telling(error: &api::Error) -> bool {
    !matches!(error, api::Error::NotLeader) && !error.is_namespace_terminating()
}

/// The patch that repairs a Pod.
fn mended(meta: &Meta, ordinal: i32, wrong: &Wrong) -> Value {
    let mut patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
    if wrong.labels {
        patch["metadata"]["labels"] = json!({POD_NAME_LABEL: meta.name, POD_INDEX_LABEL: ordinal.to_string()});
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

impl Error {
    fn is_conflict(&self) -> bool {
        self.api().is_some_and(api::Error::is_conflict)
    }

    fn is_worth_telling(&self) -> bool {
        self.api().is_none_or(is_worth_telling)
    }

    /// The server's message where there is one, as upstream's Events have it.
    fn cause(&self) -> String {
        match self {
            Self::Request { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }
}
