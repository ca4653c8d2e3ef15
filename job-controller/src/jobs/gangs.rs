//! The caches of Workloads and `PodGroups` (gate `WorkloadWithJob`).

use std::sync::Arc;

use common::{
    consistency::LedgerCache,
    informer::{AnyInformer, CacheEventHandler, Informer, handler_from_method},
    object::{CachedObjectError, Object},
    runtime::LoopContext,
};

use super::{decide::gang::is_left_over_from_deleted_job, snapshot::SchedulingObjects, watch::EventHandlers};
use crate::objects::{ByReferencedObject, Job, PodGroup, Workload, referenced_object_index_value};

/// The caches of Workloads and `PodGroups`. An event enqueues a Job only if the Job's next sync waits for the event.
pub(crate) struct GangCaches {
    workloads: Informer<Workload>,
    groups: Informer<PodGroup>,
}

impl GangCaches {
    /// Starts the informers of Workloads and `PodGroups`.
    pub(crate) fn start(context: &LoopContext, watch: &Arc<EventHandlers>) -> Self {
        Self {
            workloads: context.start_informer(Arc::default(), scheduling_object_handler(watch)),
            groups: context.start_informer(Arc::default(), scheduling_object_handler(watch)),
        }
    }

    /// Returns the Workloads that refer to the Job. If there is exactly one, also returns the `PodGroups` that refer to it.
    pub(crate) fn scheduling_objects(&self, job: &Job) -> Result<SchedulingObjects, CachedObjectError> {
        let namespace = &job.metadata.namespace;
        let mut workloads = self
            .workloads
            .store()
            .list_by_index(ByReferencedObject, &referenced_object_index_value(namespace, &job.metadata.name))?;
        workloads.retain(|workload| !is_left_over_from_deleted_job(&workload.metadata, job));
        let groups = match workloads.as_slice() {
            [only] => self
                .groups
                .store()
                .list_by_index(ByReferencedObject, &referenced_object_index_value(namespace, &only.metadata.name))?,
            _ => Vec::new(),
        };
        Ok(SchedulingObjects { workloads, pod_groups: groups })
    }

    /// Returns both caches, which must show the writes of this process before the next sync of a Job.
    pub(crate) fn ledger_caches(&self) -> [&dyn LedgerCache; 2] {
        [&**self.workloads.store(), &**self.groups.store()]
    }

    /// Returns the informers, which must be synced before the loop starts.
    pub(crate) fn informers(&self) -> [&dyn AnyInformer; 2] {
        [&self.workloads, &self.groups]
    }
}

fn scheduling_object_handler<K: Object>(watch: &Arc<EventHandlers>) -> CacheEventHandler<K> {
    handler_from_method(watch, |watch, event, _| watch.on_scheduling_object(event.meta(), K::RESOURCE))
}
