//! Changes the owner references of the judged version of an object.
//!
//! Built-in kinds accept a strategic merge patch, which names only the changed references. For other kinds, the server answers
//! 415, and the whole list is replaced. The precondition on the version protects references that a user corrected or removed
//! after the judgement.

use common::{
    api::Patch,
    io::{Failed, Refusal, Role},
    map::HashSet,
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::{
    Io,
    judge::{Judged, Written},
};
use crate::{
    collector::snapshot::Owner,
    place::{CHANGING_REFERENCES, is_unsupported, report_denied, says_absent},
};

impl Judged<'_> {
    /// Removes all references of the object with these UIDs. Another owner keeps the object.
    pub(super) async fn drop_references(&self, uids: &[Uid], io: Io<'_>) -> Result<Written, Failed> {
        let changes = || uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        let whole = || {
            // An object may have thousands of owners, so the UIDs are in a hash set instead of a list.
            let dropped: HashSet<&Uid> = uids.iter().collect();
            let references = self.owners.iter().map(|owner| &owner.reference);
            references.filter(|reference| !dropped.contains(&reference.uid)).map(|reference| json!(reference)).collect()
        };
        let words = ["drop owner references of", "it has another owner, which keeps it"];
        self.write(words, changes, whole, io).await
    }

    /// Sets `blockOwnerDeletion` to false on every reference that blocks an owner. The object must then be read again.
    pub(super) async fn unblock(&mut self, io: Io<'_>) -> Result<Written, Failed> {
        let blocked = self.owners.iter().filter(|owner| owner.is_blocked());
        let changes = || blocked.clone().map(|owner| json!(unblocked(owner))).collect();
        let whole = || self.owners.iter().map(|owner| json!(unblocked(owner))).collect();
        let words = ["stop blocking the owners of", "it and its owners may wait for each other"];
        let written = self.write(words, changes, whole, io).await?;
        if written != Written::Done {
            return Ok(written);
        }
        for owner in self.owners.to_mut() {
            owner.reference = unblocked(owner);
        }
        Ok(Written::Changed)
    }

    /// Sends `changes` as a strategic merge patch. If the server does not accept that format, replaces the list by `whole`.
    async fn write(
        &self,
        [doing, why]: [&'static str; 2],
        changes: impl Fn() -> Vec<Value>,
        whole: impl Fn() -> Vec<Value>,
        io: Io<'_>,
    ) -> Result<Written, Failed> {
        let request = |kind, body| {
            let request = self.place.patch(kind, Some(self.version()), body);
            request.role(Role::Itself).doing(doing).because(why)
        };
        let mut answer = io.send(request(Patch::Strategic, io.body(|| references_body(changes())))).await;
        if answer.as_ref().is_err_and(is_unsupported) {
            answer = io.send(request(Patch::Merge, io.body(|| references_body(whole())))).await;
        }
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(refusal) if says_absent(&refusal) => Ok(Written::Absent),
            // The server also answers 422 if the UID belongs to another object.
            Err(Refusal { error, .. }) if error.is_conflict() || error.is_invalid() && !self.is_live => {
                Ok(Written::Changed)
            }
            Err(refusal) => {
                let failed = self.place.refused(CHANGING_REFERENCES, &refusal);
                report_denied(&failed, io);
                Err(failed)
            }
        }
    }
}

fn references_body(references: Vec<Value>) -> Value {
    let references = if references.is_empty() { Value::Null } else { Value::Array(references) };
    json!({"metadata": {"ownerReferences": references}})
}

/// Returns the reference with `blockOwnerDeletion` false if it was true.
fn unblocked(owner: &Owner) -> OwnerRef {
    let block_owner_deletion = if owner.is_blocked() { Some(false) } else { owner.reference.block_owner_deletion };
    OwnerRef { block_owner_deletion, ..owner.reference.clone() }
}
