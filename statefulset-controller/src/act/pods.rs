//! Making, mending and deleting Pods.

use common::{
    api::{self, Delete, Patch, Target, Written},
    events::EventType,
    meta::Meta,
    pods::PODS,
};
use serde_json::{Value, json};

use crate::{
    StatefulSetController,
    decide::{body, revisions::Revisions},
    error::Error,
    objects::{POD_INDEX_LABEL, POD_NAME_LABEL},
    plan::{Claims, From, Occasion, Why, Work, Wrong},
    snapshot::{PodRef, Snapshot},
};

/// What is done with a Pod, as Events have it.
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
    /// Does the work on one Pod; says whether that lowers the count of Pods of the current revision.
    pub(super) async fn work_on(&self, snapshot: &Snapshot, revisions: &Revisions, work: &Work) -> Result<bool, Error> {
        if self.ends() {
            return Ok(false);
        }
        match work {
            Work::Create { ordinal, claims, from } => {
                self.create(snapshot, revisions, *ordinal, claims, *from).await.map(|()| false)
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

    /// Upstream: `recordPodEvent`.
    fn tell(&self, snapshot: &Snapshot, verb: Verb, pod: &str, error: Option<&str>) {
        let what = format!("{verb:?} Pod {pod} in StatefulSet {}", snapshot.set.metadata.name);
        let [good, bad] = verb.reasons();
        match error {
            None => self.event(snapshot, EventType::Normal, good, format!("{what} successful")),
            Some(error) => self.event(snapshot, EventType::Warning, bad, format!("{what} failed error: {error}")),
        }
    }

    /// Makes a Pod after its claims. Upstream: `CreateStatefulPod`.
    async fn create(
        &self,
        snapshot: &Snapshot,
        revisions: &Revisions,
        ordinal: i32,
        claims: &Claims,
        from: From,
    ) -> Result<(), Error> {
        let set = &snapshot.set;
        let name = set.pod_name(ordinal);
        let failed = |error: Error| {
            if error.is_news() {
                self.tell(snapshot, Verb::Create, &name, Some(&error.cause()));
            }
            error
        };
        self.ensure(snapshot, &name, claims).await.map_err(failed)?;
        let revision = revisions.get(from);
        let body = revision.template();
        let body = body.and_then(|template| body::pod(set, &snapshot.owner, ordinal, template, &revision.name));
        let body = body.ok_or_else(|| Error::Template(format!("Pod {name} from revision {}", revision.name)));
        let body = body.map_err(failed)?;
        let target = Target::object(PODS, &set.metadata.namespace, "");
        let answer = self.context.api.create(target, &body).await;
        let made = answer.and_then(|answer| Ok(serde_json::from_slice::<Written>(&answer)?.metadata));
        let made = made.map_err(|error| failed(Error::request(format!("create Pod {name}"), error)))?;
        self.wrote(snapshot, PODS, &made);
        let owned = self.own_those_of(snapshot, ordinal, &made).await;
        owned.inspect_err(|error| {
            if error.is_news() {
                self.tell(snapshot, Verb::Update, &name, Some(&error.to_string()));
            }
        })?;
        self.tell(snapshot, Verb::Create, &name, None);
        Ok(())
    }

    /// Deletes this very Pod; one that is gone is no failure. Upstream: `DeleteStatefulPod`.
    async fn delete(&self, snapshot: &Snapshot, pod: &PodRef, why: Why) -> Result<bool, Error> {
        let meta = pod.meta();
        self.note_deletion(snapshot, PODS, meta);
        let options = Delete { uid: Some(meta.uid.clone()), ..Delete::default() };
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        match self.context.api.delete(target, &options).await {
            Err(error) if !error.is_not_found() => {
                self.ledger.undelete(&snapshot.owner.uid, &meta.uid);
                // A conflict: another one has its name, and the cache will tell.
                if !error.is_conflict() && is_news(&error) {
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

    /// Gives a Pod its labels, and its volumes as far as the server lets it. Upstream: `UpdateStatefulPod`.
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
                if !error.is_conflict() && !error.is_not_found() && is_news(&error) {
                    self.tell(snapshot, Verb::Update, &meta.name, Some(&error.to_string()));
                }
                Err(Error::request(format!("update Pod {}", meta.name), error))
            }
        }
    }
}

/// Whether people are to hear of an error: not of those that say more about this process, or the namespace's end.
pub(super) fn is_news(error: &api::Error) -> bool {
    !matches!(error, api::Error::NotLeader) && !error.is_namespace_terminating()
}

/// The patch that gives a Pod what is its own.
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

    /// Whether people are to hear of it: not of what the cache will tell soon, of this process, or of a namespace's end.
    fn is_news(&self) -> bool {
        let dull = |error: &api::Error| {
            error.is_conflict()
                || error.is_already_exists()
                || error.is_namespace_terminating()
                || matches!(error, api::Error::NotLeader)
        };
        !self.api().is_some_and(dull)
    }

    /// What the server said, where it said it: as upstream's Events have it.
    fn cause(&self) -> String {
        match self {
            Self::Request { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }
}
