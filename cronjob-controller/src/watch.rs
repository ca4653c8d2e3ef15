//! Enqueues the CronJobs that the events of CronJobs and Jobs affect.

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use crate::{
    decide::{parse_schedule_ignoring_unknown_time_zone, runs},
    due::{RunSearchStart, next_firing_with_new_job_name},
    objects::{CRON_JOBS, CronJob, Job},
    plan::PlannedEvent,
};

/// Handlers of CronJob and Job events. Upstream: `pkg/controller/cronjob`, `updateCronJob`, `addJob`, `updateJob`, `deleteJob`.
pub(crate) struct EventHandlers {
    pub(crate) queue: Queue<NamespacedName>,
    pub(crate) cron_jobs: Arc<Store<CronJob>>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    pub(crate) recorder: EventRecorder,
}

impl EventHandlers {
    /// Enqueues the CronJob of an event: at its next firing if the schedule or the time zone has changed, otherwise now.
    pub(crate) fn on_cron_job_event(&self, event: &CacheEvent<CronJob>, origin: ChangeOrigin) {
        if let CacheEvent::Deleted(cron) = event {
            self.ledger.forget_owner(&cron.metadata.uid);
        }
        if let CacheEvent::Updated { old, new } = event
            && (old.spec.schedule != new.spec.schedule || old.spec.time_zone != new.spec.time_zone)
        {
            return self.on_schedule(new);
        }
        self.queue.add(event.meta().key(), origin);
    }

    fn on_schedule(&self, cron: &CronJob) {
        let now = self.clock.now();
        match parse_schedule_ignoring_unknown_time_zone(&cron.spec) {
            Ok(schedule) => {
                let search_start = runs::run_search_start(cron).unwrap_or(RunSearchStart::Creation(now));
                let next = next_firing_with_new_job_name(&schedule, search_start, now);
                let delay = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok()).unwrap_or_default();
                self.queue.add_after(cron.metadata.key(), delay);
            }
            Err(_) => {
                let message = format!("unparseable schedule for cronjob: {}", cron.spec.schedule);
                let event = PlannedEvent::warning("UnParseableCronJobSchedule", message);
                let object = InvolvedObject::new(CRON_JOBS, &cron.metadata);
                self.recorder.record_event(&object, event.event_type, event.reason, event.message);
            }
        }
    }

    /// Enqueues the CronJob that controls the Job of an event, or controlled it before the event.
    pub(crate) fn on_job_event(&self, event: &CacheEvent<Job>, _origin: ChangeOrigin) {
        for owners in concerned_owners(event) {
            if let ConcernedOwners::Controller(job) = owners
                && let Some(cron_job) = controlling_owner(&self.cron_jobs, job)
            {
                self.queue.add(cron_job.metadata.key(), Priority::Normal);
            }
        }
    }
}
