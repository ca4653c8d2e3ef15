//! The decided end of a Job: success or failure, with a reason.

use common::intern::Text;

use crate::objects::condition_types;

/// The final condition of a Job: `Complete` or `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobResult {
    /// The Job ends with the condition `Complete`.
    Success,
    /// The Job ends with the condition `Failed`.
    Failure,
}

/// The decision that a Job ends, with the reason and message for its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// The success or failure of the Job, which determines the types of the conditions.
    pub job_result: JobResult,
    /// The reason of the condition, as upstream writes it.
    pub reason: Text,
    /// The message of the condition, as upstream writes it.
    pub message: Box<str>,
    /// Whether this sync decides the end. False if the stored status already announces the end.
    pub is_newly_decided: bool,
}

impl JobEnd {
    pub(crate) fn new(verdict: JobResult, reason: &str, message: &str) -> Self {
        Self { job_result: verdict, reason: Text::new(reason), message: message.into(), is_newly_decided: true }
    }

    pub(crate) fn for_failure(reason: &str, message: &str) -> Self {
        Self::new(JobResult::Failure, reason, message)
    }

    /// Returns the success of a Job with `spec.completions` succeeded Pods or indexes.
    pub fn for_reached_completions() -> Self {
        Self::new(JobResult::Success, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// Returns the type of the condition that announces the end before all Pods are counted.
    pub fn interim_condition_type(&self) -> &'static str {
        match self.job_result {
            JobResult::Success => condition_types::SUCCESS_CRITERIA_MET,
            JobResult::Failure => condition_types::FAILURE_TARGET,
        }
    }

    /// Returns the type of the condition that is set after every Pod is counted.
    pub fn terminal_condition_type(&self) -> &'static str {
        match self.job_result {
            JobResult::Success => condition_types::COMPLETE,
            JobResult::Failure => condition_types::FAILED,
        }
    }
}
