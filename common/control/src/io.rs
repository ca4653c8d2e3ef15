//! The requests of one sync.
//!
//! A sync is an ordinary `async fn` that gets an [`Io`] and awaits nothing else. The sync runs twice: [`forecast_sync`] runs it
//! against a server that grants every request at once, and [`SyncExecutor`] runs it against the API server. `/debug/explain` and
//! shadow mode show the forecast. The [`RequestAccount`] states why the real run differs from the forecast.
//!
//! The executor does the work that all controllers have in common. It sends a write only while this process leads, adds
//! preconditions, and updates the version in a precondition after an earlier write of the same sync. It limits the concurrency
//! of groups of requests, classifies errors, and records the writes in the [`Ledger`](crate::consistency::Ledger).

mod account;
mod body;
mod claim;
mod group;
mod outcome;
mod own_writes;
mod pages;
mod pods;
mod request;
mod revisions;
mod run;
mod status;

#[cfg(test)]
mod tests;

pub use account::{Action, RequestAccount, RequestAccountEntry, SyncCallbacks};
pub use body::RequestBody;
pub use claim::{ChildClaim, ChildClaimResults};
pub use group::GroupConcurrency;
pub use outcome::{Requeue, RetryPolicy, SyncError, SyncErrorClass};
pub use pages::CollectionPages;
pub use pods::{create_pod, create_pod_with_answer, delete_pod};
pub use request::{AnswerMetadata, ObjectRole, Precondition, Refusal, RefusalClass, Request, Verb};
pub use revisions::{
    RawRevisionMembers, RevisionChange, RevisionChangeError, RevisionStoreOutcome, RevisionStoreRequest,
    delete_revision,
};
pub use run::{Answer, Io, SyncExecutor, SyncForecast, SyncSubject, forecast_sync};
pub use status::StatusReplacement;
