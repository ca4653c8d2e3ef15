//! The caches of Workloads and `PodGroups` (gate `WorkloadWithJob`).

use std::sync::Arc;

use common::{informer::CacheEventHandler, object::CachedObjectError, prelude::*};

use super::{decide::gang::is_left_over_from_deleted_job, snapshot::SchedulingObjects, watch::EventHandlers};
use crate::objects::{ByReferencedObject, Job, PodGroup, Workload, referenced_object_index_value};

/// The caches of Workloads and `PodGroups`. An event enqueues a Job only if the Job's next sync waits for the event.
pub(crate) struct GangCaches {
    workloads: Arc<Store<Workload>>,
    groups: Arc<Store<PodGroup>>,
}

impl GangCaches {
    /// Starts the informers of Workloads and `PodGroups`.
    pub(crate) fn start(context: &LoopContext, event_handlers: &Arc<EventHandlers>) -> Self {
        Self {
            workloads: context.start_informer(Arc::default(), scheduling_object_handler(event_handlers)),
            groups: context.start_informer(Arc::default(), scheduling_object_handler(event_handlers)),
        }
    }

    /// Returns the Workloads that refer to the Job. If there is exactly one, also returns the `PodGroups` that refer to it.
    pub(crate) fn scheduling_objects(&self, job: &Job) -> Result<SchedulingObjects, CachedObjectError> {
        let references_to = |object: &Meta| referenced_object_index_value(&job.metadata.namespace, &object.name);
        let mut workloads = self.workloads.list_by_index(ByReferencedObject, &references_to(&job.metadata))?;
        workloads.retain(|workload| !is_left_over_from_deleted_job(&workload.metadata, job));
        let pod_groups = match workloads.as_slice() {
            [only] => self.groups.list_by_index(ByReferencedObject, &references_to(&only.metadata))?,
            _ => Vec::new(),
        };
        Ok(SchedulingObjects { workloads, pod_groups })
    }
}

fn scheduling_object_handler<K: Object>(event_handlers: &Arc<EventHandlers>) -> CacheEventHandler<K> {
    handler_from_method(event_handlers, |handlers, event, _| {
        handlers.on_scheduling_object(event.meta(), &K::RESOURCE);
    })
}
