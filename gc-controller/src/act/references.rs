//! Changing the owner references of a dependent.
//!
//! Built-in kinds take a strategic patch, which names what goes and touches nothing else; its uid guards against another
//! object of that name. Other kinds answer 415, and their list is written as a whole onto the version it was read from.

use common::{
    api::{Error as ApiError, Patch},
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::{Act, Place, TRIES};
use crate::error::{Error, says_absent};

/// Why references could not be changed.
#[derive(Debug)]
pub(crate) enum NotReleased {
    /// There is no such object any more.
    Gone,
    /// Otherwise.
    Failed(Error),
}

impl NotReleased {
    /// Of an object that was there a moment ago.
    pub(crate) fn into_error(self, place: &Place) -> Error {
        match self {
            Self::Gone => Error::Changing(place.name()),
            Self::Failed(error) => error,
        }
    }
}

fn is_unsupported(error: &ApiError) -> bool {
    matches!(error, ApiError::Status(status) if status.code == 415)
}

impl Act<'_> {
    /// Removes the references to these uids.
    pub(crate) async fn release(&self, place: &Place, uids: &[Uid]) -> Result<(), NotReleased> {
        let goes = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect::<Vec<Value>>();
        let patch = json!({"metadata": {"uid": place.identity.uid, "ownerReferences": goes}});
        match self.api.patch(place.target(), Patch::Strategic, &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if says_absent(&error) => return Err(NotReleased::Gone),
            // The uid is another's, or an old server wants references to be there that are to go: look.
            Err(error) if is_unsupported(&error) || error.is_invalid() || error.is_conflict() => {}
            Err(error) => return Err(NotReleased::Failed(Error::Patch(place.name(), error))),
        }
        let keep = |owner: &OwnerRef| (!uids.contains(&owner.uid)).then(|| owner.clone());
        self.rewrite(place, keep).await
    }

    /// Makes an object block none of its owners. What else it is by then has to be read.
    pub(crate) async fn unblock(&self, place: &Place, owners: &[OwnerRef]) -> Result<(), Error> {
        let unblocked = |owner: &OwnerRef| OwnerRef { block_owner_deletion: Some(false), ..owner.clone() };
        let blocking: Vec<OwnerRef> =
            owners.iter().filter(|owner| owner.block_owner_deletion == Some(true)).map(unblocked).collect();
        let patch = json!({"metadata": {"uid": place.identity.uid, "ownerReferences": blocking}});
        match self.api.patch(place.target(), Patch::Strategic, &patch).await {
            Ok(_) => Ok(()),
            Err(error) if is_unsupported(&error) => {
                let set = |owner: &OwnerRef| {
                    Some(if owner.block_owner_deletion == Some(true) { unblocked(owner) } else { owner.clone() })
                };
                match self.rewrite(place, set).await {
                    Ok(()) | Err(NotReleased::Gone) => Ok(()),
                    Err(NotReleased::Failed(error)) => Err(error),
                }
            }
            Err(error) if says_absent(&error) => Ok(()),
            Err(error) => Err(Error::Patch(place.name(), error)),
        }
    }

    /// Writes the list of references anew, each as `keep` says, onto what is there.
    async fn rewrite(&self, place: &Place, keep: impl Fn(&OwnerRef) -> Option<OwnerRef>) -> Result<(), NotReleased> {
        for _ in 0..TRIES {
            let meta = self.read(place).await.map_err(NotReleased::Failed)?.ok_or(NotReleased::Gone)?;
            let left: Vec<OwnerRef> = meta.owners.iter().filter_map(&keep).collect();
            if left[..] == meta.owners[..] {
                return Ok(());
            }
            let left = if left.is_empty() { Value::Null } else { json!(left) };
            let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}});
            match self.api.patch(place.target(), Patch::Merge, &patch).await {
                Ok(_) => return Ok(()),
                Err(error) if says_absent(&error) => return Err(NotReleased::Gone),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(NotReleased::Failed(Error::Patch(place.name(), error))),
            }
        }
        Err(NotReleased::Failed(Error::Changing(place.name())))
    }
}
