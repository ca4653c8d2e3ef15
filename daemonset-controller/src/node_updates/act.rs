use std::{
    convert::Infallible,
    future::{Ready, ready},
};

use common::io::{Io, Requeue, SyncError};

/// A sync of a changed node has nothing to record in memory.
pub(crate) type Note = Infallible;

/// Ends the sync without a request. The DaemonSets were already enqueued when the plan was recorded.
pub(crate) fn act(_: Io<'_, Note>) -> Ready<Result<Requeue, SyncError>> {
    ready(Ok(Requeue::AfterPlannedDelay))
}
