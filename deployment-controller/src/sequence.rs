//! The requests of one sync: the steps of the plan in order.
//!
//! What a failed step means for those after it is in the plan. Conflicts with others end the sync: what it decided on is no
//! longer so.

mod create;
mod rollback;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    api::Patch,
    conditions::Replacing,
    controller::{Requeue, Retry},
    events::EventType,
    map::HashMap,
    meta::{Meta, Uid, Version},
    refs::Claims,
    sequence::{self, Class, Failed, Fields, Refusal, Request, Role, Sequence, Steps, Turn},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    objects::{DEPLOYMENTS, DeploymentStatus, REPLICA_SETS, REVISION, ROLLBACK_TO, ReplicaSet},
    plan::{Action, Event, OnFailure, Plan, SetChange, Step},
    snapshot::Snapshot,
};

/// A change of the controller's memory, or what it logs.
#[derive(Debug)]
pub enum Note {
    /// A ReplicaSet was read live at that version: the next sync waits until the cache shows it.
    Read(Version),
    /// The ReplicaSets that predecessors of this process may have created were looked for.
    LookedForSets,
    /// The server refused to release the ReplicaSet with that uid, and said why.
    ReleaseRefused(Uid, String),
    /// Whether the server kept the count of terminating Pods that was written.
    KeepsTerminating(bool),
    /// A step failed whose failure has no consequences.
    Ignored(String),
}

impl sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

/// The part of an answer that is read of a Deployment whose status was written.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: StoredStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredStatus {
    terminating_replicas: Option<i64>,
}

/// The state of one sync.
struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    /// The steps of the plan, or those that follow a failed creation.
    steps: Cow<'a, [Step]>,
    /// The position of the current step.
    at: usize,
    /// What the last failed step means for those after it.
    on_failure: Option<OnFailure>,
    failures: Vec<Failed>,
    /// The version of the Deployment, with the writes of this sync.
    version: Version,
    /// The status of the Deployment, with the writes of this sync.
    status: DeploymentStatus,
    /// The ReplicaSets of the snapshot by name: a plan can have a request for each of thousands.
    judged: HashMap<&'a str, &'a Meta>,
    /// The ReplicaSet that this sync has created.
    created: Fields,
    /// Why the creation did not succeed, while the ReplicaSet of that name is read.
    refusal: Option<Refusal>,
    /// Whether the Deployment, read live, may adopt.
    may_adopt: Option<Result<(), String>>,
    /// The Deployment to roll back, as it was read live.
    live: Value,
    requeue: Option<Requeue>,
    /// Whether this sync has reported a denied claim: one Event per sync is enough.
    reported_denial: bool,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let state = State {
        snapshot,
        plan,
        steps: Cow::Borrowed(&plan.steps),
        at: 0,
        on_failure: None,
        failures: Vec::new(),
        version: snapshot.deployment.metadata.resource_version,
        status: snapshot.deployment.status.clone(),
        judged: by_name(snapshot, plan),
        created: Fields::default(),
        refusal: None,
        may_adopt: None,
        live: Value::Null,
        requeue: None,
        reported_denial: false,
    };
    Steps::new(state, State::take_step)
}

/// The ReplicaSets of the snapshot by name, if the plan has any step.
fn by_name<'a>(snapshot: &'a Snapshot, plan: &Plan) -> HashMap<&'a str, &'a Meta> {
    if plan.steps.is_empty() {
        return HashMap::default();
    }
    let Claims { keep, adopt, release } = &snapshot.claims;
    let entry = |known: &'a Arc<ReplicaSet>| {
        #[cfg(test)]
        tests::count_visit();
        (&*known.metadata.name, &known.metadata)
    };
    keep.iter().chain(adopt).chain(release).map(entry).collect()
}

type Next<'a> = sequence::Step<State<'a>, Note>;

impl<'a> State<'a> {
    /// Takes the current step, or the next one that is not left out because of a failed one.
    fn take_step(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        while let Some(step) = self.steps.get(self.at) {
            match (self.on_failure, step.on_failure) {
                (Some(OnFailure::LeaveOthersOut), OnFailure::LeaveOthersOut) => {}
                (Some(OnFailure::TryOthers), other) if other != OnFailure::TryOthers => break,
                _ => match (&step.action, &self.may_adopt) {
                    (Action::Adopt { .. }, Some(Err(why))) => {
                        self.failures.push(Failed::new("not_ours", format!("cannot adopt ReplicaSets: {why}")));
                        self.on_failure = Some(step.on_failure);
                    }
                    _ => return self.begin(turn),
                },
            }
            self.at += 1;
        }
        self.finish(turn)
    }

