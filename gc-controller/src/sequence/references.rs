//! Changing the owner references of the version of an object that was judged.
//!
//! Built-in kinds take a strategic patch, which names what changes and touches nothing else. Other kinds answer 415, and their
//! list is written as a whole. A reference that was corrected or removed since the judgement is as its writer left it.

use common::{
    api::Patch,
    map::HashSet,
    meta::{OwnerRef, Uid},
    sequence::{Body, Fields, Refusal, Request, Role, Step, Turn},
};
use serde_json::{Value, json};

use super::{
    Next, Note, State, absent, fail,
    place::{is_unsupported, says_absent, tell_denied},
};
use crate::decide::Owner;

impl<'a> State<'a> {
    /// Removes the references to these uids.
    pub(super) fn drop_references(&mut self, turn: &mut Turn<Note>, uids: &[Uid]) -> Next<'a> {
        let body = turn.body(|| body(uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect()));
        // An object may have thousands of owners: they are looked up, not searched.
        let dropped: HashSet<&Uid> = uids.iter().collect();
        let references = self.owners.iter().map(|owner| &owner.reference);
        self.references = references.filter(|reference| !dropped.contains(&reference.uid)).cloned().collect();
        self.unblocks = false;
        Step::Send(self.write(Patch::Strategic, body), Self::patched)
    }

    /// Makes the object block none of its owners.
    pub(super) fn unblock(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let body =
            turn.body(|| body(self.owners.iter().filter(|o| o.is_blocked()).map(|o| json!(unblocked(o))).collect()));
        self.references = self.owners.iter().map(unblocked).collect();
        self.unblocks = true;
        Step::Send(self.write(Patch::Strategic, body), Self::patched)
    }

    fn write(&self, kind: Patch, body: Body) -> Request {
        let request = self.place.patch(kind, Some(self.judged_version()), body).role(Role::Itself);
        if self.unblocks {
            request.doing("stop blocking the owners of").because("it and its owners may wait for each other")
        } else {
            request.doing("drop owner references of").because("it has another owner, which keeps it")
        }
    }

    fn patched(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.written() {
            Err(refusal) if is_unsupported(&refusal) => {
                let body = turn.body(|| body(self.references.iter().map(|reference| json!(reference)).collect()));
                Step::Send(self.write(Patch::Merge, body), |state, turn| {
                    let answer = turn.written();
                    state.wrote(turn, answer)
                })
            }
            answer => self.wrote(turn, answer),
        }
    }

    fn wrote(&mut self, turn: &mut Turn<Note>, answer: Result<Fields, Refusal>) -> Next<'a> {
        match answer {
            Ok(_) if self.unblocks => {
                let references = std::mem::take(&mut self.references);
                for (owner, reference) in self.owners.to_mut().iter_mut().zip(references) {
                    owner.reference = reference;
                }
                // What else the object is by now has to be read.
                self.judge_live(turn)
            }
            Ok(_) => Step::Done,
            Err(refusal) if says_absent(&refusal) => absent(turn),
            // 422: the uid may be another's.
            Err(Refusal { error, .. }) if error.is_conflict() || error.is_invalid() && !self.is_live => {
                self.judge_live(turn)
            }
            Err(refusal) => {
                let failed = self.place.refused("changing the owner references of", &refusal);
                tell_denied(turn, &failed);
                fail(turn, failed)
            }
        }
    }
}

fn body(references: Vec<Value>) -> Value {
    let references = if references.is_empty() { Value::Null } else { Value::Array(references) };
    json!({"metadata": {"ownerReferences": references}})
}

/// The reference to an owner that is not blocked.
fn unblocked(owner: &Owner) -> OwnerRef {
    let block_owner_deletion = if owner.is_blocked() { Some(false) } else { owner.reference.block_owner_deletion };
    OwnerRef { block_owner_deletion, ..owner.reference.clone() }
}
