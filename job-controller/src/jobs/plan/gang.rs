//! The scheduling of a Job's Pods.

use std::{fmt, sync::Arc};

use common::intern::Text;

use crate::objects::Workload;

/// How the Pods of a Job are scheduled.
#[derive(Clone, Debug)]
pub enum Gang {
    /// One by one; with a reason if the Job could be a gang.
    Ordinary(Option<Ordinary>),
    /// Together, in the group with this name.
    Group(Text),
    /// Together, in a group that must be created for this Workload.
    Make(Arc<Workload>),
    /// Together; both the Workload and the group must be created.
    MakeBoth,
}

/// The reason why the Pods of a possible gang are scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordinary {
    /// The Job has been started, and there is no Workload.
    Started,
    /// Several Workloads refer to the Job: this number.
    Workloads(usize),
    /// The object of this kind and name is not controlled by the Job.
    Foreign(&'static str, Text),
    /// The Workload of this name has this number of templates, not one.
    Templates(Text, usize),
    /// This number of groups refer to the Workload of this name, more than one.
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
