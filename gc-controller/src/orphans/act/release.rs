//! Releases a dependent from an owner that is deleted with the policy `Orphan`.
//!
//! All references of the dependent to the UID of the owner are removed, regardless of their other fields. The removal is right
//! for every version of the dependent, so the requests have no precondition on the version.

use common::{
    api::PatchFormat,
    io::{ObjectRole, Precondition, SyncError},
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::Io;
use crate::place::{
    LiveReadResult, MAX_WRITE_ATTEMPTS, ObjectLocation, REFERENCE_CHANGE_ACTIVITY, is_object_absent,
    is_unsupported_patch,
};

/// Removes every reference of a dependent to an owner. Succeeds if the dependent does not exist.
pub(super) async fn release_dependent(place: &ObjectLocation, owner: &Uid, io: Io<'_>) -> Result<(), SyncError> {
    let body = io.encode_body(|| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}}));
    let object = Precondition { uid: place.uid.clone(), version: None };
    let request = place
        .build_patch_request(PatchFormat::Strategic, Some(object), body)
        .with_verb_text("release")
        .with_role(ObjectRole::Child);
    match io.send(request).await {
        Ok(_) => return Ok(()),
        Err(refusal) if is_object_absent(&refusal) => return Ok(()),
        // The UID belongs to another object, the kind does not support the patch, or an old server requires the removed
        // references to be present. A read of the live object shows which of these is true.
        Err(refusal) if is_unsupported_patch(&refusal) || refusal.error.is_invalid() || refusal.error.is_conflict() => {
        }
        Err(refusal) => return Err(place.refusal_error(REFERENCE_CHANGE_ACTIVITY, &refusal)),
    }
    // Replace the whole list of references, starting from the list in the live object.
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let meta = match place.read_live("", io).await? {
            LiveReadResult::Existing(meta) if meta.owners.iter().any(|reference| reference.uid == *owner) => meta,
            _ => return Ok(()),
        };
        let body = io.encode_body(|| {
            let left: Vec<&OwnerRef> = meta.owners.iter().filter(|reference| reference.uid != *owner).collect();
            let left = if left.is_empty() { Value::Null } else { json!(left) };
            json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}})
        });
        let request = place
            .build_patch_request(PatchFormat::Merge, None, body)
            .with_verb_text("release")
            .with_role(ObjectRole::Child);
        match io.send(request).await {
            Err(refusal) if refusal.error.is_conflict() => {}
            Err(refusal) if !is_object_absent(&refusal) => {
                return Err(place.refusal_error(REFERENCE_CHANGE_ACTIVITY, &refusal));
            }
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    Err(place.conflict_error())
}
