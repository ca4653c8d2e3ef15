//! Creating and deleting Pods.

use std::sync::Arc;

use common::{
    api::{self, Delete, Target, Written},
    batch::{all, slow_start},
    events::EventType,
    intern::Text,
    meta::Version,
    pods::PODS,
};
use serde::Deserialize;

use crate::{
    DaemonSetController,
    decide::{body::PodSource, recheck::still_holds},
    error::Error,
    objects::CachedPod,
    plan::{Creation, Deletion, Plan, Why},
    snapshot::{Cursor, Cursors, Snapshot},
};

/// What became of the request to create one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Created {
    /// There is a Pod more.
    Yes,
    /// No other Pod is to be created: the namespace is terminating, or this process ends. Nothing is wrong with that.
    NoMore,
}

/// How often the deletion of one Pod is requested in one sync if the Pod changes all the time.
const DELETE_ATTEMPTS: usize = 5;

/// How many bytes the Pods that are sent at the same time have together, unless one alone has more.
const BODIES_IN_FLIGHT: usize = 8 << 20;

/// What a Pod that has changed since it was judged is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recheck {
    /// It is deleted as before, at this version.
    Holds(Version),
    /// It is gone or terminating.
    Gone,
    /// It is not deleted for that reason any more, or could not be read. The next sync decides.
    Unknown,
}

/// What the API server answers to a list.
#[derive(Deserialize)]
struct List {
    items: Vec<CachedPod>,
}

/// Whether the same request may fail again and again, so that other nodes get their turn first.
fn is_refusal(error: &api::Error) -> bool {
    !error.is_conflict() && !matches!(error, api::Error::NotLeader)
}

impl DaemonSetController {
    /// Creates Pods, then deletes Pods, also if Pods could not be created. Returns how many were created or deleted, or the first error
    /// once everything was tried.
    ///
    /// Upstream: `pkg/controller/daemon`, `syncNodes`.
    pub(super) async fn work_on_pods(&self, snapshot: &Snapshot, plan: &Plan) -> Result<usize, Error> {
        // Noted before the first request: an event may come before the answer.
        for Deletion { pod, .. } in &plan.deletes {
            let meta = pod.meta();
            self.ledger.deleted(&snapshot.owner.uid, PODS, &meta.namespace, &meta.name, &meta.uid);
        }
        self.tell_found(snapshot, plan);
        let created = self.create_pods(snapshot, plan).await;
        let results = all(plan.deletes.iter().map(|deletion| self.delete_pod(snapshot, deletion))).await;
        let is_refused =
            |result: &Result<bool, Error>| result.as_ref().is_err_and(|error| error.api().is_some_and(is_refusal));
        let refused = plan.deletes.iter().zip(&results).rfind(|(_, result)| is_refused(result));
        if let Some((deletion, _)) = refused {
            self.move_cursor(snapshot, |cursors| &mut cursors.delete, &deletion.node);
        }
        let mut effective = created?;
        for result in results {
            effective += usize::from(result?);
        }
        Ok(effective)
    }

    /// Reports failed and succeeded Pods, before Pods are created in their place. Upstream: `podsShouldBeOnNode`.
    fn tell_found(&self, snapshot: &Snapshot, plan: &Plan) {
        for Deletion { pod, node, why } in plan.deletes.iter().filter(|_| !self.ends()) {
            let (kind, reason, phase, verb) = match why {
                Why::Failed => (EventType::Warning, "FailedDaemonPod", "failed", "kill"),
                Why::Succeeded => (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete"),
                _ => continue,
            };
            let pod = pod.meta().key();
            let message = format!("Found {phase} daemon pod {pod} on node {node}, will try to {verb} it");
            self.event(snapshot, kind, reason, message);
        }
    }

    /// Lets the next sync begin with the nodes after `refused`.
    fn move_cursor(&self, snapshot: &Snapshot, cursor: fn(&mut Cursors) -> &mut Cursor, refused: &Text) {
        self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, |record| {
            *cursor(&mut record.cursors) = Cursor(Some(refused.clone()));
        });
    }

