//! How the Pods of a Job are scheduled: one by one, or together as a gang.

use std::{fmt, sync::Arc};

use common::intern::Text;

use crate::objects::Workload;

/// Whether the Pods of a Job are scheduled together, and in which `PodGroup`.
#[derive(Clone, Debug)]
pub enum PodScheduling {
    /// The Pods are scheduled one by one. The reason is `None` for a Job that cannot be a gang.
    OneByOne(Option<NoGangReason>),
    /// The Pods are scheduled together, in the existing `PodGroup` with this name.
    InPodGroup(Text),
    /// The Pods are scheduled together, in a `PodGroup` that must be created for this Workload.
    CreatePodGroup(Arc<Workload>),
    /// The Pods are scheduled together. The Workload and the `PodGroup` must be created.
    CreateWorkloadAndPodGroup,
}

/// The reason why a Job that could be a gang has its Pods scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGangReason {
    /// The Job was started without a Workload.
    StartedWithoutWorkload,
    /// This number of Workloads refer to the Job, more than one.
    SeveralWorkloads(usize),
    /// The object of this kind and name is not controlled by the Job.
    NotControlledByJob(&'static str, Text),
    /// The Workload of this name has this number of templates, not one.
    UnexpectedTemplateCount(Text, usize),
    /// This number of groups refer to the Workload of this name, more than one.
    SeveralPodGroups(Text, usize),
}

impl fmt::Display for NoGangReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartedWithoutWorkload => f.write_str("no Workload refers to the Job, and it has been started"),
            Self::SeveralWorkloads(count) => write!(f, "{count} Workloads refer to the Job"),
            Self::NotControlledByJob(kind, name) => write!(f, "{kind} {name} is not controlled by the Job"),
            Self::UnexpectedTemplateCount(name, count) => {
                write!(f, "Workload {name} has {count} podGroupTemplates, not one")
            }
            Self::SeveralPodGroups(name, count) => write!(f, "{count} PodGroups refer to Workload {name}"),
        }
    }
}
