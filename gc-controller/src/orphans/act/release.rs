//! Releases a dependent from an owner that is deleted with the policy `Orphan`.
//!
//! All references of the dependent to the UID of the owner are removed, regardless of their other fields. The removal is right
//! for every version of the dependent, so the requests have no precondition on the version.

use common::{
    api::Patch,
    io::{Failed, Precondition, Role},
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::Io;
use crate::place::{CHANGING_REFERENCES, Live, Place, TRIES, is_unsupported, says_absent};

/// Removes every reference of a dependent to an owner. Succeeds if the dependent does not exist.
pub(super) async fn release(place: &Place, owner: &Uid, io: Io<'_>) -> Result<(), Failed> {
    let body = io.body(|| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}}));
    let object = Precondition { uid: place.uid.clone(), version: None };
    let request = place.patch(Patch::Strategic, Some(object), body).doing("release").role(Role::Child);
    match io.send(request).await {
        Ok(_) => return Ok(()),
        Err(refusal) if says_absent(&refusal) => return Ok(()),
        // The UID belongs to another object, the kind does not support the patch, or an old server requires the removed
        // references to be present. The live object shows which.
        Err(refusal) if is_unsupported(&refusal) || refusal.error.is_invalid() || refusal.error.is_conflict() => {}
        Err(refusal) => return Err(place.refused(CHANGING_REFERENCES, &refusal)),
    }
    // The list of references of the live object is replaced.
    for _ in 0..TRIES {
        let meta = match place.live("", io).await? {
            Live::Is(meta) if meta.owners.iter().any(|reference| reference.uid == *owner) => meta,
            _ => return Ok(()),
        };
        let body = io.body(|| {
            let left: Vec<&OwnerRef> = meta.owners.iter().filter(|reference| reference.uid != *owner).collect();
            let left = if left.is_empty() { Value::Null } else { json!(left) };
            json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}})
        });
        let request = place.patch(Patch::Merge, None, body).doing("release").role(Role::Child);
        match io.send(request).await {
            Err(refusal) if refusal.error.is_conflict() => {}
            Err(refusal) if !says_absent(&refusal) => return Err(place.refused(CHANGING_REFERENCES, &refusal)),
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    Err(place.changing())
}