    /// Sends the request of the current step, or the first one of several.
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(step) = self.step() else { return self.finish(turn) };
        let owner = &self.snapshot.owner;
        let send = |request: Request| {
            let request = request.doing(step.action.doing()).because(step.reason());
            Next::Send(request, Self::answered)
        };
        let claim = |set, uid, body| {
            send(Request::patch(REPLICA_SETS, &self.judged(set, uid), Patch::Strategic, body).role(Role::Child))
        };
        match &step.action {
            Action::Adopt { .. } if self.may_adopt.is_none() => {
                let why = "to adopt, it must still be there and not be deleted";
                Next::Send(self.get_deployment().because(why), Self::recheck)
            }
            Action::Adopt { set, uid } => claim(set, uid, turn.body(|| owner.adopt_patch(uid, &[]))),
            Action::Release { set, uid } => claim(set, uid, turn.body(|| owner.release_patch(uid, &[]))),
            Action::CreateReplicaSet { .. } => self.create(turn),
            Action::ChangeReplicaSet { set, change } => {
                let judged = self.judged(set, &self.created.uid);
                let request = Request::patch(REPLICA_SETS, &judged, Patch::Strategic, turn.body(|| set_patch(change)));
                send(request.role(Role::Child))
            }
            // As it was judged: one that has got Pods in the meantime stays.
            Action::DeleteReplicaSet { set, uid } => send(Request::delete(REPLICA_SETS, &self.judged(set, uid))),
            Action::WriteStatus { status, revision } => {
                let body = turn.body(|| status_patch(status, revision.as_deref()));
                let request = Request::status(DEPLOYMENTS, self.meta(), body).strategic().because(step.reason());
                Next::Send(request, Self::wrote_status)
            }
            Action::RollBack { .. } => self.roll_back(),
            Action::ClearRollback => {
                let body = turn.body(|| json!({"metadata": {"annotations": {ROLLBACK_TO: null}}}));
                send(Request::patch(DEPLOYMENTS, self.meta(), Patch::Merge, body).role(Role::Itself))
            }
            Action::Tell => self.done(turn),
        }
    }

    /// Goes on after the answer to a step that is one request.
    fn answered(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(step) = self.step() else { return self.finish(turn) };
        match (&step.action, turn.written()) {
            (Action::RollBack { .. } | Action::ClearRollback, Ok(fields)) => {
                self.version = fields.version;
                self.done(turn)
            }
            (_, Ok(_)) => self.done(turn),
            (Action::Adopt { .. }, Err(refusal)) if refusal.error.is_not_found() => {
                // Its deletion is told to nobody, because it was nobody's.
                self.requeue = Some(Requeue::RateLimited);
                self.skip(turn)
            }
            (Action::Release { .. } | Action::DeleteReplicaSet { .. }, Err(refusal))
                if refusal.error.is_not_found() =>
            {
                self.skip(turn)
            }
            (Action::Release { uid, .. }, Err(refusal)) if refusal.error.is_invalid() => {
                // Another object has the name, or the server refuses: the ReplicaSet is kept, and the next sync counts it.
                let note = Note::ReleaseRefused(uid.clone(), refusal.error.to_string());
                self.tell_denied(turn, &refusal);
                turn.note(note);
                self.end(turn, Requeue::After(Duration::ZERO))
            }
            (Action::Adopt { .. } | Action::Release { .. }, Err(refusal)) => {
                self.tell_denied(turn, &refusal);
                self.refused(turn, &refusal)
            }
            (_, Err(refusal)) => self.refused(turn, &refusal),
        }
    }

    /// Reports that the server denies a claim. No other Event says why the Deployment makes no progress.
    fn tell_denied(&mut self, turn: &mut Turn<Note>, refusal: &Refusal) {
        let is_denied = refusal.class == Class::Refused && refusal.error.is_denied();
        if is_denied && !std::mem::replace(&mut self.reported_denial, true) {
            let message = format!("Error: {}", self.failed(refusal));
            turn.tell(EventType::Warning, "FailedUpdate", message);
        }
    }

    /// The Deployment, read live, may adopt only if it is still the same and not on its way out.
    fn recheck(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let uid = &self.meta().uid;
        let problem = match turn.metadata() {
            Err(refusal) => Some(refusal.error.to_string()),
            Ok(Some(live)) if live.uid != *uid => {
                Some(format!("the Deployment is gone: got uid {}, wanted {uid}", live.uid))
            }
            Ok(live) => {
                let deleted = live.and_then(|live| live.deleted);
                deleted.map(|at| format!("the Deployment is being deleted since {at}"))
            }
        };
        if let Some(problem) = &problem {
            turn.deviates(problem);
        }
        self.may_adopt = Some(problem.map_or(Ok(()), Err));
        self.take_step(turn)
    }

    fn wrote_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.read::<Answer>() {
            Ok(answer) => {
                if let Some(Action::WriteStatus { status, .. }) = self.steps.get(self.at).map(|step| &step.action) {
                    self.status.clone_from(status);
                }
                if let Some(Answer { metadata, status }) = answer {
                    self.version = metadata.resource_version;
                    if self.status.terminating_replicas.is_some() {
                        turn.note(Note::KeepsTerminating(status.terminating_replicas.is_some()));
                    }
                }
                self.done(turn)
            }
            // There is nobody left to write for.
            Err(refusal) if refusal.error.is_not_found() => self.end(turn, Requeue::No),
            Err(refusal) => self.refused(turn, &refusal),
        }
    }

    /// Records the Event of the current step, and goes on with the next one.
    fn done(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(Event { kind, reason, message }) = self.step().and_then(|step| step.event.clone()) {
            turn.tell(kind, reason, message);
        }
        self.skip(turn)
    }

    /// Goes on with the next step: there was nothing to do.
    fn skip(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.at += 1;
        self.take_step(turn)
    }

    fn refused(&mut self, turn: &mut Turn<Note>, refusal: &Refusal) -> Next<'a> {
        let failed = self.failed(refusal);
        let reason = self.step().and_then(|step| step.action.denied_as());
        if let Some(reason) = reason.filter(|_| refusal.error.is_denied() && refusal.class == Class::Refused) {
            turn.tell(EventType::Warning, reason, format!("Error: {failed}"));
        }
        self.fails(turn, failed)
    }

    /// Goes on after a failure as the current step says.
    fn fails(&mut self, turn: &mut Turn<Note>, failed: Failed) -> Next<'a> {
        let on_failure = self.step().map_or(OnFailure::End, |step| step.on_failure);
        match on_failure {
            OnFailure::Ignore => turn.note(Note::Ignored(failed.to_string())),
            OnFailure::End => {
                self.failures.push(failed);
                return self.finish(turn);
            }
            OnFailure::TryOthers | OnFailure::LeaveOthersOut => {
                self.failures.push(failed);
                self.on_failure = Some(on_failure);
            }
        }
        self.skip(turn)
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let (true, Some(why)) = (self.failures.is_empty(), &self.plan.failure) {
            self.failures.push(Failed::new("plan", why));
        }
        self.end(turn, self.requeue.unwrap_or(self.plan.requeue))
    }

    /// Ends the sync: what follows has lost its ground, or there is nothing left.
    fn end(&mut self, turn: &mut Turn<Note>, requeue: Requeue) -> Next<'a> {
        turn.end(joined(std::mem::take(&mut self.failures)).map_or(Ok(requeue), Err));
        Next::Done
    }

    fn step(&self) -> Option<&Step> {
        self.steps.get(self.at)
    }

    fn meta(&self) -> &'a Meta {
        &self.snapshot.deployment.metadata
    }

    fn get_deployment(&self) -> Request {
        Request::get(DEPLOYMENTS, &self.meta().namespace, &self.meta().name)
    }

    fn get_set(&self, name: &Arc<str>) -> Request {
        Request::get(REPLICA_SETS, &self.meta().namespace, name)
    }

    /// The ReplicaSet of that name and uid, at the version that was judged.
    fn judged(&self, set: &Arc<str>, uid: &Uid) -> Meta {
        let kept = self.judged.get(&**set);
        Meta {
            namespace: self.meta().namespace.clone(),
            name: Arc::clone(set),
            uid: kept.map_or(uid, |kept| &kept.uid).clone(),
            resource_version: kept.map_or(self.created.version, |kept| kept.resource_version),
            ..Meta::default()
        }
    }

    /// The failure of the current step.
    fn failed(&self, refusal: &Refusal) -> Failed {
        let what = self.step().map(|step| step.action.describe(&self.meta().name)).unwrap_or_default();
        let failed = Failed::request(&format!("cannot {what}"), refusal);
        if refusal.class == Class::NamespaceTerminating { failed.with_retry(Retry::Forget) } else { failed }
    }
}