    /// Creates Pods in batches of 1, 2, 4, ..., of large Pods in smaller ones; the first batch with a failure is the last. Returns how many were created.
    async fn create_pods(&self, snapshot: &Snapshot, plan: &Plan) -> Result<usize, Error> {
        if plan.creates.is_empty() {
            return Ok(0);
        }
        let source = PodSource::new(&snapshot.set, &snapshot.owner, &plan.revisions.hash);
        let source = source.map_err(|error| Error::Template(format!("a Pod from spec.template: {error}")))?;
        let mut effective = 0;
        let mut rest = &plan.creates[..];
        for size in slow_start(rest.len()).at_most(BODIES_IN_FLIGHT / source.size().max(1)) {
            let (now, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            let results = all(now.iter().map(|creation| self.create_pod(snapshot, &source, creation))).await;
            let refused = now.iter().zip(&results).rfind(|(_, result)| result.as_ref().is_err_and(is_refusal));
            if let Some((creation, _)) = refused {
                self.move_cursor(snapshot, |cursors| &mut cursors.create, &creation.node);
            }
            let mut go_on = true;
            for result in results {
                let created = result.map_err(|error| Error::request("cannot create Pods", error))?;
                effective += usize::from(created == Created::Yes);
                go_on &= created == Created::Yes;
            }
            if !go_on {
                break;
            }
        }
        Ok(effective)
    }

    async fn create_pod(
        &self,
        snapshot: &Snapshot,
        source: &PodSource,
        creation: &Creation,
    ) -> Result<Created, api::Error> {
        if self.ends() {
            return Ok(Created::NoMore);
        }
        let owner = &snapshot.owner;
        let target = Target::object(PODS, &owner.namespace, "");
        let answer = self.context.api.create(target, &source.pod(&creation.node)).await;
        match answer.and_then(|answer| Ok(serde_json::from_slice::<Written>(&answer)?.metadata)) {
            Ok(made) => {
                self.ledger.created(&owner.uid, PODS, &made.uid, made.resource_version);
                self.event(snapshot, EventType::Normal, "SuccessfulCreate", format!("Created pod: {}", made.name));
                Ok(Created::Yes)
            }
            Err(error) if error.is_namespace_terminating() => {
                self.refused.insert(&owner.uid);
                Ok(Created::NoMore)
            }
            Err(error) => {
                if error.may_have_happened() {
                    self.lost_create(snapshot, &creation.node);
                }
                if !matches!(error, api::Error::NotLeader) {
                    self.event(snapshot, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
                }
                Err(error)
            }
        }
    }

    /// Deletes a Pod, if it is still as it was when that was decided: a Pod that has become available is judged again. Returns whether
    /// there was a Pod to delete.
    ///
    /// A Pod that has changed is read live and judged again, and deleted at the version that was read: a Pod that somebody writes all
    /// the time is deleted, too. A Pod is also read where the answer was lost: another Pod must not be deleted in its place.
    async fn delete_pod(&self, snapshot: &Snapshot, deletion: &Deletion) -> Result<bool, Error> {
        let (meta, owner) = (deletion.pod.meta(), &snapshot.owner.uid);
        if self.ends() {
            self.ledger.undelete(owner, &meta.uid);
            return Ok(false);
        }
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let mut options =
            Delete { uid: Some(meta.uid.clone()), version: Some(meta.resource_version), ..Delete::default() };
        let mut attempts = DELETE_ATTEMPTS;
        let error = loop {
            let Err(error) = self.context.api.delete(target, &options).await else {
                self.event(snapshot, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", meta.name));
                return Ok(true);
            };
            attempts -= 1;
            let is_lost = error.may_have_happened();
            if attempts == 0 || !(error.is_conflict() || is_lost) || self.ends() {
                break error;
            }
            match self.recheck(snapshot, deletion).await {
                // Deleted by the request whose answer was lost, as far as anybody can tell: the next sync waits to see it.
                Recheck::Gone if is_lost => {
                    self.event(snapshot, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", meta.name));
                    return Ok(true);
                }
                Recheck::Gone => {
                    self.ledger.undelete(owner, &meta.uid);
                    return Ok(false);
                }
                Recheck::Holds(version) if !is_lost => options.version = Some(version),
                Recheck::Holds(_) | Recheck::Unknown => break error,
            }
        };
        self.ledger.undelete(owner, &meta.uid);
        if error.is_not_found() {
            return Ok(false);
        }
        if error.is_conflict() {
            // The set is synced again once the cache shows the newer Pod.
            self.ledger.conflicted(owner, PODS, meta);
        } else if !matches!(error, api::Error::NotLeader) {
            self.event(snapshot, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        }
        Err(Error::request(format!("cannot delete Pod {}", meta.name), error))
    }

    /// Reads a Pod live and decides again whether it is deleted. A list of one, because upstream's role has no right to get Pods.
    async fn recheck(&self, snapshot: &Snapshot, deletion: &Deletion) -> Recheck {
        let meta = deletion.pod.meta();
        let query = format!("fieldSelector=metadata.name%3D{}", meta.name);
        let Ok(answer) = self.context.api.list(PODS, &meta.namespace, &query).await else { return Recheck::Unknown };
        let Ok(List { items }) = serde_json::from_slice(&answer) else { return Recheck::Unknown };
        let Some(live) = items.into_iter().find(|live| live.meta().uid == meta.uid && !live.meta().is_deleting())
        else {
            return Recheck::Gone;
        };
        let (live, now) = (Arc::new(live), self.context.clock.now());
        let holds = still_holds(deletion, &live, &snapshot.set, &snapshot.nodes.criteria, snapshot.now, now);
        if holds { Recheck::Holds(live.meta().resource_version) } else { Recheck::Unknown }
    }

    /// Notes that the answer to a creation was lost: for the time that it may take effect, no other Pod is created for that node.
    fn lost_create(&self, snapshot: &Snapshot, node: &Text) {
        let nodes = [&snapshot.nodes.create, &snapshot.nodes.replace, &snapshot.nodes.candidates];
        let listed = nodes.into_iter().flat_map(|listed| &listed.nodes).find(|listed| listed.name == *node);
        let known = listed.into_iter().flat_map(|listed| &listed.pods).map(|pod| pod.meta().uid.clone()).collect();
        let until = self.context.clock.instant() + self.ledger.lost_create_timeout();
        self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, |record| {
            record.lost_creates.insert(node, known, until);
        });
    }
}
