//! What is done about an object whose dependents are to be released.

use common::controller::Explain;

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: it does not have the finalizer, or is not going.
    Nothing,
    /// Nothing for now: not all objects of this resource are known.
    Wait(String),
    /// This many dependents are released, and then the object.
    Release(usize),
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing => "nothing is to be released".to_owned(),
            Self::Wait(_) => String::new(),
            Self::Release(count) => format!("it is deleted without its {count} dependents"),
        }
    }

    fn waiting(&self) -> Vec<String> {
        let Self::Wait(resource) = self else { return Vec::new() };
        vec![format!("not all {resource} are known; one may have to be released")]
    }
}