/// One failure of several; none of none.
fn joined(mut failures: Vec<Failed>) -> Option<Failed> {
    let (Some(first), true) = (failures.first(), failures.len() > 1) else { return failures.pop() };
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    Some(Failed::new(first.label(), texts.join("; ")))
}

fn set_patch(change: &SetChange) -> Value {
    let mut patch = json!({});
    if !change.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(change.annotations);
    }
    if let Some((_, to)) = change.size {
        patch["spec"]["replicas"] = json!(to);
    }
    if let Some(seconds) = change.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    patch
}

/// The status subresource keeps annotations that come with a status, and does not count that as a new generation.
fn status_patch(status: &DeploymentStatus, revision: Option<&str>) -> Value {
    let mut patch = json!({"status": status.to_value()});
    patch["status"]["conditions"] = json!(Replacing(&status.conditions));
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({REVISION: revision});
    }
    patch
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::BTreeMap};

    use super::*;
    use crate::decide::world::World;

    thread_local! {
        static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts a ReplicaSet that a request is compared with.
    pub(super) fn count_visit() {
        VISITS.set(VISITS.get() + 1);
    }

    #[test]
    fn a_request_for_each_of_many_sets_visits_each_of_them_once() {
        const SETS: usize = 300;
        let mut world = World::new(3);
        for number in 0..SETS {
            world = world.set(&format!("old-{number}"), 0, 0).annotate(REVISION, &number.to_string());
        }
        world = world.set("new", 3, 3).annotate(REVISION, "999").current("new").complete();
        (world.annotations, world.spec["revisionHistoryLimit"]) = (json!({REVISION: "999"}), json!(0));
        assert_eq!(world.plan().deleted().len(), SETS);
        VISITS.set(0);
        assert!(world.explain().actions.len() > 1);
        assert!((SETS..=SETS + 1).contains(&VISITS.get()), "{} visits", VISITS.get());
    }

    #[test]
    fn a_forecast_names_requests_with_their_numbers_and_reasons() {
        let actions = |world: &World| world.explain().actions;
        let mut world = World::new(3).set("a", 0, 0).annotate(REVISION, "1");
        world = world.set("b", 3, 3).annotate(REVISION, "2").current("b");
        world.annotations = json!({REVISION: "2", ROLLBACK_TO: "1"});
        let rollback = "roll back Deployment web: to the template of ReplicaSet a, a rollback is asked for";
        assert_eq!(actions(&world).last().unwrap(), rollback);
        let world = World::new(3);
        let (name, _) = world.plan().created().unwrap();
        assert_eq!(
            actions(&world),
            [
                format!("create ReplicaSet {name}: of size 3, no ReplicaSet has this template"),
                "write the status: revision 1, a rollout begins; counts, availability or progress changed".to_owned(),
            ]
        );
    }

    #[test]
    fn a_change_names_only_what_changes() {
        let change = SetChange {
            size: Some((4, 6)),
            annotations: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
            min_ready_seconds: None,
        };
        assert_eq!(set_patch(&change), json!({"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 6}}));
        let ready = SetChange { min_ready_seconds: Some(0), ..SetChange::default() };
        assert_eq!(set_patch(&ready), json!({"spec": {"minReadySeconds": 0}}));
    }

    #[test]
    fn a_status_names_every_field_so_that_none_lingers() {
        assert_eq!(
            status_patch(&DeploymentStatus::default(), Some("3")),
            json!({
                "metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}},
                "status": {"observedGeneration": 0, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0,
                    "availableReplicas": 0, "unavailableReplicas": 0, "terminatingReplicas": null, "conditions": [{"$patch": "replace"}]},
            })
        );
    }
}
