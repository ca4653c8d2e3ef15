//! Creating the newest ReplicaSet, once.
//!
//! Its name follows from the template, so that a second creation is refused by the server. What a refused or unanswered
//! creation means is read live: the cache may not show yet what another attempt, or another process, has made.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    api::{self, escape},
    controller::Requeue,
    meta::Meta,
    sequence::{Class, Failed, Fields, Refusal, Request, Role, Turn},
};
use serde::Deserialize;

use super::{Next, Note, State};
use crate::{
    decide::create::{self, CreateFailure, Namesake, namesake},
    objects::{REPLICA_SETS, ReplicaSet},
    plan::Action,
};

#[derive(Deserialize)]
struct List {
    items: Vec<ReplicaSet>,
}

impl<'a> State<'a> {
    /// Creates the newest ReplicaSet, unless a predecessor of this process may have done so: then it is looked for, by whatever
    /// name.
    pub(super) fn create(&mut self, turn: &Turn<Note>) -> Next<'a> {
        if self.snapshot.shows_predecessors_sets {
            return self.send_create(turn);
        }
        let selector = self.snapshot.deployment.spec.selector.compiled.to_string();
        let query = format!("labelSelector={}", escape(&selector));
        let request = Request::list(REPLICA_SETS, &self.meta().namespace, query);
        Next::Send(request.because("another process may have created the one that is missing"), Self::looked)
    }

    fn looked(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let list = match turn.read::<List>() {
            Ok(list) => list,
            Err(refusal) => {
                let what = format!("cannot look for a ReplicaSet like {}", self.wanted_name());
                return self.fails(turn, Failed::request(&what, &refusal));
            }
        };
        turn.note(Note::LookedForSets);
        let snapshot = self.snapshot;
        let is_known = |set: &ReplicaSet| snapshot.claims.keep.iter().any(|k| k.metadata.uid == set.metadata.uid);
        let is_wanted = |set: &ReplicaSet| namesake(snapshot, set) != Namesake::Foreign && !is_known(set);
        let Some(found) = list.and_then(|list| list.items.into_iter().find(is_wanted)) else {
            return self.send_create(turn);
        };
        turn.note(Note::Read(found.metadata.resource_version));
        turn.deviates(format!("ReplicaSet {} has the template, and the cache does not hold it", found.metadata.name));
        self.end(turn, Requeue::After(Duration::ZERO))
    }

    fn send_create(&self, turn: &Turn<Note>) -> Next<'a> {
        let Some(step) = self.step() else { return Next::Done };
        let Action::CreateReplicaSet { set, body } = &step.action else { return Next::Done };
        let request = Request::create(REPLICA_SETS, &self.meta().namespace, set, turn.body(|| body));
        // The next sync waits for the created ReplicaSet alone: its name keeps it from being created twice.
        Next::Send(request.role(Role::Itself).because(step.reason()), Self::created)
    }

    fn created(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.written() {
            Ok(created) => {
                self.created = created;
                self.done(turn)
            }
            Err(refusal) if matches!(refusal.class, Class::Taken | Class::Unknown) => {
                self.refusal = Some(refusal);
                let request = self.get_set(&self.wanted_name()).because("it may exist");
                Next::Send(request, Self::read_namesake)
            }
            Err(refusal) if refusal.class == Class::NamespaceTerminating => self.refused(turn, &refusal),
            Err(refusal) => self.follow_up(turn, &refusal, &CreateFailure::Refused(refusal.error.to_string())),
        }
    }

    /// Judges the ReplicaSet that has the name of the one to create.
    fn read_namesake(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(refusal) = self.refusal.take() else { return self.done(turn) };
        let is_unanswered = refusal.class == Class::Unknown;
        let live = match turn.read::<ReplicaSet>() {
            Ok(Some(live)) => live,
            // Created by nobody after all.
            Err(gone) if gone.error.is_not_found() && is_unanswered => {
                return self.follow_up(turn, &refusal, &CreateFailure::Refused(refusal.error.to_string()));
            }
            Err(Refusal { error: error @ api::Error::Answer(_), .. }) => {
                let what = format!("cannot read ReplicaSet {}", self.wanted_name());
                return self.fails(turn, Failed::request(&what, &error.into()));
            }
            Ok(None) | Err(_) => return self.refused(turn, &refusal),
        };
        let kind = namesake(self.snapshot, &live);
        if kind != Namesake::Foreign {
            turn.note(Note::Read(live.metadata.resource_version));
        }
        match kind {
            Namesake::Ours if is_unanswered => {
                let Meta { name, uid, resource_version: version, .. } = live.metadata;
                self.created = Fields { name, uid, version };
                self.done(turn)
            }
            // The cache has not seen it yet.
            Namesake::Ours | Namesake::Adoptable => self.end(turn, Requeue::After(Duration::ZERO)),
            Namesake::Foreign if is_unanswered => self.refused(turn, &refusal),
            Namesake::Foreign => self.follow_up(turn, &refusal, &CreateFailure::Collision),
        }
    }

    /// Fails after writing and saying what a failed creation calls for; that this may fail, too, does not matter then.
    fn follow_up(&mut self, turn: &mut Turn<Note>, refusal: &Refusal, failure: &CreateFailure) -> Next<'a> {
        let failed = self.failed(refusal);
        self.failures.push(failed);
        self.steps = Cow::Owned(create::failed(self.snapshot, &self.status, &self.wanted_name(), failure));
        self.at = 0;
        self.take_step(turn)
    }

    /// The name of the ReplicaSet to create.
    fn wanted_name(&self) -> Arc<str> {
        match self.step().map(|step| &step.action) {
            Some(Action::CreateReplicaSet { set, .. }) => Arc::clone(set),
            _ => Arc::default(),
        }
    }
}
