//! The scheduling of a Job's Pods: one by one, or together as a gang.

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

/// The reason why the Pods of a Job that could be a gang are scheduled one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGangReason {
    /// The Job was started without a Workload.
    StartedWithoutWorkload,
    /// More than one Workload refers to the Job: the count of these Workloads.
    SeveralWorkloads(usize),
    /// The Job does not control the existing object with this kind and name.
    NotControlledByJob(&'static str, Text),
    /// The Workload with this name has no template or several templates: the count of templates.
    UnexpectedTemplateCount(Text, usize),
    /// More than one `PodGroup` refers to the Workload with this name: the count of these `PodGroups`.
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
