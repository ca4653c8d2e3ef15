//! The loop that releases the dependents of objects that are deleted without them.

use std::sync::Arc;

use common::{
    controller::{Explain, Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    map::HashSet,
    meta::Uid,
    object::Resource,
    sequence::{Failed, Pace, Sequence, Step, Steps, Turn, members},
};
use jiff::Timestamp;

use crate::{
    collector::{self, Collector},
    decide::Awaited,
    graph::{Dependent, ORPHAN, View},
    key::ObjectKey,
    parked::Line,
    sequence::{Place, Release, RemoveFinalizer, tell_denied, unserved},
};

/// How many dependents of one object are released at once.
const AT_ONCE: usize = 20;

/// An object whose dependents are to be released.
#[derive(Clone, Debug)]
pub struct Orphaning {
    view: View,
    /// Where the object lives, if its kind is served.
    resource: Option<Resource>,
    dependents: Vec<Orphan>,
    /// Resources of which not all objects are known.
    coming: Vec<String>,
}

/// A dependent, and where it lives if its kind is served.
type Orphan = (Dependent, Option<Resource>);

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: it does not have the finalizer, or is not going.
    Nothing,
    /// Nothing for now: not all objects of this resource are known.
    Wait(String),
    /// This many dependents are released, and then the object.
    Release(usize),
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing => "nothing is to be released".to_owned(),
            Self::Wait(_) => String::new(),
            Self::Release(count) => format!("it is deleted without its {count} dependents"),
        }
    }

    fn waiting(&self) -> Vec<String> {
        let Self::Wait(resource) = self else { return Vec::new() };
        vec![format!("not all {resource} are known; one may have to be released")]
    }
}

/// Decides.
pub fn decide(orphaning: &Orphaning) -> Plan {
    let view = &orphaning.view;
    if !view.being_deleted || !view.orphans || view.is_virtual {
        return Plan::Nothing;
    }
    match orphaning.coming.first() {
        Some(resource) => Plan::Wait(resource.clone()),
        None => Plan::Release(view.dependents),
    }
}

/// A change of the collector's memory.
#[derive(Debug)]
pub enum Note {
    /// The object waits for nothing any more.
    Unparked,
    /// The object waits until all objects are known.
    Parked,
}

impl common::sequence::Note for Note {
    type Question = ();
    /// The dependents that refer to the object by now.
    type Fresh = Vec<Orphan>;
}

/// The state of one sync.
struct State<'a> {
    orphaning: &'a Orphaning,
    plan: &'a Plan,
    releases: Vec<Steps<Release, Note>>,
    released: HashSet<Uid>,
    failed: Option<Failed>,
    finalizer: Option<Steps<RemoveFinalizer, Note>>,
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        turn.note(Note::Unparked);
        match self.plan {
            Plan::Nothing => Step::Done,
            Plan::Wait(_) => {
                turn.note(Note::Parked);
                Step::Done
            }
            Plan::Release(_) => self.release(&self.orphaning.dependents),
        }
    }

    fn release<'d>(&mut self, dependents: impl IntoIterator<Item = &'d Orphan>) -> Next<'a> {
        self.releases.clear();
        for (dependent, resource) in dependents {
            match resource {
                Some(resource) => {
                    let place = Place::new(*resource, &dependent.identity);
                    self.releases.push(Release::of(place, self.orphaning.view.identity.uid.clone()));
                }
                None => self.failed = Some(unserved(&dependent.kind)),
            }
        }
        Step::All(|state| members(&mut state.releases), Pace::AtMost(AT_ONCE), Self::released)
    }

    fn released(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        for release in &mut self.releases {
            match release.state.outcome.take() {
                // The process ends.
                None => return Step::Done,
                Some(Ok(())) => drop(self.released.insert(release.state.uid().clone())),
                Some(Err(failed)) => self.failed = Some(failed),
            }
        }
        match self.failed.take() {
            Some(failed) => {
                tell_denied(turn, &failed);
                fail(turn, failed)
            }
            None => Step::Observe((), Self::finish),
        }
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let dependents = turn.fresh().unwrap_or_default();
        let is_new = |(dependent, _): &&Orphan| !self.released.contains(&dependent.identity.uid);
        let new: Vec<&Orphan> = dependents.iter().filter(is_new).collect();
        if !new.is_empty() {
            turn.deviates(format!("{} dependents have turned up since", new.len()));
            return self.release(new);
        }
        let view = &self.orphaning.view;
        let Some(resource) = self.orphaning.resource else { return fail(turn, unserved(&view.kind)) };
        let place = Place::new(resource, &view.identity);
        self.finalizer = Some(RemoveFinalizer::of(place, ORPHAN, "orphan; no dependent refers to it any more"));
        Step::All(|state| members(state.finalizer.as_mut_slice()), Pace::AtOnce, Self::finished)
    }

    fn finished(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match self.finalizer.as_mut().and_then(|finalizer| finalizer.state.outcome.take()) {
            Some(Err(failed)) => fail(turn, failed),
            Some(Ok(_)) | None => Step::Done,
        }
    }
}

fn fail<'a>(turn: &mut Turn<Note>, failed: Failed) -> Next<'a> {
    turn.end(Err(failed));
    Step::Done
}

/// Releases dependents.
pub struct Orphaner(pub(crate) Arc<Collector>);

impl Orphaner {
    /// The objects that refer to an owner.
    fn dependents(&self, owner: &Uid) -> Vec<Orphan> {
        let dependents = self.0.collection.graph.lock().dependents(owner);
        let place = |dependent: Dependent| {
            let resource = self.0.monitors.resource(&dependent.kind);
            (dependent, resource)
        };
        dependents.into_iter().map(place).collect()
    }

    fn orphaning(&self, view: View) -> Orphaning {
        let resource = self.0.monitors.resource(&view.kind);
        let coming = self.0.monitors.coming();
        let mut orphaning = Orphaning { view, resource, dependents: Vec::new(), coming };
        if let Plan::Release(_) = decide(&orphaning) {
            orphaning.dependents = self.dependents(&orphaning.view.identity.uid);
        }
        orphaning
    }
}

impl Sequenced for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Orphaning;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Observed<Orphaning>, Failed> {
        let view = self.0.collection.graph.lock().view(&key.0);
        Ok(view.map_or(Observed::Gone, |view| Observed::Ready(self.orphaning(view))))
    }

    fn decide(orphaning: &Orphaning) -> Plan {
        decide(orphaning)
    }

    fn sequence<'a>(orphaning: &'a Orphaning, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        let state = State {
            orphaning,
            plan,
            releases: Vec::new(),
            released: HashSet::default(),
            failed: None,
            finalizer: None,
        };
        Steps::new(state, State::begin)
    }

    fn object(orphaning: &Orphaning) -> (ObjectRef, Uid) {
        collector::object(&orphaning.view)
    }

    fn note(&self, orphaning: &Orphaning, note: Note) {
        let key = ObjectKey(orphaning.view.identity.uid.clone());
        match note {
            Note::Unparked => self.0.collection.parked.leave(Line::Orphan, &key),
            Note::Parked => self.0.monitors.park(Line::Orphan, key, Awaited::Everything),
        }
    }

    fn fresh(&self, orphaning: &Orphaning, (): ()) -> Option<Vec<Orphan>> {
        Some(self.dependents(&orphaning.view.identity.uid))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.0.monitors]
    }
}
