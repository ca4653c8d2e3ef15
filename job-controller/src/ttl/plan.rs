//! What one sync does.

use std::time::Duration;

use common::controller::Explain;

use crate::jobs::plan::seconds;

/// What one sync does about a finished Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Nothing,
    /// Nothing, with an error: the status does not tell when the Job finished.
    Unknown,
    /// Nothing yet: this is the rest of the time to live.
    Wait {
        /// How long that is.
        left: Duration,
        /// Whether the Job has finished in the future by the clock of the controller that wrote its status.
        is_ahead: bool,
    },
    /// Removes the Job, if it is still to be removed by what the API server has.
    Remove {
        /// How long ago the time to live ended.
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
            Self::Unknown => vec!["it is not known when the Job finished".to_owned()],
            Self::Wait { left, .. } => {
                vec![format!("it is removed in {}", seconds(*left))]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait { left, .. } = self { Some(*left) } else { None }
    }
}
