//! The requests for one Pod: its claims, the Pod itself, the owner references of its claims.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::Patch,
    controller::Retry,
    events::EventType,
    intern::Text,
    meta::{Meta, OwnerRef, Uid},
    pods::PODS,
    sequence::{Class, Failed, Next, Refusal, Request, Sequence, Step, Steps, Turn},
};
use serde_json::{Value, json};

use super::{Namesake, Note, refused, role};
use crate::{
    decide::{
        body,
        retention::Owners,
        revisions::{Revision, Revisions},
        scaling::{MAX_CLAIM_WRITES, Ownership, ownership},
    },
    objects::{CLAIMS, CachedPod},
    plan::{Claims, Occasion, RevisionRole, Work, Wrong},
    snapshot::{ClaimRef, Snapshot},
};

/// The most claims that one error names. The error is logged, kept for diagnostics, and told in an Event.
const MAX_NAMED_PROBLEMS: usize = 10;

/// A revision that Pods are made from.
struct PodSource {
    revision: Text,
    template: Result<Value, Unusable>,
}

/// The Pod template of a revision as it was read from the server.
pub(super) type ReadTemplate = Result<Option<Value>, Unusable>;

/// Why no Pod can be made from a revision.
#[derive(Clone, Debug)]
pub(super) enum Unusable {
    /// Its data could not be read: the label of the failure, and its text.
    Unread(&'static str, String),
    /// It holds no Pod template.
    NoTemplate,
}

/// The revisions that one phase creates Pods from. Each is parsed once, and only if a Pod is created from it.
pub(super) struct PodSources<'r> {
    snapshot: &'r Snapshot,
    revisions: &'r Revisions,
    /// The templates that were read from the server, by the names of their revisions.
    read: &'r BTreeMap<Text, ReadTemplate>,
    current: Option<Arc<PodSource>>,
    update: Option<Arc<PodSource>>,
}

impl<'r> PodSources<'r> {
    pub(super) fn new(
        snapshot: &'r Snapshot,
        revisions: &'r Revisions,
        read: &'r BTreeMap<Text, ReadTemplate>,
    ) -> Self {
        Self { snapshot, revisions, read, current: None, update: None }
    }

    fn get(&mut self, role: RevisionRole) -> Arc<PodSource> {
        let Self { snapshot, revisions, read, current, update } = self;
        let parse = |revision: &Revision| {
            let makes_pods = |template: &Value| {
                body::pod(&snapshot.set, &snapshot.owner, 0, template.clone(), &revision.name).is_some()
            };
            let template = match read.get(&revision.name) {
                Some(template) => template.clone(),
                None => Ok(revision.template().known()),
            };
            let usable = |template: Option<Value>| template.filter(makes_pods).ok_or(Unusable::NoTemplate);
            Arc::new(PodSource { revision: revision.name.clone(), template: template.and_then(usable) })
        };
        let known = match role {
            RevisionRole::Current => current,
            RevisionRole::Update => update,
        };
        Arc::clone(known.get_or_insert_with(|| parse(revisions.get(role))))
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

/// Why the work on a Pod failed, and the class of the refusal if it was one.
struct Trouble {
    failed: Failed,
    class: Option<Class>,
}

impl Trouble {
    fn request(what: &str, refusal: &Refusal) -> Self {
        Self { failed: refused(what, refusal), class: Some(refusal.class) }
    }

    /// Something could not be made from what the set or a revision holds.
    fn template(what: &str) -> Self {
        Self { failed: Failed::new("template", format!("cannot make {what}")), class: None }
    }
}

/// Whether a refusal is worth an Event: a terminating namespace refuses Events, too.
fn is_worth_telling(class: Option<Class>) -> bool {
    class != Some(Class::NamespaceTerminating)
}

/// Does the work on one Pod.
pub(super) struct WorkOnPod<'a>(Steps<State<'a>, Note>);

struct State<'a> {
    snapshot: &'a Snapshot,
    work: Work,
    source: Option<Arc<PodSource>>,
    name: Arc<str>,
    /// How many of the missing claims were asked for.
    asked: usize,
    /// What is wrong with claims.
    problems: Vec<String>,
    /// The first refusal of a claim.
    refusal: Option<Refusal>,
    /// The claims whose owner references are still to be written, the last one first.
    changes: Vec<(ClaimRef, Vec<OwnerRef>)>,
    /// Whether a Pod that has the name of the Pod to create is reported.
    reports_namesake: bool,
    lowers_current: bool,
    failed: Option<Failed>,
}

