//! How a Job ends.

use common::intern::Text;

use crate::objects::kinds;

/// Reasons of conditions, as users and other programs know them.
pub mod reasons {
    /// A rule of the failure policy says so.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// Too many Pods failed.
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// It took too long.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Too many indexes failed.
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// All indexes are over and some have failed.
    pub const FAILED_INDEXES: &str = "FailedIndexes";
    /// A rule of the success policy says so.
    pub const SUCCESS_POLICY: &str = "SuccessPolicy";
    /// Everything has succeeded.
    pub const COMPLETIONS_REACHED: &str = "CompletionsReached";
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The Job completes.
    Success,
    /// The Job fails.
    Failure,
}

/// An end that is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Which.
    pub verdict: Verdict,
    /// One word for machines.
    pub reason: Text,
    /// A sentence for people.
    pub message: Box<str>,
    /// Whether the status does not say so yet.
    pub is_new: bool,
}

impl End {
    pub(in crate::jobs) fn new(verdict: Verdict, reason: &str, message: &str) -> Self {
        Self { verdict, reason: Text::new(reason), message: message.into(), is_new: true }
    }

    pub(in crate::jobs) fn failure(reason: &str, message: &str) -> Self {
        Self::new(Verdict::Failure, reason, message)
    }

    /// Everything has succeeded.
    pub fn completions_reached() -> Self {
        Self::new(Verdict::Success, reasons::COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
    }

    /// The condition that says that it is decided.
    pub fn interim(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::SUCCESS_CRITERIA_MET,
            Verdict::Failure => kinds::FAILURE_TARGET,
        }
    }

    /// The condition that says that it has happened.
    pub fn terminal(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::COMPLETE,
            Verdict::Failure => kinds::FAILED,
        }
    }
}
