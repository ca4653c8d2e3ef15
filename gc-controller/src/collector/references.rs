//! Changes the owner references of an object.
//!
//! Built-in kinds accept a strategic merge patch, which names only the changed references. For other kinds, the server answers
//! 415, and the whole list is replaced. The precondition on the version protects references that a user corrected or removed
//! after the decision.

use common::{api::PatchFormat, prelude::*};
use serde_json::{Value, json};

use super::{
    Collector,
    decide::OwnerWithState,
    judge::{DependentVersion, WriteResult},
};
use crate::place::{REFERENCE_CHANGE_ACTIVITY, is_unsupported_patch, report_denied_reference_change};

impl DependentVersion<'_> {
    /// Removes all owner references with these UIDs. Called if another owner exists, so the object is kept.
    pub(super) async fn remove_owner_references(
        &self,
        uids: &[Uid],
        io: Io<'_, Collector>,
    ) -> Result<WriteResult, SyncError> {
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

    /// Sets `blockOwnerDeletion` to false on every reference that blocks an owner. The caller must then read the object again.
    pub(super) async fn unblock_owners(&mut self, io: Io<'_, Collector>) -> Result<WriteResult, SyncError> {
        let blocking = self.owners.iter().filter(|owner| owner.blocks_owner_deletion());
        let changes = || blocking.clone().map(|owner| json!(unblocked(owner))).collect();
        let whole = || self.owners.iter().map(|owner| json!(unblocked(owner))).collect();
        let words = ["stop blocking the owners of", "it and its owners may wait for each other"];
        let result = self.write(words, changes, whole, io).await?;
        if result != WriteResult::Done {
            return Ok(result);
        }
        for owner in self.owners.to_mut() {
            owner.reference = unblocked(owner);
        }
        Ok(WriteResult::Changed)
    }

    /// Sends `changes` as a strategic merge patch. If the server does not accept that format, replaces the list by `whole`.
    async fn write(
        &self,
        [doing, why]: [&'static str; 2],
        changes: impl Fn() -> Vec<Value>,
        whole: impl Fn() -> Vec<Value>,
        io: Io<'_, Collector>,
    ) -> Result<WriteResult, SyncError> {
        let request = |kind, body| {
            let request = self.location.patch(kind, Some(self.write_precondition()), body);
            request.with_role(ObjectRole::SyncedObject).with_verb_text(doing).with_reason(why)
        };
        let mut answer = io.send(request(PatchFormat::Strategic, io.encode_body(|| references_body(changes())))).await;
        if answer.as_ref().is_err_and(is_unsupported_patch) {
            answer = io.send(request(PatchFormat::Merge, io.encode_body(|| references_body(whole())))).await;
        }
        match answer {
            Ok(_) => Ok(WriteResult::Done),
            Err(refusal) if refusal.error.is_object_absent() => Ok(WriteResult::Absent),
            // After a change of the object, the server answers 409, or 422 if another object has the name now.
            Err(Refusal { error, .. }) if error.is_conflict() || error.is_invalid() && !self.was_read_live => {
                Ok(WriteResult::Changed)
            }
            Err(refusal) => {
                let failed = self.location.refusal_error(REFERENCE_CHANGE_ACTIVITY, &refusal);
                report_denied_reference_change(&failed, io);
                Err(failed)
            }
        }
    }
}

fn references_body(references: Vec<Value>) -> Value {
    let references = if references.is_empty() { Value::Null } else { Value::Array(references) };
    json!({"metadata": {"ownerReferences": references}})
}

/// Returns the reference with `blockOwnerDeletion` set to false if it was true. Other values are kept.
fn unblocked(owner: &OwnerWithState) -> OwnerRef {
    let block_owner_deletion =
        if owner.blocks_owner_deletion() { Some(false) } else { owner.reference.block_owner_deletion };
    OwnerRef { block_owner_deletion, ..owner.reference.clone() }
}
