//! The requests of one sync: what carries a plan out.
//!
//! A sync is an ordinary `async fn` that gets an [`Io`] and awaits nothing else. It runs twice. [`forecast`] runs it against a server
//! that grants everything at once, which is what `/debug/explain` and shadow mode show; [`Executor`] runs it against the API server.
//! Both run the same code. A forecast is what the plan leads to if every request is granted; where a sync differs from its forecast, the
//! account says why.
//!
//! The executor does what every controller would otherwise repeat: it sends nothing unless this process leads, adds preconditions, names
//! the versions at which earlier writes of the same sync left objects, paces groups of requests, classifies errors, notes own writes in the
//! [`Ledger`](crate::consistency::Ledger), and keeps the [`Account`] of what was done and of what was left out, and why.

mod account;
mod claim;
mod effect;
mod group;
mod outcome;
mod own_writes;
mod pods;
mod request;
mod revisions;
mod run;

#[cfg(test)]
mod tests;

pub use account::{Account, AccountObserver, Action, Entry};
pub use claim::{Claim, ClaimResults};
pub use effect::Note;
pub use group::Pace;
pub use outcome::{Failed, Requeue, Retry};
pub use pods::{create_pod, create_pod_with_answer, delete_pod};
pub use request::{Body, Class, Fields, Precondition, Refusal, Request, Role, Verb};
pub use revisions::{Change, RawMembers, Refused, StoreRevision, Stored, delete_revision};
pub use run::{Answer, Executor, Forecast, Io, Subject, forecast};
