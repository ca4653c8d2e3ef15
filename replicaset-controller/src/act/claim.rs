//! Adopting and releasing Pods.

use common::{
    claim::{Claiming, WrittenVersions},
    pods::PODS,
};

use crate::{
    ReplicaController,
    decide::{PodRef, Snapshot},
    error::Error,
    kind::Kind,
};

impl<K: Kind> ReplicaController<K> {
    /// Releases and adopts; gives back the Pods that were adopted.
    pub(super) async fn claim(
        &self,
        snapshot: &Snapshot,
        adopt: &[PodRef],
        release: &[PodRef],
        versions: &WrittenVersions,
    ) -> Result<Vec<PodRef>, Error> {
        let claiming = Claiming {
            api: &self.context.api,
            ledger: &self.ledger,
            owner: &snapshot.owner,
            children: PODS,
            finalizers: &[],
        };
        Ok(claiming.carry_out_noting(adopt, release, versions).await?)
    }
}
