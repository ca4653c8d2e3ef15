//! The request of one sync of Endpoints.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::Patch,
    events::EventType,
    meta::Key,
    sequence::{Class, Failed, Refusal, Request, Role, Sequence, Step, Steps, Turn},
};
use serde_json::{Value, json};

use super::decide::{EndpointsPlan, EndpointsSnapshot, Wanted};
use crate::{
    memory::{Memory, Settled},
    objects::{ENDPOINTS, Endpoints, Service},
};

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// What the next sync is to know.
    Decide(Memory),
    /// A write without an answer may have taken effect.
    LoseAnswer,
}

impl common::sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

/// The state of one sync.
struct State<'a> {
    snapshot: &'a EndpointsSnapshot,
    plan: &'a EndpointsPlan,
}

/// The requests that carry out `plan`.
pub(super) fn sequence<'a>(snapshot: &'a EndpointsSnapshot, plan: &'a EndpointsPlan) -> impl Sequence<Note> + 'a {
    Steps::new(State { snapshot, plan }, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match (self.plan, &self.snapshot.members) {
            (EndpointsPlan::Delete(endpoints), _) => {
                let request = Request::delete(ENDPOINTS, &endpoints.metadata).role(Role::Awaited);
                Step::Send(request.because("the Service is gone"), Self::deleted)
            }
            (EndpointsPlan::Keep(wanted), Some(members)) => self.keep(turn, &members.service, wanted),
            (EndpointsPlan::Keep(_) | EndpointsPlan::Settled(_) | EndpointsPlan::Leave, _) => Step::Done,
        }
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Err(refusal) = turn.written()
            && !refusal.error.is_not_found()
        {
            self.fail(turn, "delete", &refusal);
        }
        Step::Done
    }

    fn keep(&self, turn: &mut Turn<Note>, service: &Service, wanted: &Wanted) -> Next<'a> {
        let settled = wanted.base.as_deref().filter(|_| !wanted.write).map(|base| Settled::new(service, base));
        let (uid, seen) = (service.metadata.uid.clone(), Some(Arc::new(wanted.seen.clone())));
        turn.note(Note::Decide(Memory { uid, seen, settled, ..Memory::default() }));
        if !wanted.write {
            return Step::Done;
        }
        let key = &self.snapshot.key;
        let request = match &wanted.base {
            Some(base) => {
                let body = turn.body(|| patch(base, wanted));
                Request::patch(ENDPOINTS, &base.metadata, Patch::Merge, body).doing("update")
            }
            None => Request::create(ENDPOINTS, &key.namespace, &key.name, turn.body(|| whole(key, wanted))),
        };
        Step::Send(request.role(Role::Awaited), Self::wrote)
    }

    fn wrote(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Err(refusal) = turn.written() else { return Step::Done };
        if refusal.class == Class::NamespaceTerminating {
            return Step::Done;
        }
        if refusal.class == Class::Unknown {
            turn.note(Note::LoseAnswer);
        }
        let (key, error) = (&self.snapshot.key, &refusal.error);
        let (reason, message) = match &self.snapshot.endpoints {
            None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
            Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
        };
        turn.tell(EventType::Warning, reason, message);
        self.fail(turn, "write", &refusal);
        Step::Done
    }

    fn fail(&self, turn: &mut Turn<Note>, doing: &str, refusal: &Refusal) {
        turn.end(Err(Failed::request(&format!("failed to {doing} endpoints {}", self.snapshot.key), refusal)));
    }
}

fn whole(key: &Key, wanted: &Wanted) -> Value {
    let annotations: BTreeMap<&str, &str> =
        wanted.annotations().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    json!({
        "apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": wanted.labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// A merge patch. Annotations of others stay.
fn patch(base: &Endpoints, wanted: &Wanted) -> Value {
    let meta = &base.metadata;
    let gone = meta.labels.iter().filter(|(key, _)| wanted.labels.get(key).is_none()).map(|(key, _)| (key, None));
    let labels: BTreeMap<&str, Option<&str>> =
        wanted.labels.iter().map(|(key, value)| (key, Some(value))).chain(gone).collect();
    let annotations: BTreeMap<&str, Option<&str>> =
        wanted.annotations().into_iter().filter(|(name, value)| meta.annotations.get(name) != *value).collect();
    json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}