impl<'a> WorkOnPod<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, work: &Work, sources: &mut PodSources<'_>) -> Self {
        let (name, source) = match work {
            Work::Create { ordinal, role, .. } => (snapshot.set.pod_name(*ordinal).into(), Some(sources.get(*role))),
            Work::CreateClaims { ordinal, .. } => (snapshot.set.pod_name(*ordinal).into(), None),
            Work::Delete { pod, .. } | Work::Repair { pod, .. } => (Arc::clone(&pod.meta().name), None),
        };
        let state = State {
            snapshot,
            work: work.clone(),
            source,
            name,
            asked: 0,
            problems: Vec::new(),
            refusal: None,
            changes: Vec::new(),
            reports_namesake: false,
            lowers_current: false,
            failed: None,
        };
        Self(Steps::new(state, State::begin))
    }

    /// Whether a Pod of the current revision was deleted.
    pub(super) fn lowers_current(&self) -> bool {
        self.0.state.lowers_current
    }

    /// The failure, which is asked for once.
    pub(super) fn failure(&mut self) -> Option<Failed> {
        self.0.state.failed.take()
    }
}

impl Sequence<Note> for WorkOnPod<'_> {
    fn next(&mut self, turn: &mut Turn<Note>) -> Next<'_, Note> {
        self.0.next(turn)
    }

    fn stops_siblings(&self) -> bool {
        self.0.state.failed.is_some()
    }
}

