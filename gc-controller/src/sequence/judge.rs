//! Judging an object by its owners, and carrying out the verdict.
//!
//! The first judgement is of what monitors have seen, later ones are of the object itself. Every write carries uid and version of
//! what was judged: an object that was changed meanwhile is read and judged anew.

use std::borrow::Cow;

use common::{
    controller::Retry,
    meta::{Meta, OwnerRef},
    sequence::{Failed, Precondition, Request, Role, Step, Turn, Verb},
};

use super::{
    Next, Note, State, TRIES, absent, fail,
    place::{Live, Place, says_absent},
};
use crate::{
    decide::{Owner, Propagation, Standing, Verdict, policy, verdict},
    graph::{FOREGROUND, ORPHAN, OwnerState},
};

impl<'a> State<'a> {
    pub(super) fn judge(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if self.tries == TRIES {
            return fail(turn, self.place.changing());
        }
        self.tries += 1;
        self.standings.clear();
        if !self.is_live {
            return self.look_up(turn);
        }
        match self.place.read() {
            Some(request) => Step::Send(request.because("to judge its current version"), Self::read),
            None => absent(turn),
        }
    }

    /// Judges the object anew, as it is now.
    pub(super) fn judge_live(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.is_live = true;
        self.judge(turn)
    }

    fn read(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let meta = match self.place.live(turn) {
            Err(failed) => return fail(turn, failed),
            Ok(Live::Absent) => return absent(turn),
            Ok(Live::AsExpected) => return self.look_up(turn),
            Ok(Live::Is(meta)) => meta,
        };
        let has = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
        let propagation = policy(has(ORPHAN), has(FOREGROUND));
        if propagation != self.propagation {
            turn.deviates(format!("the finalizers of {} have changed", self.place.title()));
        }
        self.version = meta.resource_version;
        self.propagation = propagation;
        Step::Observe(meta.owners.to_vec(), Self::observed)
    }

    fn observed(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(fresh) = turn.fresh()
            && fresh.owners[..] != self.owners[..]
        {
            turn.deviates(format!("the owners of {} have changed", self.place.title()));
            self.owners = Cow::Owned(fresh.owners);
        }
        self.look_up(turn)
    }

    /// Finds out how each owner stands, in their order.
    fn look_up(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        while let Some(owner) = self.owners.get(self.standings.len()) {
            let standing = match owner.state {
                OwnerState::Absent => Standing::Dangling,
                // If it is gone already, its monitor tells, and the object is judged again.
                OwnerState::Present => Standing::Solid,
                OwnerState::Waiting | OwnerState::Unknown => match self.place_of(owner).map(|place| place.read()) {
                    Err(failed) => return fail(turn, failed),
                    Ok(Some(request)) => {
                        return Step::Send(request.because("an owner that exists keeps the object"), Self::looked_up);
                    }
                    Ok(None) => self.found_absent(turn, owner),
                },
            };
            let uid = owner.reference.uid.clone();
            self.standings.push((uid, standing));
        }
        self.judged(turn)
    }

    fn looked_up(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(owner) = self.owners.get(self.standings.len()) else { return Step::Done };
        let live = match self.place_of(owner).and_then(|place| place.live(turn)) {
            Ok(live) => live,
            Err(failed) => return fail(turn, failed),
        };
        let expected = if owner.state == OwnerState::Waiting { Standing::Waiting } else { Standing::Solid };
        let standing = match live {
            Live::AsExpected => expected,
            Live::Is(meta) if waits_for_dependents(&meta) => Standing::Waiting,
            Live::Is(_) => Standing::Solid,
            Live::Absent => self.found_absent(turn, owner),
        };
        if standing != expected {
            let found = match standing {
                Standing::Solid => "does not wait for its dependents",
                Standing::Dangling => "does not exist",
                Standing::Waiting => "waits for its dependents",
            };
            turn.deviates(format!("owner {} {found}", owner.name()));
        }
        let uid = owner.reference.uid.clone();
        self.standings.push((uid, standing));
        self.look_up(turn)
    }

    fn found_absent(&self, turn: &mut Turn<Note>, owner: &Owner) -> Standing {
        let namespace = if owner.is_namespaced() { self.place.namespace.clone() } else { "".into() };
        turn.note(Note::OwnerAbsent(owner.reference.clone(), namespace));
        Standing::Dangling
    }

    fn place_of(&self, owner: &Owner) -> Result<Place, Failed> {
        let Some(resource) = owner.resource else { return Err(super::unserved(&owner.of())) };
        if resource.namespaced && self.place.namespace.is_empty() {
            let text = format!("{} is cluster-scoped and names a namespaced owner", self.place.title());
            return Err(Failed::new("scope", text).with_retry(Retry::Forget));
        }
        let namespace = if resource.namespaced { self.place.namespace.clone() } else { "".into() };
        let OwnerRef { name, uid, .. } = &owner.reference;
        Ok(Place { resource, namespace, name: name.as_str().into(), uid: uid.clone() })
    }

    fn judged(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let has = |standing| self.standings.iter().any(|(_, found)| *found == standing);
        // The dependents of the object may have changed while its owners were looked up.
        if self.situation.view.dependents > 0 && has(Standing::Waiting) && !has(Standing::Solid) {
            return Step::Observe(Vec::new(), Self::carry_out);
        }
        self.carry_out(turn)
    }

    fn carry_out(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let view = &self.situation.view;
        let in_cycle = turn.fresh().map_or(view.in_cycle, |fresh| fresh.in_cycle);
        if in_cycle != view.in_cycle {
            turn.deviates("whether a dependent waits for its own dependents has changed");
        }
        match verdict(&self.standings, view.dependents, || in_cycle, self.propagation) {
            Verdict::Keep => Step::Done,
            Verdict::Release(uids) => self.drop_references(turn, &uids),
            Verdict::Delete { unblock: true, .. } if self.owners.iter().any(Owner::is_blocked) => self.unblock(turn),
            Verdict::Delete { propagation, .. } => Step::Send(self.delete(propagation), Self::deleted),
        }
    }

    fn delete(&self, propagation: Propagation) -> Request {
        let why = match propagation {
            Propagation::Background => "no owner keeps it; propagation policy Background",
            Propagation::Foreground => "no owner keeps it; propagation policy Foreground",
            Propagation::Orphan => "no owner keeps it; propagation policy Orphan",
        };
        let verb = Verb::Delete(Some(propagation.as_str()), None);
        let request = Request::delete(self.place.resource, &self.place.meta()).role(Role::Itself).because(why);
        Request { verb, precondition: Some(self.judged_version()), ..request }
    }

    pub(super) fn judged_version(&self) -> Precondition {
        Precondition { uid: self.place.uid.clone(), version: Some(self.version) }
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.written() {
            Ok(_) => Step::Done,
            Err(refusal) if says_absent(&refusal) => absent(turn),
            Err(refusal) if refusal.error.is_conflict() => self.judge_live(turn),
            Err(refusal) => fail(turn, self.place.refused("deleting", &refusal)),
        }
    }
}

fn waits_for_dependents(meta: &Meta) -> bool {
    meta.is_deleting() && meta.finalizers.iter().any(|f| f == FOREGROUND)
}
