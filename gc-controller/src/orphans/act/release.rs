//! Releasing a dependent from an owner that is deleted without it.
//!
//! The dependent loses every reference to the uid of that owner, whatever else the reference says. No version of the dependent
//! can make that wrong, so none is required.

use common::{
    api::Patch,
    io::{Failed, Precondition, Role},
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::Io;
use crate::place::{CHANGING_REFERENCES, Live, Place, TRIES, is_unsupported, says_absent};

/// Removes every reference of a dependent to an owner. A dependent that is gone is released.
pub(super) async fn release(place: &Place, owner: &Uid, io: Io<'_>) -> Result<(), Failed> {
    let body = io.body(|| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}}));
    let object = Precondition { uid: place.uid.clone(), version: None };
    let request = place.patch(Patch::Strategic, Some(object), body).doing("release").role(Role::Child);
    match io.send(request).await {
        Ok(_) => return Ok(()),
        Err(refusal) if says_absent(&refusal) => return Ok(()),
        // The uid is another's, or an old server wants references to be there that are to go: look.
        Err(refusal) if is_unsupported(&refusal) || refusal.error.is_invalid() || refusal.error.is_conflict() => {}
        Err(refusal) => return Err(place.refused(CHANGING_REFERENCES, &refusal)),
    }
    // The list of references is written anew, onto what is there.
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
