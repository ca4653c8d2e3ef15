//! The caches of Workloads and `PodGroups` (gate `WorkloadWithJob`).

use std::sync::Arc;

use common::{
    consistency::Cache,
    informer::{AnyInformer, Handler, Informer, handler},
    object::{Object, Unreadable},
    runtime::Context,
};

use super::{decide::gang::is_left_over, snapshot::Scheduling, watch::Watch};
use crate::objects::{ByReference, Job, PodGroup, Workload, named};

/// The caches of Workloads and `PodGroups`. Their events enqueue a Job only if the Job waits for such an event.
pub(crate) struct Gangs {
    workloads: Informer<Workload>,
    groups: Informer<PodGroup>,
}

impl Gangs {
    /// Starts the informers of Workloads and `PodGroups`.
    pub(crate) fn start(context: &Context, watch: &Arc<Watch>) -> Self {
        Self {
            workloads: context.informer(Arc::default(), on_shown(watch)),
            groups: context.informer(Arc::default(), on_shown(watch)),
        }
    }

    /// Returns the Workloads that refer to the Job, and the groups of the Workload if there is exactly one Workload.
    pub(crate) fn scheduling(&self, job: &Job) -> Result<Scheduling, Unreadable> {
        let namespace = &job.metadata.namespace;
        let mut workloads = self.workloads.store().by_index(ByReference, &named(namespace, &job.metadata.name))?;
        workloads.retain(|workload| !is_left_over(&workload.metadata, job));
        let groups = match workloads.as_slice() {
            [only] => self.groups.store().by_index(ByReference, &named(namespace, &only.metadata.name))?,
            _ => Vec::new(),
        };
        Ok(Scheduling { workloads, groups })
    }

    /// Returns the caches that must show the writes of this process before the next sync.
    pub(crate) fn caches(&self) -> [&dyn Cache; 2] {
        [&**self.workloads.store(), &**self.groups.store()]
    }

    /// Returns the informers, which must be synced before the loop starts.
    pub(crate) fn informers(&self) -> [&dyn AnyInformer; 2] {
        [&self.workloads, &self.groups]
    }
}

fn on_shown<K: Object>(watch: &Arc<Watch>) -> Handler<K> {
    handler(watch, |watch, event, _| watch.on_shown(event.meta(), K::RESOURCE))
}
