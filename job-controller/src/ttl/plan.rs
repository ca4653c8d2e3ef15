//! The plan of one sync of the loop that deletes finished Jobs.

use std::time::Duration;

use common::controller::ExplainPlan;

use crate::jobs::plan::format_whole_seconds;

/// The decision whether a Job is deleted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The Job has not finished, is already terminating, or has no time to live.
    KeepJob,
    /// The sync fails, because the status does not contain the finish time.
    NoFinishTime,
    /// The time to live has not ended yet.
    WaitForExpiry {
        /// The time until the end of the time to live, never zero.
        time_to_expiry: Duration,
        /// Whether the finish time is in the future, because the clock of its writer is ahead.
        is_finish_time_in_future: bool,
    },
    /// The time to live has ended. The Job is deleted if a read from the API server confirms the decision.
    DeleteJob {
        /// The time since the end of the time to live.
        time_since_expiry: Duration,
    },
}

impl ExplainPlan for Plan {
    fn situation(&self) -> String {
        let is_to_stay = *self == Self::KeepJob;
        if is_to_stay { "the Job is not to be removed" } else { "the Job has finished" }.to_owned()
    }

    fn wait_reasons(&self) -> Vec<String> {
        match self {
            Self::KeepJob | Self::DeleteJob { .. } => Vec::new(),
            Self::NoFinishTime => vec!["the status does not contain the finish time".to_owned()],
            Self::WaitForExpiry { time_to_expiry: left, .. } => {
                vec![format!("it is removed in {}", format_whole_seconds(*left))]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::WaitForExpiry { time_to_expiry: left, .. } = self { Some(*left) } else { None }
    }
}
