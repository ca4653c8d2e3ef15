//! Enqueues the CronJobs that the events of CronJobs and Jobs affect.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Clock,
    consistency::Ledger,
    controller::priority,
    events::{ObjectRef, Recorder},
    meta::{Key, Meta},
    owners::owner_of,
    queue::{Priority, Queue},
    store::{Event, Origin, Store},
};

use crate::{
    decide::{changed_schedule, runs},
    due::{Anchor, next_firing},
    objects::{CRON_JOBS, CronJob, Job},
    plan,
};

/// Handlers of CronJob and Job events. Upstream: `pkg/controller/cronjob`, `updateCronJob`, `addJob`, `updateJob`, `deleteJob`.
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) crons: Arc<Store<CronJob>>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
}

impl Watch {
    /// Enqueues the CronJob of an event: at its next firing if the schedule or the time zone has changed, otherwise at once.
    pub(crate) fn on_cron(&self, event: &Event<CronJob>, origin: Origin) {
        if let Event::Deleted(cron) = event {
            self.ledger.forget(&cron.metadata.uid);
        }
        if let Event::Updated { old, new } = event
            && (old.spec.schedule != new.spec.schedule || old.spec.time_zone != new.spec.time_zone)
        {
            return self.on_schedule(new);
        }
        self.queue.add(event.meta().key(), priority(origin));
    }

    fn on_schedule(&self, cron: &CronJob) {
        let now = self.clock.now();
        match changed_schedule(&cron.spec) {
            Ok(schedule) => {
                let anchor = runs::anchor(cron).unwrap_or(Anchor::Creation(now));
                let next = next_firing(&schedule, anchor, now);
                let delay = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok()).unwrap_or_default();
                self.queue.add_after(cron.metadata.key(), delay);
            }
            Err(_) => {
                let message = format!("unparseable schedule for cronjob: {}", cron.spec.schedule);
                let event = plan::Event::warning("UnParseableCronJobSchedule", message);
                let object = ObjectRef::new(CRON_JOBS, &cron.metadata);
                self.recorder.event(&object, event.kind, event.reason, event.message);
            }
        }
    }

    /// Enqueues the CronJob that controls the Job of an event, or controlled it before the event.
    pub(crate) fn on_job(&self, event: &Event<Job>, _origin: Origin) {
        match event {
            Event::Added(job) | Event::Deleted(job) => self.add_owner(&job.metadata),
            Event::Unreadable(job) => self.add_owner(&job.meta),
            Event::Updated { old, new } if old.metadata.resource_version != new.metadata.resource_version => {
                if old.metadata.controller() != new.metadata.controller() {
                    self.add_owner(&old.metadata);
                }
                self.add_owner(&new.metadata);
            }
            Event::Updated { .. } => {}
        }
    }

    fn add_owner(&self, job: &Meta) {
        if let Some(cron) = owner_of(&self.crons, job) {
            self.queue.add(cron.metadata.key(), Priority::Normal);
        }
    }
}
