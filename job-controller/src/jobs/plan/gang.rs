//! How the Pods of a Job are scheduled.

use std::{fmt, sync::Arc};

use common::intern::Text;

use crate::objects::Workload;

/// How the Pods of a Job are scheduled.
#[derive(Clone, Debug)]
pub enum Gang {
    /// One by one; with a reason if the Job could be a gang.
    Ordinary(Option<Ordinary>),
    /// Together, as this group.
    Group(Text),
    /// Together, as a group that is to be created for this Workload.
    Make(Arc<Workload>),
    /// Together; there is neither a Workload nor a group yet.
    MakeBoth,
}

/// Why the Pods of a Job that could be a gang are scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordinary {
    /// The Job has been started, and there is no Workload.
    Started,
    /// This number of Workloads refer to the Job.
    Workloads(usize),
    /// The object of this kind and name is not controlled by the Job.
    Foreign(&'static str, Text),
    /// The Workload of this name has this number of templates, not one.
    Templates(Text, usize),
    /// More than one group refers to the Workload of this name: this number.
    Groups(Text, usize),
}

impl fmt::Display for Ordinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("no Workload refers to the Job, and it has been started"),
            Self::Workloads(count) => write!(f, "{count} Workloads refer to the Job"),
            Self::Foreign(kind, name) => write!(f, "{kind} {name} is not controlled by the Job"),
            Self::Templates(name, count) => write!(f, "Workload {name} has {count} podGroupTemplates, not one"),
            Self::Groups(name, count) => write!(f, "{count} PodGroups refer to Workload {name}"),
        }
    }
}
