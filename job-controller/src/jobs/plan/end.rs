//! The decided end of a Job: success or failure, with a reason.

use common::intern::Text;

use crate::objects::kinds;

/// Success or failure of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The Job ends with the condition `Complete`.
    Success,
    /// The Job ends with the condition `Failed`.
    Failure,
}

/// A decided end of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether the Job succeeds or fails.
    pub verdict: Verdict,
    /// The reason of the condition, as upstream writes it.
    pub reason: Text,
    /// The message of the condition, as upstream writes it.
    pub message: Box<str>,
    /// True if this sync decides the end; false if the stored status already announces it.
    pub is_new: bool,
}

impl End {
    pub(crate) fn new(verdict: Verdict, reason: &str, message: &str) -> Self {
        Self { verdict, reason: Text::new(reason), message: message.into(), is_new: true }
    }

    pub(crate) fn failure(reason: &str, message: &str) -> Self {
        Self::new(Verdict::Failure, reason, message)
    }

    /// Returns the end of a Job with enough succeeded Pods.
    pub fn completions_reached() -> Self {
        Self::new(Verdict::Success, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// Returns the type of the condition that announces the end before all Pods are counted.
    pub fn interim(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::SUCCESS_CRITERIA_MET,
            Verdict::Failure => kinds::FAILURE_TARGET,
        }
    }

    /// Returns the type of the condition that is set after every Pod is counted.
    pub fn terminal(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::COMPLETE,
            Verdict::Failure => kinds::FAILED,
        }
    }
}
