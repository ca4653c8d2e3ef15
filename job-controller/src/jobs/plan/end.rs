//! How a Job ends.

use common::intern::Text;

use crate::objects::kinds;

/// Whether a Job completes or fails.
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
    /// Whether the Job completes or fails.
    pub verdict: Verdict,
    /// The reason of the condition, as users and other programs know it.
    pub reason: Text,
    /// The message of the condition.
    pub message: Box<str>,
    /// Whether the status does not tell it yet.
    pub is_new: bool,
}

impl End {
    pub(crate) fn new(verdict: Verdict, reason: &str, message: &str) -> Self {
        Self { verdict, reason: Text::new(reason), message: message.into(), is_new: true }
    }

    pub(crate) fn failure(reason: &str, message: &str) -> Self {
        Self::new(Verdict::Failure, reason, message)
    }

    /// The end of a Job of which enough Pods have succeeded.
    pub fn completions_reached() -> Self {
        Self::new(Verdict::Success, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The type of the condition that is set once the end is decided.
    pub fn interim(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::SUCCESS_CRITERIA_MET,
            Verdict::Failure => kinds::FAILURE_TARGET,
        }
    }

    /// The type of the condition that is set once every Pod is counted.
    pub fn terminal(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => kinds::COMPLETE,
            Verdict::Failure => kinds::FAILED,
        }
    }
}
