//! The plan of one sync of the loop that deletes finished Jobs.

use std::time::Duration;

use common::controller::Explain;

use crate::jobs::plan::seconds;

/// The decision whether a Job is deleted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The Job is not deleted.
    Nothing,
    /// The sync fails, because the status does not contain the finish time.
    Unknown,
    /// The time to live has not ended yet.
    Wait {
        /// The time until the end of the time to live, never zero.
        left: Duration,
        /// Whether the finish time is in the future, because the clock of its writer is ahead.
        is_ahead: bool,
    },
    /// Deletes the Job, if the object on the API server confirms the decision.
    Remove {
        /// The time since the end of the time to live.
        late: Duration,
    },
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let is_to_stay = *self == Self::Nothing;
        if is_to_stay { "the Job is not to be removed" } else { "the Job has finished" }.to_owned()
    }

    fn waiting(&self) -> Vec<String> {
        match self {
            Self::Nothing | Self::Remove { .. } => Vec::new(),
            Self::Unknown => vec!["the status does not contain the finish time".to_owned()],
            Self::Wait { left, .. } => {
                vec![format!("it is removed in {}", seconds(*left))]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait { left, .. } = self { Some(*left) } else { None }
    }
}
