//! The plan for an object with the finalizer `orphan`.

use common::controller::SyncPlan;

/// Work on the dependents of a terminating object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is no work: the object is not terminating, or does not have the finalizer.
    Nothing,
    /// The release waits, because the initial list of this resource is not complete.
    Wait(String),
    /// This number of dependents is released. Then the finalizer is removed.
    Release(usize),
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing => "nothing is to be released".to_owned(),
            Self::Wait(_) => String::new(),
            Self::Release(count) => format!("it is deleted without its {count} dependents"),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let Self::Wait(resource) = self else { return Vec::new() };
        vec![format!("not all {resource} are known; one may have to be released")]
    }
}