type Go<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        match &self.work {
            // A Pod that has changed since that was decided stays. Upstream deletes whatever has the name.
            Work::Delete { pod, why } => {
                Step::Send(Request::delete(PODS, pod.meta()).because(why.to_string()), Self::deleted)
            }
            Work::Create { .. } | Work::CreateClaims { .. } | Work::Repair { .. } => self.ensure(turn),
        }
    }

    /// Creates the next of the claims that are missing. Every one is tried; the error names all that failed or are terminating.
    ///
    /// Upstream: `pkg/controller/statefulset`, `createPersistentVolumeClaims`.
    fn ensure(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let set = &self.snapshot.set;
        let Some(Claims { missing, terminating, .. }) = self.work.claims() else { return Step::Done };
        let Some((template, name)) = missing.get(self.asked) else {
            self.problems.extend(terminating.iter().map(|name| format!("pvc {name} is being deleted")));
            return self.ensured(turn);
        };
        let Some(claim) = set.claims.get(*template).and_then(|template| body::claim(set, template, name)) else {
            let trouble = Trouble::template(&format!("claim {name}"));
            return self.not_ensured(turn, trouble);
        };
        let name: Arc<str> = name.as_str().into();
        let request = Request::create(CLAIMS, &set.metadata.namespace, &name, turn.body(|| claim));
        Step::Send(request.role(role(self.snapshot)), Self::made_claim)
    }

    fn made_claim(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let (pod, set) = (&self.name, &self.snapshot.set.metadata.name);
        let claim = self.work.claims().and_then(|claims| claims.missing.get(self.asked));
        let Some((_, name)) = claim else { return Step::Done };
        self.asked += 1;
        match turn.written() {
            Ok(_) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                turn.tell(EventType::Normal, "SuccessfulCreate", message);
            }
            Err(refusal) => {
                let error = &refusal.error;
                if refusal.class != Class::Taken && is_worth_telling(Some(refusal.class)) {
                    let message =
                        format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {error}");
                    turn.tell(EventType::Warning, "FailedCreate", message);
                }
                self.problems.push(format!("failed to create PVC {name}: {error}"));
                self.refusal.get_or_insert(refusal);
            }
        }
        self.ensure(turn)
    }

    fn ensured(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        if let Some(trouble) = self.trouble_with_claims() {
            return self.not_ensured(turn, trouble);
        }
        match &self.work {
            Work::Create { ordinal, role, .. } => {
                let (ordinal, role) = (*ordinal, *role);
                self.create(turn, ordinal, role)
            }
            Work::Repair { owners, conflicting, .. } => {
                let ownership = Ownership { owners: owners.clone(), conflicting: conflicting.clone() };
                self.own(turn, ownership)
            }
            Work::CreateClaims { .. } | Work::Delete { .. } => Step::Done,
        }
    }

    fn trouble_with_claims(&mut self) -> Option<Trouble> {
        let problems = &mut self.problems;
        let unnamed = problems.len().saturating_sub(MAX_NAMED_PROBLEMS);
        problems.truncate(MAX_NAMED_PROBLEMS);
        if unnamed > 0 {
            problems.push(format!("{unnamed} more claims"));
        }
        // As Go writes several errors.
        let text = match &problems[..] {
            [] => return None,
            [problem] => problem.clone(),
            _ => format!("[{}]", problems.join(", ")),
        };
        let class = self.refusal.as_ref().map(|refusal| refusal.class);
        let failed = Failed::new(self.refusal.as_ref().map_or("gone", |refusal| refusal.error.label()), text);
        let gives_up = class == Some(Class::NamespaceTerminating);
        Some(Trouble { failed: if gives_up { failed.with_retry(Retry::Forget) } else { failed }, class })
    }

    fn not_ensured(&mut self, turn: &mut Turn<Note>, trouble: Trouble) -> Go<'a> {
        let tells = match &self.work {
            Work::Repair { occasion, .. } => {
                (*occasion == Occasion::Wanted && trouble.class != Some(Class::Changed)).then_some(Verb::Update)
            }
            _ => is_worth_telling(trouble.class).then_some(Verb::Create),
        };
        if let Some(verb) = tells {
            self.tell(turn, verb, Some(&trouble.failed.to_string()));
        }
        self.fail(trouble)
    }

    /// Creates the Pod. Upstream: `CreateStatefulPod`.
    fn create(&mut self, turn: &mut Turn<Note>, ordinal: i32, revision: RevisionRole) -> Go<'a> {
        let (Snapshot { set, owner, .. }, Some(source)) = (self.snapshot, &self.source) else { return Step::Done };
        let PodSource { revision: from, template } = &**source;
        let template = match template {
            Ok(template) => template,
            Err(unusable) => {
                let trouble = match unusable {
                    Unusable::NoTemplate => Trouble::template(&format!("Pod {} from revision {from}", self.name)),
                    Unusable::Unread(label, text) => Trouble { failed: Failed::new(label, text.clone()), class: None },
                };
                self.tell(turn, Verb::Create, Some(&trouble.failed.to_string()));
                return self.fail(trouble);
            }
        };
        let body = turn.body(|| body::pod(set, owner, ordinal, template.clone(), from));
        let why = match revision {
            RevisionRole::Current => "from the current revision",
            RevisionRole::Update => "from the update revision",
        };
        let request = Request::create(PODS, &owner.namespace, &self.name, body);
        Step::Send(request.role(role(self.snapshot)).because(why), Self::created)
    }

    /// The owner references of its claims are written even if the server refuses the Pod: where a quota forbids it for good, the
    /// claims must still be deleted with the set.
    fn created(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let answer = turn.written();
        let uid = match &answer {
            Ok(created) => {
                // Told at once: the owner references may meet a conflict with the volume binder.
                self.tell(turn, Verb::Create, None);
                created.uid.clone()
            }
            Err(refusal) => {
                self.failed = Some(refused(&format!("cannot create Pod {}", self.name), refusal));
                if refusal.class == Class::Taken {
                    self.refusal = answer.err();
                    return Step::Observe(Arc::clone(&self.name), Self::examine_namesake);
                }
                if is_worth_telling(Some(refusal.class)) {
                    self.tell(turn, Verb::Create, Some(&refusal.error.to_string()));
                }
                Uid::default()
            }
        };
        let Work::Create { ordinal, .. } = self.work else { return Step::Done };
        let owners = Owners::new(&self.snapshot.set, &self.name, &uid, false);
        // Claims that were created just before are left to the sync that the event of the Pod brings: the volume binder writes them
        // now, and would meet a conflict or cause one.
        let mut ownership = ownership(self.snapshot, ordinal, &owners);
        // The others get theirs at the next event of the Pod.
        ownership.owners.truncate(MAX_CLAIM_WRITES);
        self.own(turn, ownership)
    }

    /// Finds out which Pod has the name of the Pod to create.
    ///
    /// Mostly the cache does not show yet what is already there. A Pod that the cache does not hold is read: it may be a Pod of the set,
    /// or without a controller, and lack the label by which Pods are watched. Upstream, which watches all Pods, leaves it at the
    /// refusal.
    fn examine_namesake(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let Some(Namesake { cached, taken }) = turn.fresh() else { return Step::Done };
        let (pod, at) = (Arc::clone(&self.name), turn.now);
        self.reports_namesake = taken.is_some_and(|taken| taken.is_due(at));
        turn.note(Note::NameTaken { pod, at, examined: self.reports_namesake });
        if let Some(pod) = cached {
            return self.report_namesake(turn, pod.meta());
        }
        let request = Request::get(PODS, &self.snapshot.owner.namespace, &self.name);
        Step::Send(request.because("its name is taken"), Self::read_namesake)
    }

    fn read_namesake(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let Ok(Some(pod)) = turn.read::<CachedPod>() else { return Step::Done };
        let step = self.report_namesake(turn, pod.meta());
        let is_foreign = |controller: &OwnerRef| controller.uid != self.snapshot.owner.uid;
        if pod.is_unlabelled() && !pod.meta().controller().is_some_and(is_foreign) {
            turn.note(Note::HiddenPod(Box::new(pod)));
        }
        step
    }

    /// Tells of a Pod that has the name of the Pod to create, if the set neither controls nor adopts it.
    fn report_namesake(&mut self, turn: &mut Turn<Note>, namesake: &Meta) -> Go<'a> {
        if !self.reports_namesake {
            return Step::Done;
        }
        let Snapshot { set, owner, .. } = self.snapshot;
        let holder = match namesake.controller() {
            Some(controller) if controller.uid == owner.uid => return Step::Done,
            Some(controller) => format!("is controlled by {} {}", controller.kind, controller.name),
            None if set.selector.matches_orphan(&namesake.labels) => return Step::Done,
            None => "is not selected by the StatefulSet".to_owned(),
        };
        if let Some(Refusal { error, .. }) = &self.refusal {
            self.tell(turn, Verb::Create, Some(&format!("{error} and {holder}")));
        }
        Step::Done
    }

    /// Writes the owner references of claims in order, up to the first failure.
    ///
    /// Each write names the version of the claim that was judged: a reference that somebody else has added since is not lost.
    fn own(&mut self, turn: &mut Turn<Note>, ownership: Ownership) -> Go<'a> {
        for claim in ownership.conflicting {
            let message = format!(
                "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            turn.tell(EventType::Warning, "ConflictingController", message);
        }
        self.changes = ownership.owners;
        self.changes.reverse();
        self.write_owners(turn)
    }

    fn write_owners(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let Some((claim, owners)) = self.changes.last() else { return self.mend(turn) };
        let owners = turn.body(|| {
            let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
            json!({"metadata": {"ownerReferences": owners}})
        });
        let request = Request::patch(CLAIMS, &claim.metadata, Patch::Merge, owners).role(role(self.snapshot));
        Step::Send(request.doing("change the owner references of"), Self::wrote_owners)
    }

    fn wrote_owners(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let (answer, claim) = (turn.written(), self.changes.pop());
        let (Err(refusal), Some((claim, _))) = (answer, claim) else { return self.write_owners(turn) };
        let what = format!("could not update claim {} for delete policy ownerRefs", claim.metadata.name);
        let trouble = Trouble::request(&what, &refusal);
        let tells = match &self.work {
            // A denial blocks the scale-down until a right is granted or a policy is changed. Upstream records no Event for it.
            Work::Repair { occasion, .. } => *occasion != Occasion::Condemned || refusal.error.is_denied(),
            _ => is_worth_telling(trouble.class),
        };
        if tells && refusal.class != Class::Changed {
            self.tell(turn, Verb::Update, Some(&trouble.failed.to_string()));
        }
        self.fail(trouble)
    }

    /// Writes the labels of a Pod's identity, and its volumes, which the server refuses. Where only the owner references of its
    /// claims were wrong, the Pod is not written, and users are told the same. Upstream: `UpdateStatefulPod`.
    fn mend(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let Work::Repair { pod, ordinal, wrong, occasion, owners, .. } = &self.work else { return Step::Done };
        let Some(wrong) = wrong else {
            if *occasion == Occasion::Wanted && !owners.is_empty() {
                self.tell(turn, Verb::Update, None);
            }
            return Step::Done;
        };
        if wrong.name {
            // Upstream writes the Pod under the name that it should have, and the server finds no such Pod.
            let name = self.snapshot.set.pod_name(*ordinal);
            let text = format!("it has the ordinal of Pod {name}, and a Pod cannot be renamed");
            self.tell(turn, Verb::Update, Some(&text));
            let failed = Failed::new("name", format!("cannot update Pod {}: {text}", self.name));
            return self.fail(Trouble { failed, class: None });
        }
        let body = turn.body(|| mended(pod.meta(), *ordinal, wrong));
        let lacks = if wrong.labels { "it lacks labels of its identity" } else { "it lacks volumes of its claims" };
        let request = Request::patch(PODS, pod.meta(), Patch::Strategic, body).role(role(self.snapshot));
        Step::Send(request.doing("update").because(lacks), |state, turn| {
            let Err(refusal) = turn.written() else {
                state.tell(turn, Verb::Update, None);
                return Step::Done;
            };
            if refusal.class != Class::Changed && is_worth_telling(Some(refusal.class)) {
                state.tell(turn, Verb::Update, Some(&refusal.error.to_string()));
            }
            let what = format!("cannot update Pod {}", state.name);
            state.fail(Trouble::request(&what, &refusal))
        })
    }

    /// A Pod that is gone is no error. Upstream: `DeleteStatefulPod`.
    fn deleted(&mut self, turn: &mut Turn<Note>) -> Go<'a> {
        let Some(refusal) = turn.written().err().filter(|refusal| !refusal.error.is_not_found()) else {
            self.tell(turn, Verb::Delete, None);
            self.lowers_current = matches!(&self.work, Work::Delete { why, .. } if why.lowers_current());
            return Step::Done;
        };
        // After a conflict the cache will soon show the newer Pod, on which the next sync decides.
        if refusal.class != Class::Changed && is_worth_telling(Some(refusal.class)) {
            self.tell(turn, Verb::Delete, Some(&refusal.error.to_string()));
        }
        let what = format!("cannot delete Pod {}", self.name);
        self.fail(Trouble::request(&what, &refusal))
    }

    /// Ends the work. An earlier failure counts.
    fn fail(&mut self, trouble: Trouble) -> Go<'a> {
        self.failed.get_or_insert(trouble.failed);
        Step::Done
    }

    /// Upstream: `recordPodEvent`.
    fn tell(&self, turn: &mut Turn<Note>, verb: Verb, error: Option<&str>) {
        let what = format!("{verb:?} Pod {} in StatefulSet {}", self.name, self.snapshot.set.metadata.name);
        let [good, bad] = verb.reasons();
        match error {
            None => turn.tell(EventType::Normal, good, format!("{what} successful")),
            Some(error) => turn.tell(EventType::Warning, bad, format!("{what} failed error: {error}")),
        }
    }
}

/// The patch that repairs a Pod.
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
