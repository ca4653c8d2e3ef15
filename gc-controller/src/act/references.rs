//! Changing the owner references of a dependent.
//!
//! Built-in kinds take a strategic patch, which names what goes and touches nothing else. Other kinds answer 415, and their
//! list is written as a whole.
//!
//! - What is written because of a judgement carries the version that was judged. A reference that was corrected or removed
//!   meanwhile is as its writer left it.
//! - Whoever is released from an owner that goes without its dependents loses every reference to that uid, whatever else it
//!   says. No version can make that wrong, and none is asked for.

use common::{
    api::{Error as ApiError, Patch},
    map::HashSet,
    meta::{OwnerRef, Uid},
};
use serde_json::{Value, json};

use super::{Act, Place, Subject, TRIES};
use crate::error::{Error, says_absent};

/// Why references could not be changed.
#[derive(Debug)]
pub(crate) enum NotReleased {
    /// There is no such object any more.
    Gone,
    /// Otherwise.
    Failed(Error),
}

/// What became of references that were to be written onto one version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// They are written.
    Written,
    /// The object is another version by now, or another object.
    Stale,
    /// There is no such object any more.
    Gone,
}

fn is_unsupported(error: &ApiError) -> bool {
    matches!(error, ApiError::Status(status) if status.code == 415)
}

impl Act<'_> {
    /// Removes every reference to these uids, whatever else is said or changed meanwhile.
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

    /// Removes the references to these uids of an object that was judged.
    pub(super) async fn drop_references(
        &self,
        place: &Place,
        subject: &Subject,
        uids: &[Uid],
        live: bool,
    ) -> Result<Put, Error> {
        let goes = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        // An object may have thousands of owners: they are looked up, not searched.
        let gone: HashSet<&Uid> = uids.iter().collect();
        let left = subject.owners.iter().filter(|owner| !gone.contains(&owner.uid)).cloned().collect();
        self.put(place, subject, goes, left, live).await
    }

    /// Makes an object that was judged block none of its owners.
    pub(super) async fn unblock(&self, place: &Place, subject: &Subject, live: bool) -> Result<Put, Error> {
        let blocks = |owner: &OwnerRef| owner.block_owner_deletion == Some(true);
        let unblocked = |owner: &OwnerRef| OwnerRef { block_owner_deletion: Some(false), ..owner.clone() };
        let changed =
            subject.owners.iter().filter(|owner| blocks(owner)).map(|owner| json!(unblocked(owner))).collect();
        let all = subject.owners.iter().map(|o| if blocks(o) { unblocked(o) } else { o.clone() }).collect();
        self.put(place, subject, changed, all, live).await
    }

    /// Writes references onto the version that was judged: the changes as a strategic patch, or else the whole list.
    async fn put(
        &self,
        place: &Place,
        subject: &Subject,
        changes: Vec<Value>,
        all: Vec<OwnerRef>,
        live: bool,
    ) -> Result<Put, Error> {
        let onto = |references: Value| json!({"metadata": {"uid": place.identity.uid, "resourceVersion": subject.version, "ownerReferences": references}});
        let mut answer = self.api.patch(place.target(), Patch::Strategic, &onto(json!(changes))).await;
        if answer.as_ref().is_err_and(is_unsupported) {
            let all = if all.is_empty() { Value::Null } else { json!(all) };
            answer = self.api.patch(place.target(), Patch::Merge, &onto(all)).await;
        }
        match answer {
            Ok(_) => Ok(Put::Written),
            Err(error) if says_absent(&error) => Ok(Put::Gone),
            // 422: the uid may be another's.
            Err(error) if error.is_conflict() || error.is_invalid() && !live => Ok(Put::Stale),
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
