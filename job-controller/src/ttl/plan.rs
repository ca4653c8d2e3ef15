//! What one sync does.

use std::time::Duration;

use common::controller::Explain;

/// What is done about a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Nothing,
    /// Nothing can be done: it is not known when the Job finished.
    Unknown,
    /// It is too early, by that much.
    Wait(Duration),
    /// It is removed if the server agrees that it is time.
    Remove {
        /// For how long it has been time.
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
            Self::Wait(left) => {
                let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                vec![format!("it is removed in {left}s")]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait(left) = self { Some(*left) } else { None }
    }
}
