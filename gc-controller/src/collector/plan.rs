//! What is done about an object as the graph knows it.

use common::controller::Explain;

use crate::parked::Awaited;

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, because.
    Nothing(&'static str),
    /// Nothing for now: this is waited for, because.
    Wait(Awaited, String),
    /// So many dependents block its deletion. Each was told to go, or is told when it turns up; the last one brings it back.
    Blocked(usize),
    /// It waits for nobody any more: its finalizer goes.
    Finish,
    /// It is deleted, as it was seen.
    Delete {
        /// How its own dependents are treated.
        propagation: Propagation,
        /// How many owners it had.
        owners: usize,
    },
    /// Its owners are looked up.
    Verify {
        /// How many are not known to be gone.
        uncertain: usize,
    },
    /// It is asked whether it exists at all: nobody has seen it.
    Exists,
}

/// How dependents of a deleted object are treated, as a DELETE says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are collected later.
    Background,
    /// They go first.
    Foreground,
    /// They are released.
    Orphan,
}

impl Propagation {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// What the finalizers of an object ask for.
    pub fn of_finalizers(orphans: bool, foreground: bool) -> Self {
        match (orphans, foreground) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Background,
        }
    }
}

fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing(why) => (*why).to_owned(),
            Self::Wait(..) => String::new(),
            Self::Blocked(_) => "it goes after its dependents".to_owned(),
            Self::Finish => "no dependent blocks its deletion".to_owned(),
            Self::Delete { owners, .. } => format!("{} and none exists", many(*owners, "owner")),
            Self::Verify { uncertain } => {
                format!("{} not known to be gone; it is deleted unless one is found", many(*uncertain, "owner"))
            }
            Self::Exists => "it is known from owner references only: it is looked up".to_owned(),
        }
    }

    fn waiting(&self) -> Vec<String> {
        match self {
            Self::Wait(_, why) => vec![why.clone()],
            Self::Blocked(dependents) => vec![format!("{} that block its deletion", many(*dependents, "dependent"))],
            _ => Vec::new(),
        }
    }
}
